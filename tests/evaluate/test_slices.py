from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mien.evaluate.people import Person
from mien.evaluate.slices import covered_share, slices_of, traits_of, yaw
from mien.types import ByteArray, FloatArray
from tests import heads
from tests.fakes import card


def person(**traits: str) -> Person:
    return Person("p", (Path("p.jpg"),), traits)


class Curtain:
    """A masker that takes red for something in front of a face."""

    size = 64
    margin = 1.2

    def __init__(self) -> None:
        self.card = card("masker")
        self.classes: tuple[str, ...] = ("occluder",)

    def __call__(self, crops: ByteArray) -> FloatArray:
        return np.asarray((crops[..., :1] > 128), np.float32)


@pytest.mark.parametrize(
    ("age", "band"),
    [("18", "under 35"), ("34", "under 35"), ("35", "35–54"), ("54", "35–54"), ("55", "55+"), ("90", "55+")],
)
def test_ages_are_told_in_bands(age: str, band: str) -> None:
    assert traits_of(person(age=age)) == {"age": band}


def test_what_is_not_known_is_in_no_slice() -> None:
    assert traits_of(person(part="held-out")) == {}
    assert traits_of(person(sex="male", skin_tone="dark", ita="3")) == {"sex": "male", "skin_tone": "dark"}


@pytest.mark.parametrize("angle", [-40.0, -10.0, 0.0, 10.0, 40.0])
def test_yaw_is_that_of_a_turned_head(angle: float) -> None:
    found = yaw(heads.mesh(rotation=heads.turn(angle, 5, 12)))
    assert abs(found) == pytest.approx(abs(angle), abs=1.5)
    nose = heads.mesh(rotation=heads.turn(angle))[4, 0]
    if angle:
        assert np.sign(found) == np.sign(nose - 100)  # positive where the nose points right


@pytest.mark.parametrize(
    ("width", "turn", "covered", "expected"),
    [
        (100, 0, 0.0, ("frontal", "none", "under 200 px")),
        (250, 20, 0.029, ("turned", "none", "200–399 px")),
        (600, -20, 0.031, ("turned", "some", "400+ px")),
    ],
)
def test_a_pair_is_in_the_slices_of_both_people_and_of_the_photo(
    width: float, turn: float, covered: float, expected: tuple[str, str, str]
) -> None:
    face = heads.face(heads.mesh(width, rotation=heads.turn(turn)))
    found = slices_of(person(sex="female"), person(sex="male", age="40"), face, covered)
    assert found == {
        "source sex": "female",
        "target sex": "male",
        "target age": "35–54",
        "target pose": expected[0],
        "target occlusion": expected[1],
        "target size": expected[2],
    }


def test_the_covered_share_is_of_the_face_alone() -> None:
    mesh = heads.mesh(160, (128, 128))
    picture = np.zeros((256, 256, 3), np.uint8)
    assert covered_share(picture, mesh, [Curtain()]) == 0
    picture[:, :128] = (255, 0, 0)
    assert covered_share(picture, mesh, [Curtain()]) == pytest.approx(0.5, abs=0.03)
    picture[:] = 0
    picture[:20] = (255, 0, 0)  # above the head
    assert covered_share(picture, mesh, [Curtain()]) < 0.01
