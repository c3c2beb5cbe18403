"""The mesh: what is seen of it where, exact maps over it, and crops that stand upright."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.geometry import transform
from mien.mesh import (
    BROWS,
    EYE_CORNERS,
    EYES,
    LIPS,
    NOSE_TIP,
    OVAL,
    SURFACE,
    IntArray,
    interpolate,
    polygon_mask,
    rasterise,
    signed_area,
    topology,
    upright_matrix,
    vertex_normals,
)
from mien.types import FloatArray
from tests import heads

WIDTH, HEIGHT = 150, 130


def head(**turn: float) -> FloatArray:
    return heads.mesh(90, (70, 62), heads.turn(**turn))


def surface(mesh: FloatArray) -> FloatArray:
    return np.ascontiguousarray(mesh[:SURFACE, :2])


def covering(points: FloatArray, x: float, y: float) -> tuple[IntArray, FloatArray]:
    """Front-facing triangles that hold a pixel well inside, and its (N, 3) barycentric coordinates in each."""
    triangles = topology().triangles
    a, b, c = (points[triangles[:, i]].astype(np.float64) for i in range(3))
    p = np.array([x, y])

    def cross(u: heads.DoubleArray, v: heads.DoubleArray) -> heads.DoubleArray:
        return np.asarray(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])

    area = cross(b - a, c - a)
    safe = np.where(np.abs(area) < 1e-6, 1.0, area)
    shares = np.stack([cross(b - p, c - p), cross(c - p, a - p), cross(a - p, b - p)], 1) / safe[:, None]
    hit = np.flatnonzero((area > 1e-6) & (shares.min(1) >= 0.05))
    return hit.astype(np.int32), shares[hit].astype(np.float32)


@pytest.mark.parametrize("turn", [{}, {"yaw": 40.0}, {"roll": 75.0, "pitch": -20.0}])
def test_affine_functions_are_interpolated_exactly(turn: dict[str, float]) -> None:
    points = surface(head(**turn))
    ids = rasterise(points, head(**turn)[:SURFACE, 2], WIDTH, HEIGHT)
    values = np.c_[points, 3 - 0.5 * points[:, 0] + 0.25 * points[:, 1]].astype(np.float32)
    found = interpolate(ids, points, values)
    assert found.shape == (HEIGHT, WIDTH, 3) and found.dtype == np.float32
    rows, columns = np.nonzero(ids >= 0)
    assert len(rows) > 2000
    truth = np.c_[columns, rows, 3 - 0.5 * columns + 0.25 * rows]
    error = np.abs(found[rows, columns] - truth)
    # A pixel on an edge may lie outside its triangle by less than itself; its value is held to the triangle's.
    assert error.max() < 1.0
    assert np.percentile(error, 80) < 1e-3
    assert (found[ids < 0] == 0).all()


def test_pixels_inside_a_triangle_take_the_barycentric_mean() -> None:
    mesh = head(yaw=20)
    points = surface(mesh)
    values = np.random.default_rng(1).uniform(-1, 1, (SURFACE, 4)).astype(np.float32)
    ids = rasterise(points, mesh[:SURFACE, 2], WIDTH, HEIGHT)
    found = interpolate(ids, points, values)
    tried = 0
    for y, x in np.random.default_rng(2).permutation(np.argwhere(ids >= 0))[:300].tolist():
        hit, shares = covering(points, x, y)
        for index, share in zip(hit.tolist(), shares, strict=True):
            if index == ids[y, x]:
                tried += 1
                np.testing.assert_allclose(found[y, x], share @ values[topology().triangles[index]], atol=1e-3)
    assert tried > 100


def test_the_near_surface_hides_the_far_one() -> None:
    mesh = head(yaw=55)
    points, depth = surface(mesh), mesh[:SURFACE, 2]
    ids = rasterise(points, depth, WIDTH, HEIGHT)
    hidden = 0
    for y, x in np.argwhere(ids >= 0).tolist():
        hit, shares = covering(points, x, y)
        if len(hit) < 2:
            continue
        depths = (depth[topology().triangles[hit]] * shares).sum(1)
        if np.ptp(depths) < 10:  # pixels; the painter's order of neighbours is not of interest
            continue
        hidden += 1
        assert ids[y, x] not in hit[depths > depths.min() + 10]
    assert hidden > 50
    assert (rasterise(points, -depth, WIDTH, HEIGHT) != ids).sum() > 50


def test_triangles_that_face_away_are_culled() -> None:
    ahead = topology().uv * np.array([WIDTH - 1, HEIGHT - 1], np.float32)
    assert (rasterise(ahead, None, WIDTH, HEIGHT) >= 0).mean() > 0.5
    mirrored = np.array([WIDTH - 1, 0], np.float32) + ahead * np.array([-1, 1], np.float32)
    assert (rasterise(mirrored, None, WIDTH, HEIGHT) == -1).all()
    mesh = head(yaw=70)
    seen = np.unique(rasterise(surface(mesh), mesh[:SURFACE, 2], WIDTH, HEIGHT))
    assert (signed_area(surface(mesh), topology().triangles)[seen[seen >= 0]] > 0).all()


def test_a_mesh_outside_the_picture_is_not_seen() -> None:
    mesh = head() + np.array([1000, 0, 0], np.float32)
    ids = rasterise(surface(mesh), None, WIDTH, HEIGHT)
    assert (ids == -1).all()
    assert (interpolate(ids, surface(mesh), topology().uv) == 0).all()


def test_signed_area_is_twice_the_area_with_its_sign() -> None:
    points = np.array([[0, 0], [4, 0], [0, 3]], np.float32)
    assert signed_area(points, np.array([[0, 1, 2], [0, 2, 1], [0, 1, 1]], np.int32)).tolist() == [12, -12, 0]


def test_the_topology_is_upright_and_front_facing_in_uv() -> None:
    mesh = topology()
    assert mesh.triangles.shape == (898, 3) and mesh.uv.shape == (SURFACE, 2) and mesh.vertices.shape == (SURFACE, 3)
    assert mesh.uv.min() >= 0 and mesh.uv.max() <= 1
    assert mesh.uv[10, 1] < mesh.uv[NOSE_TIP, 1] < mesh.uv[152, 1]
    assert mesh.uv[EYE_CORNERS[0], 0] < mesh.uv[EYE_CORNERS[1], 0]
    assert (signed_area(mesh.uv, mesh.triangles) >= 0).all()
    assert (signed_area(surface(head()), mesh.triangles) > 0).mean() > 0.95


def test_the_mirror_map_swaps_left_and_right() -> None:
    uv, mirror = topology().uv, topology().mirror
    np.testing.assert_array_equal(mirror[mirror], np.arange(SURFACE))
    np.testing.assert_allclose(uv[mirror], np.c_[1 - uv[:, 0], uv[:, 1]], atol=0.01)
    for left, right in (EYES, BROWS):
        assert set(mirror[list(left)].tolist()) == set(right)
    for ring in (OVAL, LIPS):
        assert set(mirror[list(ring)].tolist()) == set(ring)
    assert mirror[[10, 152, NOSE_TIP]].tolist() == [10, 152, NOSE_TIP]


def test_normals_are_unit_and_look_where_the_face_looks() -> None:
    for yaw in (0, 60):
        normals = vertex_normals(head(yaw=yaw))
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-5)
        ahead = heads.turn(yaw) @ [0, 0, -1]
        assert normals.mean(0) @ ahead > 0.5
    np.testing.assert_allclose(vertex_normals(head(yaw=60)), vertex_normals(head()) @ heads.turn(60).T, atol=1e-4)


def test_a_polygon_mask_has_the_polygons_area() -> None:
    square = np.array([[10, 20], [40, 20], [40, 60], [10, 60]], np.float32)
    mask = polygon_mask(square, 80, 70)
    assert mask.shape == (70, 80) and set(np.unique(mask)) == {0, 1}
    assert mask.sum() == 31 * 41
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    disc = np.c_[40.3 + 25 * np.cos(angle), 33.7 + 25 * np.sin(angle)].astype(np.float32)
    assert abs(polygon_mask(disc, 80, 70).sum() - np.pi * 25**2) < 0.6 * 2 * np.pi * 25
    assert polygon_mask(disc + 500, 80, 70).sum() == 0


@settings(deadline=None, max_examples=40)
@given(st.floats(-180, 180), st.floats(0.2, 20), st.floats(-300, 300), st.floats(1.0, 2.0), st.sampled_from([64, 257]))
def test_an_upright_crop_does_not_know_roll_size_or_place(
    roll: float, scale: float, shift: float, margin: float, size: int
) -> None:
    still = head(yaw=15)
    moved = (still @ heads.turn(roll=roll).T * scale + [shift, 2 * shift, 0]).astype(np.float32)
    plain, turned = (transform(m[:, :2], upright_matrix(m, margin, size)) for m in (still, moved))
    np.testing.assert_allclose(turned, plain, atol=0.02 * size / 64)
    left, right = turned[EYE_CORNERS[0]], turned[EYE_CORNERS[1]]
    assert abs(left[1] - right[1]) < 0.02 * size / 64 and right[0] > left[0]
    low, high = turned[:SURFACE].min(0), turned[:SURFACE].max(0)
    np.testing.assert_allclose((high - low).max(), size / margin, rtol=1e-3)
    np.testing.assert_allclose((low + high) / 2, (size - 1) / 2, atol=0.02 * size / 64)
