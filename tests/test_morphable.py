"""The morphable head: what is put into meshes and pictures comes out of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mien.errors import GeometryError
from mien.faces import FaceFinder
from mien.light import light_of
from mien.mesh import OVAL, SURFACE, constants, vertex_normals
from mien.morphable import Fit, Person, expression_names, fit, sides, transfer
from mien.types import Face, FloatArray
from mien.zoo.registry import Zoo
from tests import heads
from tests.curvature import curvature_correlation
from tests.rendered_heads import HeadModel, Rendered, Scene, render, scene

HEADS = Path(__file__).parent / "fixtures" / "heads" / "ict_head.npz"
SEEDS = range(9000, 9010)


def somebody(
    seed: int, yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0, distance: float = 90.0, scale: float = 12.0
) -> Fit:
    """A face with random identity and expression; degrees as `Fit` gives them."""
    chance = np.random.default_rng(seed)
    expression = np.zeros(len(expression_names()), np.float32)
    expression[chance.choice(len(expression), 3)] = chance.uniform(0, 0.6, 3)
    identity = chance.normal(0, 1, identities()).astype(np.float32)
    rotation = heads.turn(-yaw, -pitch, roll)
    return Fit(identity, expression, rotation, scale, np.array([300.0, 240.0, 0.0]), 1 / distance, 0.0)


def identities() -> int:
    return len(constants("morphable.npz", "identity")[0])


def whole(found: Fit) -> FloatArray:
    """(478, 3) what the landmarker would say; the irises in the middle of nowhere, which nothing here looks at."""
    points = found.landmarks()
    return np.concatenate([points, np.tile(points.mean(0), (10, 1))]).astype(np.float32)


@settings(deadline=None, max_examples=30, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@given(
    st.floats(-45, 45), st.floats(-25, 25), st.floats(-80, 80), st.floats(55, 200), st.floats(2, 60), st.integers(0, 99)
)
def test_pose_is_recovered_from_projected_points(
    yaw: float, pitch: float, roll: float, distance: float, scale: float, seed: int
) -> None:
    truth = somebody(seed, yaw, pitch, roll, distance, scale)
    found = fit(whole(truth))
    assert found.yaw == pytest.approx(yaw, abs=2.5)
    assert found.pitch == pytest.approx(pitch, abs=4)
    assert found.roll == pytest.approx(roll, abs=2.5)
    assert found.residual < 0.25  # cm


def test_shape_is_recovered_from_projected_points() -> None:
    correlations, expressions = [], []
    for seed in range(8):
        truth = somebody(seed, yaw=5 * seed - 20, pitch=10 - 3 * seed)
        found = fit(whole(truth))
        correlations.append(curvature_correlation(seen(truth), seen(found)))
        expressions.append(np.abs(found.expression - truth.expression).max())
    assert np.mean(correlations) > 0.97
    assert np.mean(expressions) < 0.25


def test_angles_have_the_signs_of_the_picture() -> None:
    assert fit(heads.mesh(rotation=heads.turn(yaw=-30))).yaw == pytest.approx(30, abs=4)  # nose at the right
    assert fit(heads.mesh(rotation=heads.turn(pitch=-20))).pitch > 10  # nose up
    assert fit(heads.mesh(rotation=heads.turn(roll=25))).roll == pytest.approx(25, abs=2)  # clockwise
    nose = somebody(0, yaw=30).vertices()[4] - somebody(0, yaw=0).vertices()[4]
    assert nose[0] > 0


def test_size_and_place_do_not_matter() -> None:
    mesh = whole(somebody(3, 20, -10, 5))
    one, other = fit(mesh), fit(np.asarray(mesh * 7 + [500, -90, 3], np.float32))
    np.testing.assert_allclose(other.identity, one.identity, atol=2e-3)
    np.testing.assert_allclose(other.rotation, one.rotation, atol=1e-4)
    assert other.scale == pytest.approx(7 * one.scale, rel=1e-4)


def test_a_mirrored_face_gives_mirrored_angles() -> None:
    truth = somebody(5, 25, 8, 10)
    found = fit(whole(truth))
    turned = fit(whole(replace(truth, rotation=truth.rotation * np.outer([-1, 1, 1], [-1, 1, 1]))))
    assert (turned.yaw, turned.pitch, turned.roll) == pytest.approx((-found.yaw, found.pitch, -found.roll), abs=1.5)


def test_vertices_and_normals_agree() -> None:
    found = fit(whole(somebody(1, 10, 5)))
    normals = found.normals()
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-5)
    far = replace(found, nearness=0.0)
    np.testing.assert_allclose(normals, vertex_normals(far.vertices()), atol=1e-3)
    assert normals[4, 2] < -0.7  # the tip of the nose looks at the camera


def test_a_known_identity_is_kept() -> None:
    truth = somebody(8, -15, 5)
    found = fit(whole(truth), truth.identity)
    np.testing.assert_array_equal(found.identity, truth.identity)
    assert found.yaw == pytest.approx(-15, abs=0.6)
    assert np.abs(found.expression - truth.expression).max() < 0.25


def test_many_frames_tell_more_of_a_person_than_one() -> None:
    (error,) = constants("morphable.npz", "error")
    chance, truth = np.random.default_rng(2), somebody(11)
    single, person = [], Person()
    np.testing.assert_array_equal(person.identity, 0)
    for frame in range(8):
        shown = replace(somebody(50 + frame, 8 * frame - 28, 3 * frame - 10), identity=truth.identity)
        habit = np.tensordot(chance.normal(0, 1, len(error)), error.astype(np.float64), 1)
        mesh = whole(shown)
        mesh[:SURFACE] += (shown.scale * habit @ shown.rotation.T).astype(np.float32)
        single.append(apart(person.add(mesh).identity, truth.identity))
    assert apart(person.identity, truth.identity) < 0.85 * np.mean(single)


def test_one_frame_gives_a_person_the_identity_of_its_fit() -> None:
    person = Person()
    found = person.add(whole(somebody(4, 12, 3)))
    np.testing.assert_allclose(person.identity, found.identity, atol=0.05)


def apart(identity: FloatArray, other: FloatArray) -> float:
    """Root mean square distance of two neutral heads, cm, their size and place taken away."""
    a, b = (
        replace(somebody(0), identity=i, expression=np.zeros_like(somebody(0).expression)).head()
        for i in (identity, other)
    )
    a, b = a - a.mean(0), b - b.mean(0)
    return float(np.sqrt(((a * (np.sum(a * b) / np.sum(a * a)) - b) ** 2).sum(1).mean()))


@pytest.mark.parametrize("mesh", [np.zeros((478, 3)), np.full((478, 3), np.nan), np.zeros((20, 3))])
def test_points_that_are_no_face_are_an_error(mesh: FloatArray) -> None:
    with pytest.raises(GeometryError, match="find the face anew"):
        fit(mesh)


def test_the_own_identity_moves_nothing() -> None:
    mesh = whole(somebody(6, 15))
    own = fit(mesh)
    np.testing.assert_allclose(transfer(mesh, own, own.identity), mesh, atol=1e-3)


def test_another_identity_moves_the_inner_face_and_no_outline() -> None:
    mesh = whole(somebody(6, 15))
    own, other = fit(mesh), somebody(7).identity
    full, half, none = (transfer(mesh, own, other, shape) for shape in (1.0, 0.5, 0.0))
    moved = np.linalg.norm((full - mesh)[:SURFACE, :2], axis=1) / own.scale
    assert moved.max() > 0.15  # cm
    assert moved.max() < 1.01
    assert moved[list(OVAL)].max() < 1e-3
    np.testing.assert_allclose(half - mesh, (full - mesh) / 2, atol=1e-3)
    np.testing.assert_array_equal(none, mesh)


def test_the_size_of_another_head_is_not_taken_over() -> None:
    mesh = whole(somebody(6))
    own = fit(mesh)
    big = own.identity.copy()
    big[0] += 2.0  # the first mode is nearly size alone
    assert np.abs(transfer(mesh, own, big) - mesh).max() / own.scale < 0.25


@pytest.mark.parametrize(("yaw", "hidden"), [(0.0, None), (15.0, None), (55.0, "right"), (-55.0, "left")])
def test_the_side_turned_away_is_hidden(yaw: float, hidden: str | None) -> None:
    seen_sides = sides(somebody(2, yaw))
    assert seen_sides.hidden == hidden
    assert 0 <= min(seen_sides.left, seen_sides.right) <= max(seen_sides.left, seen_sides.right) <= 1


@pytest.fixture(scope="module")
def model() -> HeadModel:
    return HeadModel.load(HEADS)


@pytest.fixture(scope="module")
def pictures(model: HeadModel, models: Zoo) -> list[tuple[Scene, Rendered, Face]]:
    """Rendered heads, and the one face found in each."""
    finder, out = FaceFinder(models), []
    for seed in SEEDS:
        shown = scene(model, seed, 320)
        picture = render(model, model.shape(shown.identity, shown.expression), shown.view)
        (face,) = finder.find_in_image(picture.image, embeddings=False)
        out.append((shown, picture, face))
    return out


def test_pose_of_rendered_heads_is_read_within_three_degrees(pictures: list[tuple[Scene, Rendered, Face]]) -> None:
    off = []
    for shown, _, face in pictures:
        found = fit(face.mesh)
        off.append((found.yaw + shown.view.yaw, found.pitch + shown.view.pitch, found.roll - shown.view.roll))
    assert np.abs(off).mean(0).max() < 3


def test_curvature_of_rendered_heads_is_that_of_the_truth(pictures: list[tuple[Scene, Rendered, Face]]) -> None:
    correlations = [curvature_correlation(true(picture), seen(fit(face.mesh))) for _, picture, face in pictures]
    assert np.mean(correlations) > 0.9


def test_light_of_rendered_heads_is_read_within_ten_degrees(pictures: list[tuple[Scene, Rendered, Face]]) -> None:
    angles, ambient = [], []
    for shown, picture, face in pictures:
        lamp = shown.view.lamp
        light = light_of(picture.image, face.mesh, fit(face.mesh))
        cosine = light.direction @ lamp.direction / np.linalg.norm(lamp.direction)
        angles.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
        ambient.append(light.ambient - lamp.ambient / (lamp.ambient + lamp.power))
    assert np.mean(angles) < 10
    assert np.abs(ambient).mean() < 0.1


def seen(found: Fit) -> tuple[FloatArray, heads.DoubleArray]:
    return found.vertices()[:, :2], found.head().astype(np.float64) @ found.rotation.T


def true(picture: Rendered) -> tuple[FloatArray, heads.DoubleArray]:
    """The rendered head at the places that the mesh's points have on it."""
    corners, weights = constants("morphable.npz", "corners", "barycentric")
    points = np.einsum("nkc,nk->nc", picture.points[corners], weights)
    camera = np.einsum("nkc,nk->nc", picture.vertices[corners], weights) @ picture.rotation.T
    return points.astype(np.float32), camera
