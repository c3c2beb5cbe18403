"""Light: lamps shone on known normals come back, and relighting undoes one light and does another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mien.errors import GeometryError
from mien.light import FLOOR, GAIN, Light, basis, fit_light, light_of, relight, shading, to_linear, to_srgb
from mien.mesh import interpolate, rasterise
from mien.morphable import fit
from mien.types import FloatArray
from tests import heads
from tests.rendered_heads import Lamp

PHASES = [Phase.explicit, Phase.generate]
SKIN = np.array([0.5, 0.3, 0.2], np.float32)


def cap(count: int = 400, seed: int = 0) -> FloatArray:
    """(N, 3) unit normals over what a face shows: up to 75° from the camera."""
    chance = np.random.default_rng(seed)
    height, around = chance.uniform(0.26, 1, count), chance.uniform(0, 2 * np.pi, count)
    ring = np.sqrt(1 - height**2)
    return np.stack([ring * np.cos(around), ring * np.sin(around), -height], 1).astype(np.float32)


def vector(values: Sequence[float] | npt.NDArray[np.floating]) -> FloatArray:
    return np.asarray(values, np.float32)


def between(a: FloatArray, b: FloatArray) -> float:
    """Degrees."""
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))


def test_srgb_and_linear_light_undo_each_other() -> None:
    values = np.linspace(0, 1, 101, dtype=np.float32)
    np.testing.assert_allclose(to_srgb(to_linear(values)), values, atol=1e-5)
    assert to_linear(vector([0.5]))[0] == pytest.approx(0.21404, abs=1e-4)
    assert to_srgb(vector([0.18, 2.0])) == pytest.approx([0.46136, 1.0], abs=1e-4)


def test_basis_is_orthogonal_over_all_directions() -> None:
    normals = np.random.default_rng(1).normal(size=(200_000, 3))
    terms = basis((normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32)).astype(np.float64)
    products = terms.T @ terms / len(terms)
    scale = np.sqrt(np.diag(products))
    np.testing.assert_allclose(products / np.outer(scale, scale), np.eye(9), atol=0.02)


@settings(deadline=None, max_examples=40, phases=PHASES)
@given(st.floats(-60, 60), st.floats(-60, 60), st.floats(0.3, 1), st.floats(0.2, 0.7), st.integers(0, 9))
def test_a_lamp_is_found(across: float, up: float, power: float, even: float, seed: int) -> None:
    direction = heads.turn(yaw=across, pitch=up) @ [0.0, 0.0, -1.0]
    normals = cap(seed=seed)
    light = fit_light(SKIN * Lamp(tuple(direction), power, even)(normals), normals)
    assert between(light.direction, vector(direction)) < 3
    assert light.ambient == pytest.approx(even / (even + power), abs=0.04)


def test_shading_of_a_found_light_is_what_was_seen() -> None:
    normals = cap()
    colours = SKIN * Lamp((0.4, -0.5, -0.8), colour=(1.0, 0.9, 0.7))(normals)
    light = fit_light(colours, normals)
    np.testing.assert_allclose(shading(normals, light.coefficients), colours, rtol=0.2)
    assert np.abs(shading(normals, light.coefficients) / colours - 1).mean() < 0.04


def test_what_is_no_skin_hardly_counts() -> None:
    normals = cap()
    colours = SKIN * Lamp((0.6, -0.2, -0.7))(normals)
    colours[::5] *= 0.2  # a beard
    colours[1::9] *= 3  # shine
    assert between(fit_light(colours, normals).direction, vector([0.6, -0.2, -0.7])) < 5


def test_weights_leave_out_what_they_say() -> None:
    normals = cap()
    colours = SKIN * Lamp((-0.5, 0.3, -0.8))(normals)
    weight = np.ones(len(normals), np.float32)
    colours[:150], weight[:150] = [0.0, 1.0, 0.0], 0
    assert between(fit_light(colours, normals, weight).direction, vector([-0.5, 0.3, -0.8])) < 2


def test_even_light_has_no_direction_to_speak_of() -> None:
    normals = cap()
    light = fit_light(np.tile(SKIN, (len(normals), 1)), normals)
    assert light.ambient > 0.97
    np.testing.assert_allclose(light.coefficients[0], SKIN, rtol=0.02)
    np.testing.assert_array_equal(Light(np.zeros((9, 3), np.float32)).direction, 0)


def test_two_lamps_are_shaded_better_than_by_one() -> None:
    normals = cap(800)
    lamps = Lamp((0.9, 0, -0.5), 0.6, 0.2), Lamp((-0.9, 0.2, -0.5), 0.6, 0.2)
    colours = SKIN * (lamps[0](normals) + lamps[1](normals))
    shaded = shading(normals, fit_light(colours, normals).coefficients)
    assert np.abs(shaded / colours - 1).mean() < 0.07


@pytest.mark.parametrize(
    "weight", [np.zeros(400, np.float32), np.r_[np.ones(8, np.float32), np.zeros(392, np.float32)]]
)
def test_too_little_skin_is_an_error(weight: FloatArray) -> None:
    with pytest.raises(GeometryError, match="less covered"):
        fit_light(np.ones((400, 3), np.float32), cap(), weight)


def light(direction: tuple[float, float, float], even: float = 0.5, skin: FloatArray = SKIN) -> Light:
    normals = cap()
    return fit_light(skin * Lamp(direction, 0.7, even)(normals), normals)


def test_relighting_takes_one_light_to_the_other() -> None:
    normals, source, target = cap(), light((0.5, 0, -1)), light((-0.5, -0.3, -1))
    gain = relight(normals, source, target)
    np.testing.assert_allclose(
        gain * shading(normals, source.coefficients), shading(normals, target.coefficients), rtol=1e-3
    )
    np.testing.assert_allclose(relight(normals, source, source), 1, atol=1e-5)


def test_gains_are_bounded_for_any_direction() -> None:
    normals = np.random.default_rng(3).normal(size=(500, 3)).astype(np.float32)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    gain = relight(normals, light((1, 0, -0.5), 0.1), light((-1, 0, -0.5), 0.1))
    assert (gain.min(), gain.max()) == pytest.approx(GAIN)
    assert (shading(normals, light((1, 0, 0), 0.0).coefficients) > 0).all()
    dark = shading(normals, np.asarray(np.r_[[[1.0] * 3], [[-3.0] * 3], np.zeros((7, 3))], np.float32))
    assert dark.min() == pytest.approx(FLOOR)


def test_the_tone_of_the_source_can_be_kept() -> None:
    normals = cap()
    source, target = light((0, 0, -1)), light((0, 0, -1), skin=np.array([0.1, 0.05, 0.03], np.float32))
    np.testing.assert_allclose(relight(normals, source, target, keep_tone=1.0), 1, atol=0.02)
    assert relight(normals, source, target).mean() < 0.26


def test_light_is_read_from_a_picture_and_its_mask_obeyed() -> None:
    mesh = heads.mesh(120, (100, 100))
    found = fit(mesh)
    lamp = Lamp((0.7, -0.3, -0.8))
    normals = found.normals()
    shaded = to_srgb(SKIN * lamp(normals))
    picture = np.full((200, 200, 3), 0.3, np.float32)
    ids = rasterise(np.ascontiguousarray(mesh[:468, :2]), mesh[:468, 2], 200, 200)
    picture[ids >= 0] = interpolate(ids, np.ascontiguousarray(mesh[:468, :2]), shaded)[ids >= 0]
    direction = vector(lamp.direction)
    assert between(light_of(picture, mesh, found).direction, direction) < 4
    covered, mask = picture.copy(), np.ones((200, 200), np.float32)
    covered[110:], mask[110:] = 0.9, 0
    assert between(light_of(covered, mesh, found, mask).direction, direction) < 6


def test_a_face_outside_of_the_picture_is_an_error() -> None:
    mesh = heads.mesh(120, (900, 900))
    with pytest.raises(GeometryError, match="outside"):
        light_of(np.zeros((50, 50, 3), np.uint8), mesh, fit(mesh))
