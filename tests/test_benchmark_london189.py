"""Landmark errors on made-up people, whose hand-placed points are known places of their meshes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import london189
from mien.mesh import EYE_CORNERS, OVAL
from mien.types import FloatArray


def people(count: int, seed: int = 3) -> FloatArray:
    """(count, 478, 3) meshes: one layout, turned, moved, of another size and a little changed for each person."""
    chance = np.random.default_rng(seed)
    layout = chance.uniform(-1, 1, (478, 2))
    layout[list(EYE_CORNERS)] = (-0.5, 0), (0.5, 0)
    turn, size = chance.uniform(-0.5, 0.5, count), chance.uniform(50, 200, count)
    cos, sin = size * np.cos(turn), size * np.sin(turn)
    linear = np.stack([np.stack([cos, -sin], 1), np.stack([sin, cos], 1)], 1)
    own = layout + chance.normal(0, 0.004, (count, 478, 2))
    points = np.einsum("nij,nkj->nki", linear, own) + chance.uniform(200, 400, (count, 1, 2))
    return np.concatenate([points, np.zeros((count, 478, 1))], 2).astype(np.float32)


def hand_placed(meshes: FloatArray, places: london189.Places) -> FloatArray:
    """(N, 189, 2) points that lie where `places` says, the two eye corners on the mesh's."""
    truth = places(meshes)
    truth[:, list(london189.CORNERS)] = meshes[:, list(EYE_CORNERS), :2]
    return truth


@pytest.fixture
def places() -> london189.Places:
    chance = np.random.default_rng(8)
    offsets = chance.uniform(-0.003, 0.003, (189, 2)).astype(np.float32)
    return london189.Places(chance.integers(0, 478, 189), offsets)


def test_fixed_offsets_are_found_and_carry_over_to_other_people(places: london189.Places) -> None:
    meshes = people(12)
    truth = hand_placed(meshes, places)
    fitted = np.arange(12) < 6
    found = london189.fit(meshes[fitted], truth[fitted])
    others = [i for i in range(189) if i not in london189.CORNERS]
    np.testing.assert_array_equal(found.vertices[others], places.vertices[others])
    np.testing.assert_allclose(found.offsets[others], places.offsets[others], atol=1e-5)
    assert london189.scored(meshes, truth, fitted).max() < 1e-5


def test_without_offsets_the_error_is_the_offset(places: london189.Places) -> None:
    meshes = people(12)
    truth = hand_placed(meshes, places)
    error = london189.scored(meshes, truth, np.arange(12) < 6, offsets=False)
    others = [i for i in range(189) if i not in london189.CORNERS]
    expected = np.linalg.norm(places.offsets, axis=1)[others]
    np.testing.assert_allclose(error[:, others], np.tile(expected, (6, 1)), atol=1e-5)


def test_people_that_were_not_fitted_are_scored_by_their_own_eye_corners(places: london189.Places) -> None:
    meshes = people(4)
    truth = hand_placed(meshes, places)
    between = np.linalg.norm(truth[3, 18] - truth[3, 27])
    truth[3, 55] += (0.03 * between, 0.04 * between)
    error = london189.scored(meshes, truth, np.array([True, True, False, False]))
    assert error.shape == (2, 189)
    assert error[1, 55] == pytest.approx(0.05, abs=1e-4)
    assert error[0, 55] < 1e-4


def test_the_distance_off_the_outline_is_along_its_normal() -> None:
    mesh = np.zeros((1, 478, 3), np.float32)
    corners = np.array([(0, 0), (100, 0), (100, 100), (0, 100)], np.float32)
    share = np.arange(36) / 9
    side, way = share.astype(int) % 4, (share % 1)[:, None]
    mesh[0, list(OVAL), :2] = corners[side] * (1 - way) + corners[(side + 1) % 4] * way
    truth = np.array([[(50, -10), (37, 100), (100, 63), (103, 104), (50, 20)]], np.float32)
    off = london189.off_outline(mesh, truth, np.array([50], np.float32))
    np.testing.assert_allclose(off, [[0.2, 0, 0, 0.1, 0.4]], atol=1e-6)


def test_regions_hold_each_point_once_and_more_than_sixty_with_the_jaw() -> None:
    usual = [point for points in london189.REGIONS.values() for point in points]
    soft = [point for points in london189.SOFT.values() for point in points]
    assert len(usual) == 99 and len({*usual, *soft}) == len(usual) + len(soft) == 153
    assert london189.REGIONS["jaw"] == tuple(range(125, 134))


def test_the_report_tells_both_halves(places: london189.Places) -> None:
    meshes = people(6)
    truth = hand_placed(meshes, places)
    ids = np.array([1, 2, 3, 4, 5, 6])
    # One odd person's jaw is 10 % off: of three odd people, the mean is a third of that.
    truth[0, list(london189.REGIONS["jaw"])] += 0.1 * london189.inter_ocular(truth)[0] * np.array([0.6, 0.8])
    jaw = next(line for line in london189.report(ids, meshes, truth) if line.split()[0] == "jaw")
    assert jaw.split()[1:4] == ["9", "points", "3.33"]
    assert jaw.split()[5] == "6.53"  # 1.96 standard errors of 0, 0 and 10
