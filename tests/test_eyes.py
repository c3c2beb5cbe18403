"""Eyes: the source's, looking where the target looks, inside the target's lids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.eyes import eye_map, put_eyes, uv_of
from mien.geometry import transform
from mien.identity_data import IdentityData
from mien.mesh import EYES, IRISES, SURFACE, polygon_mask, topology
from mien.types import FloatArray
from tests import heads

SIDE = 260
SOURCE = heads.mesh(200, (120, 130))
BLUE, GREEN, SKIN, WHITE = (0.1, 0.2, 0.6), (0.1, 0.5, 0.15), (0.6, 0.4, 0.35), (0.85, 0.85, 0.85)


def lids(mesh: FloatArray, eye: int) -> FloatArray:
    return np.ascontiguousarray(mesh[list(EYES[eye]), :2])


def iris_uv(eye: int) -> FloatArray:
    """Where the iris of the canonical head, which looks ahead, lies in UV."""
    return np.asarray(topology().uv[list(EYES[eye])].mean(0), np.float32)


def opened(mesh: FloatArray, share: float) -> FloatArray:
    """The mesh with both eyes opened to `share` of their height."""
    out = mesh.copy()
    for eye in (0, 1):
        middle = lids(mesh, eye)[[0, 8], 1].mean()
        out[list(EYES[eye]), 1] = middle + (lids(mesh, eye)[:, 1] - middle) * share
    return out


def looking(mesh: FloatArray, dx: float) -> FloatArray:
    """The mesh with both irises moved by dx pixels."""
    out = mesh.copy()
    out[SURFACE:, 0] += dx
    return out


def eyes_painted(width: int, height: int, points: list[FloatArray], irises: list[FloatArray], radius: float,
                 colour: tuple[float, ...]) -> FloatArray:  # fmt: skip
    """Skin with two white eyes and round irises."""
    image = np.broadcast_to(np.array(SKIN, np.float32), (height, width, 3)).copy()
    rows, columns = np.mgrid[:height, :width]
    for contour, (x, y) in zip(points, irises, strict=True):
        inside = polygon_mask(contour, width, height) > 0
        image[inside] = WHITE
        image[inside & ((columns - x) ** 2 + (rows - y) ** 2 < radius**2)] = colour
    return image


def identity(trust: float = 1.0) -> IdentityData:
    """A person with green eyes that look ahead."""
    size = 512
    scale = size - 1
    uv = topology().uv * scale
    texture = eyes_painted(size, size, [uv[list(e)] for e in EYES], [iris_uv(e) * scale for e in (0, 1)], 14, GREEN)
    unit = np.zeros(4, np.float32)
    return IdentityData(unit, texture, np.full((size, size), trust, np.float32), SOURCE, SOURCE[:SURFACE])


def target(mesh: FloatArray) -> FloatArray:
    """A picture with blue eyes that look where the mesh looks."""
    irises = [mesh[IRISES[eye][0], :2] for eye in (0, 1)]
    return eyes_painted(SIDE, SIDE, [lids(mesh, e) for e in (0, 1)], irises, 6, BLUE)


def put(mesh: FloatArray, person: IdentityData, seen: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Before and after, on a grey face."""
    crop = target(mesh)
    rgb = np.full_like(crop, 0.3)
    put_eyes(rgb, crop, mesh, person, np.full(crop.shape[:2], seen, np.float32))
    return crop, rgb


def well_inside(mesh: FloatArray, share: float) -> FloatArray:
    """(SIDE, SIDE) 0/1 in the middle of both eyes, away from the lids."""
    masks = []
    for eye in (0, 1):
        contour = lids(mesh, eye)
        masks.append(polygon_mask((contour - contour.mean(0)) * np.float32(share) + contour.mean(0), SIDE, SIDE))
    return np.asarray(masks[0] + masks[1], np.float32)


@settings(deadline=None, max_examples=40)
@given(
    st.floats(-30, 30), st.floats(-180, 180), st.floats(20, 900), st.floats(-0.04, 0.04), st.sampled_from([0, 1])
)  # fmt: skip
def test_the_targets_iris_shows_the_sources(yaw: float, roll: float, width: float, gaze: float, eye: int) -> None:
    mesh = looking(heads.mesh(width, (300, 200), heads.turn(yaw, roll=roll)), gaze * width)
    found = eye_map(SOURCE, mesh, eye)
    at = transform(mesh[IRISES[eye][0], :2], found.to_source)
    np.testing.assert_allclose(uv_of(SOURCE, eye, at[None, None])[0, 0], iris_uv(eye), atol=0.003)
    assert found.fit == pytest.approx(1)


@pytest.mark.parametrize("eye", [0, 1])
def test_lids_fall_on_lids_when_both_look_alike(eye: int) -> None:
    mesh = heads.mesh(90, (300, 200), heads.turn(roll=35))
    uv = uv_of(SOURCE, eye, transform(lids(mesh, eye), eye_map(SOURCE, mesh, eye).to_source)[None])
    np.testing.assert_allclose(uv[0], topology().uv[list(EYES[eye])], atol=0.006)


