"""Shape: pose taken away and put back, and one person's shape in another's mesh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.mesh import EYES, IRISES, OVAL, SURFACE
from mien.shape import LIMIT, NOISE, OTHER, SAME, neutral, pose, pose_difference, reshape, transfer_strength
from mien.types import FloatArray
from tests import heads
from tests.fakes import embedding

STILL = np.zeros(52, np.float32)
HEADS = heads.canonical()


def person(seed: int, size: float = 0.4) -> heads.DoubleArray:
    """(478, 3) the canonical head with broad differences of up to `size` cm."""
    chance = np.random.default_rng(seed)
    waves = chance.uniform(-0.35, 0.35, (3, 3))
    change = np.sin(HEADS @ waves + chance.uniform(0, 6, 3)) * size
    return HEADS + change


def random_scores(seed: int) -> FloatArray:
    return np.random.default_rng(seed).uniform(0, 1, 52).astype(np.float32)


ANGLES = st.floats(-80, 80)


@settings(deadline=None, max_examples=40)
@given(ANGLES, ANGLES, st.floats(-180, 180), st.floats(0.5, 100), st.floats(-500, 5000))
def test_pose_recovers_a_known_similarity(yaw: float, pitch: float, roll: float, scale: float, shift: float) -> None:
    rotation = heads.turn(yaw, pitch, roll)
    mesh = (scale * HEADS @ rotation.T + [shift, -shift, 7]).astype(np.float32)
    found = pose(mesh)
    assert found.scale == pytest.approx(scale, rel=1e-3)
    np.testing.assert_allclose(found.rotation, rotation, atol=2e-3)
    np.testing.assert_allclose(found.shift, [shift, -shift, 7], atol=0.01 * scale + 0.01)


def test_pose_is_a_rotation_even_for_a_mirrored_mesh() -> None:
    mesh = np.asarray(HEADS * [-1, 1, 1], np.float32)
    assert np.linalg.det(pose(mesh).rotation) == pytest.approx(1)


def test_pose_difference_is_the_angle_between_two_heads() -> None:
    ahead = heads.mesh()
    assert pose_difference(ahead, ahead) < 0.05
    assert pose_difference(ahead, heads.mesh(33, (5, 9), heads.turn(yaw=20))) == pytest.approx(20, abs=0.05)
    assert pose_difference(heads.mesh(rotation=heads.turn(roll=170)), ahead) == pytest.approx(170, abs=0.05)


def test_the_canonical_head_is_its_own_neutral_shape() -> None:
    mesh = heads.mesh(140, (60, 300), heads.turn(25, -10, 40))
    np.testing.assert_allclose(neutral(mesh, STILL), HEADS[:SURFACE], atol=0.01)


@settings(deadline=None, max_examples=30)
@given(ANGLES, ANGLES, st.floats(-180, 180), st.floats(20, 900), st.integers(0, 9))
def test_a_neutral_shape_does_not_know_pose_size_or_place(
    yaw: float, pitch: float, roll: float, width: float, seed: int
) -> None:
    scores = random_scores(seed)
    plain = heads.mesh(100, (50, 50), shape=person(seed))
    moved = heads.mesh(width, (700, -3), heads.turn(yaw, pitch, roll), person(seed))
    np.testing.assert_allclose(neutral(moved, scores), neutral(plain, scores), atol=0.01)


def test_expression_is_taken_away_in_proportion_to_its_scores() -> None:
    mesh, scores = heads.mesh(), random_scores(4)
    still = neutral(mesh, STILL)
    full, half = still - neutral(mesh, scores), still - neutral(mesh, np.asarray(scores / 2, np.float32))
    assert np.abs(full).max() > 0.2  # cm
    np.testing.assert_allclose(half, full / 2, atol=1e-4)


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (50.0, 10.0, 120.0)])
def test_the_same_shape_changes_nothing(turn: tuple[float, float, float]) -> None:
    mesh, own = heads.mesh(200, rotation=heads.turn(*turn)), neutral(heads.mesh(shape=person(1)), STILL)
    np.testing.assert_allclose(reshape(mesh, own, own, 1.0), mesh, atol=1e-3)


def test_no_strength_changes_nothing() -> None:
    mesh = heads.mesh(200)
    own, wanted = (neutral(heads.mesh(shape=person(i)), STILL) for i in (1, 2))
    np.testing.assert_allclose(reshape(mesh, own, wanted, 0.0), mesh, atol=1e-3)
    full = reshape(mesh, own, wanted, 1.0) - mesh
    assert np.abs(full).max() > 1
    np.testing.assert_allclose(reshape(mesh, own, wanted, 0.5) - mesh, full / 2, atol=1e-2)


def test_differences_as_small_as_noise_are_left_alone() -> None:
    own = HEADS[:SURFACE].astype(np.float32)
    wanted = own + np.array([0.5 * NOISE, 0, 0], np.float32)
    np.testing.assert_allclose(reshape(heads.mesh(), own, wanted, 1.0), heads.mesh(), atol=1e-3)


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (-35.0, 10.0, 60.0)])
def test_a_new_shape_keeps_outline_and_pose_and_moves_the_rest_towards_it(turn: tuple[float, float, float]) -> None:
    own, wanted = (neutral(heads.mesh(shape=person(i)), STILL) for i in (1, 2))
    mesh = heads.mesh(200, rotation=heads.turn(*turn), shape=person(1))
    moved = reshape(mesh, own, wanted, 1.0)
    assert moved.shape == (478, 3) and moved.dtype == np.float32
    np.testing.assert_allclose(moved[list(OVAL)], mesh[list(OVAL)], atol=1e-3)
    assert pose_difference(moved, mesh) < 1.5
    before, after = (np.linalg.norm(neutral(m, STILL) - wanted, axis=1) for m in (mesh, moved))
    assert after.mean() < 0.75 * before.mean()


def test_no_point_moves_further_than_the_limit() -> None:
    own = HEADS[:SURFACE].astype(np.float32)
    moved = reshape(heads.mesh(), own, np.asarray(own + 20, np.float32), 1.0)
    scale = pose(heads.mesh()).scale
    length = np.linalg.norm(moved - heads.mesh(), axis=1) / scale
    assert 0.9 * LIMIT < length.max() < 1.01 * LIMIT


def test_irises_move_with_their_lids() -> None:
    own = HEADS[:SURFACE].astype(np.float32)
    wanted = own.copy()
    wanted[own[:, 0] > 0, 0] += 0.3
    mesh = heads.mesh(200)
    change = reshape(mesh, own, wanted, 1.0) - mesh
    for lids, iris in zip(EYES, IRISES, strict=True):
        for index in iris:
            np.testing.assert_allclose(change[index], change[list(lids)].mean(0), atol=1e-3)
    assert change[IRISES[1][0], 0] > 2 > 0.1 > abs(change[IRISES[0][0], 0])


def test_strength_falls_from_strangers_to_one_person() -> None:
    source = embedding(0.0)
    found = [transfer_strength(source, embedding(float(np.arccos(c)))) for c in np.linspace(-1, 1, 81)]
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (1.0, 0.0)
    for cosine, strength in ((OTHER, 1.0), ((OTHER + SAME) / 2, 0.5), (SAME, 0.0)):
        assert transfer_strength(source, embedding(float(np.arccos(cosine)))) == pytest.approx(strength, abs=1e-3)


def test_strength_is_full_where_faces_cannot_be_compared() -> None:
    assert transfer_strength(embedding(0), None) == 1.0
    assert transfer_strength(embedding(0), embedding(0, 16)) == 1.0
