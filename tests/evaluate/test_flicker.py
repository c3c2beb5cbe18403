from __future__ import annotations

import numpy as np
import pytest

from mien.color import to_lab
from mien.evaluate.flicker import FLOOR, GRID, face_map, flicker, flicker_energy
from mien.types import FloatArray
from tests.heads import mesh, picture, turn


def head(yaw: float = 0.0, x: float = 128.0, light: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """A picture of a painted head, and its mesh."""
    points = mesh(120.0, (x, 128.0), turn(yaw))
    return picture(points, 256, 256) * np.float32(light), points


def lightness(frames: list[tuple[FloatArray, FloatArray]]) -> list[FloatArray]:
    return [face_map(*frame) for frame in frames]


def test_a_map_holds_the_lightness_of_the_face_in_uv_space() -> None:
    found = face_map(*head())
    image, _ = head()
    assert found.shape == (GRID, GRID)
    nose = found[np.isfinite(found)].mean()
    centre = to_lab(image)[128, 128, 0]
    assert nose == pytest.approx(centre, abs=5)
    assert np.isnan(found[0, 0])  # outside the face
    assert np.isfinite(found).mean() > 0.4
    assert np.isnan(face_map(image, None)).all()


def test_a_head_that_moves_does_not_flicker() -> None:
    still = lightness([head() for _ in range(5)])
    moving = lightness([head(x=128 + 3 * i) for i in range(5)])
    assert flicker_energy(still) == 0
    assert flicker_energy(moving) < 0.05
    turning = lightness([head(yaw=4 * i) for i in range(5)])
    assert flicker_energy(turning) < 0.5


def test_a_steady_change_of_light_is_no_flicker_and_an_unsteady_one_is() -> None:
    maps = lightness([head()] * 4)
    rising = [each + 2 * i for i, each in enumerate(maps)]
    shaking = [each + (2 if i % 2 else 0) for i, each in enumerate(maps)]
    assert flicker_energy(rising) == pytest.approx(0, abs=1e-6)
    # x, x+2, x, x+2: second differences of ±4.
    assert flicker_energy(shaking) == pytest.approx(16)
    assert flicker(maps, shaking) == pytest.approx(np.log((16 + FLOOR) / FLOOR))
    assert flicker(shaking, shaking) == 0
    assert flicker(shaking, maps) == pytest.approx(-np.log((16 + FLOOR) / FLOOR))


def test_two_frames_tell_nothing() -> None:
    assert np.isnan(flicker_energy(lightness([head(), head()])))


def test_frames_without_a_face_are_left_out() -> None:
    maps = lightness([head()] * 6)
    maps[5] = face_map(head()[0], None)
    assert flicker_energy(maps) == 0