@pytest.mark.parametrize("eye", [0, 1])
def test_the_other_eye_is_put_mirrored(eye: int) -> None:
    mesh = heads.mesh(90, (300, 200), heads.turn(roll=35))
    uv = uv_of(SOURCE, 1 - eye, transform(lids(mesh, eye), eye_map(SOURCE, mesh, eye, 1 - eye).to_source)[None])
    np.testing.assert_allclose(uv[0], topology().uv[list(EYES[1 - eye])], atol=0.006)


@pytest.mark.parametrize("eye", [0, 1])
def test_a_closed_eye_of_the_source_does_not_fit(eye: int) -> None:
    assert eye_map(opened(SOURCE, 0.0), SOURCE, eye).fit == 0
    assert eye_map(opened(SOURCE, 0.1), SOURCE, eye).fit == 0


@pytest.mark.parametrize("eye", [0, 1])
def test_fit_falls_as_the_target_opens_wider_than_the_source(eye: int) -> None:
    fits = [eye_map(SOURCE, opened(SOURCE, share), eye).fit for share in (0.3, 1.0, 1.25, 1.5, 1.75, 2.5)]
    assert fits[:2] == [1, 1] and fits[-1] == 0
    assert fits == sorted(fits, reverse=True)


def test_the_sources_iris_is_drawn_where_the_target_looks() -> None:
    for dx in (0.0, 5.0, -5.0):
        mesh = looking(SOURCE, dx)
        _, rgb = put(mesh, identity())
        for eye in (0, 1):
            x, y = mesh[IRISES[eye][0], :2].round().astype(int)
            np.testing.assert_allclose(rgb[y, x], GREEN, atol=0.12)
            side = round(x - 12 * np.sign(dx)) if dx else x + 12
            assert rgb[y, side].min() > 0.6  # the white


def test_outside_the_lids_nothing_changes() -> None:
    _, rgb = put(SOURCE, identity())
    near = well_inside(SOURCE, 1.0)
    rows, columns = np.nonzero(near)
    assert (rgb[rows, columns] != np.float32(0.3)).any(1).mean() > 0.9
    far = np.ones((SIDE, SIDE), bool)
    for eye in (0, 1):
        x0, y0 = lids(SOURCE, eye).min(0).astype(int) - 6
        x1, y1 = lids(SOURCE, eye).max(0).astype(int) + 8
        far[y0:y1, x0:x1] = False
    assert (rgb[far] == np.float32(0.3)).all()


@pytest.mark.parametrize(
    ("person", "seen"),
    [
        (identity(trust=0.0), 1.0),
        (identity(), 0.0),
        (replace(identity(), mesh=opened(SOURCE, 0.0)), 1.0),
    ],
    ids=["not seen in the source", "covered in the target", "closed in the source"],
)
def test_the_targets_own_eye_stays(person: IdentityData, seen: float) -> None:
    crop, rgb = put(looking(SOURCE, 4.0), person, seen)
    middle = well_inside(SOURCE, 0.3) > 0
    assert middle.sum() > 50
    np.testing.assert_allclose(rgb[middle], crop[middle], atol=0.01)


def test_an_eye_that_is_hidden_in_the_source_is_the_other_one_mirrored() -> None:
    person = identity()
    trust = person.trust.copy()
    trust[:, len(trust) // 2 :] = 0
    for gaze in (0.0, 4.0, -4.0):
        mesh = looking(SOURCE, gaze)
        _, whole = put(mesh, person)
        _, half = put(mesh, replace(person, trust=trust))
        middle = well_inside(SOURCE, 0.5) > 0
        # The painted eyes mirror each other, so nothing tells which of them was drawn.
        assert np.abs(half - whole)[middle].mean() < 0.03
        x, y = mesh[IRISES[1][0], :2].round().astype(int)
        np.testing.assert_allclose(half[y, x], GREEN, atol=0.12)


def test_a_targets_eye_that_stays_is_drawn_up_to_its_lids() -> None:
    _, kept = put(SOURCE, identity(trust=0.0))
    _, drawn = put(SOURCE, identity())
    ring = (well_inside(SOURCE, 0.9) > 0) & (well_inside(SOURCE, 0.75) == 0)
    # Of a source's, the edges of the lids come with the texture.
    assert np.abs(drawn[ring] - 0.3).mean() < np.abs(kept[ring] - 0.3).mean()


def test_light_is_that_of_the_targets_white() -> None:
    crop = target(SOURCE) * np.float32(0.8)
    rgb = crop.copy()
    put_eyes(rgb, crop, SOURCE, identity(), np.ones((SIDE, SIDE), np.float32))
    x, y = SOURCE[IRISES[0][0], :2].round().astype(int)
    np.testing.assert_allclose(rgb[y, x + 12], crop[y, x + 12], atol=0.04)
    assert rgb[y, x].max() < 0.5


@pytest.mark.parametrize("shift", [(-75.0, 0.0), (0.0, -85.0), (1000.0, 0.0)])
def test_eyes_at_and_beyond_the_edge_of_the_picture(shift: tuple[float, float]) -> None:
    mesh = SOURCE + np.array([*shift, 0], np.float32)
    _, rgb = put(mesh, identity())
    assert np.isfinite(rgb).all()
    assert ((rgb != np.float32(0.3)).any()) == (shift[0] < SIDE)
