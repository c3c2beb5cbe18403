"""Several detectors as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mien.errors import OptionsError
from mien.types import ByteArray, Detection
from mien.zoo.cards import ModelCard
from mien.zoo.cascade import Cascade, calibrated, load_detector, merged
from mien.zoo.detectors.retinaface import RetinaFaceMnet025
from mien.zoo.detectors.yunet import YuNet
from mien.zoo.registry import Zoo

POINTS = np.zeros((5, 2), np.float32)


def hit(x: float, score: float, *, guessed: bool = False) -> Detection:
    """A box of 10 × 10 from (x, 0)."""
    return Detection(np.array([x, 0, x + 10, 10], np.float32), score, POINTS, guessed)


class Fixed:
    """Gives the same hits for every picture."""

    def __init__(self, name: str, *hits: Detection, calibration: Any = None) -> None:
        self.card = ModelCard(name, "detector", "CC0-1.0", True, "made here")
        self.hits, self.asked = hits, -1.0
        if calibration is not None:
            self.calibration = calibration

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        self.asked = min_score
        return [hit for hit in self.hits if hit.score >= min_score]


BLANK = np.zeros((20, 20, 3), np.uint8)


def scores(hits: list[Detection]) -> list[float]:
    return [round(hit.score, 3) for hit in hits]


def test_every_face_is_there_once_with_the_better_score() -> None:
    both = Cascade([Fixed("a", hit(0, 0.7), hit(50, 0.9)), Fixed("b", hit(1, 0.8), hit(100, 0.65))])
    found = both(BLANK, 0.6)
    assert scores(found) == [0.9, 0.8, 0.65]
    assert [float(each.bbox[0]) for each in found] == [50, 1, 100]
    assert both.card.name == "a+b"


def test_a_hit_without_keypoints_of_its_own_never_hides_one_that_has_them() -> None:
    both = Cascade([Fixed("a", hit(0, 0.6)), Fixed("b", hit(1, 0.99, guessed=True), hit(60, 0.98, guessed=True))])
    found = both(BLANK, 0.5)
    assert [(round(each.score, 2), each.guessed) for each in found] == [(0.6, False), (0.98, True)]


def test_scores_are_put_on_one_scale_and_so_is_the_least() -> None:
    other = Fixed("b", hit(0, 0.9), hit(50, 0.75), hit(90, 0.5), calibration=((0, 0), (0.5, 0.2), (1, 1)))
    found = calibrated(other, BLANK, 0.6)
    assert other.asked == pytest.approx(0.75)
    assert scores(found) == [0.84, 0.6]


def test_nothing_merges_to_nothing() -> None:
    assert merged([]) == []
    assert Cascade([Fixed("a"), Fixed("b")])(BLANK, 0.5) == []


def test_the_calibration_that_ships_rises() -> None:
    own, common = np.array(RetinaFaceMnet025.calibration).T
    assert (np.diff(own) > 0).all() and (np.diff(common) > 0).all()
    assert (own[0], common[0], own[-1]) == (0, 0, 1)


def test_names_are_joined_by_plus() -> None:
    zoo = Zoo("cpu")
    assert isinstance(load_detector(zoo, "yunet"), YuNet)
    assert load_detector(zoo, "yunet+yunet") is load_detector(zoo, "yunet")
    assert load_detector(zoo, "yunet+retinaface_mnet025").card.name == "yunet+retinaface_mnet025"
    with pytest.raises(OptionsError, match="no detector is called ''; choose one of"):
        load_detector(zoo, "yunet+")
    with pytest.raises(OptionsError, match="s3fd is not installed"):
        load_detector(zoo, "retinaface_mnet025+s3fd")


def test_both_detectors_that_ship_find_the_same_face(portraits: Path) -> None:
    bgr = cv2.imread(str(portraits / "male_036.jpg"))
    assert bgr is not None
    image = np.ascontiguousarray(bgr[:, :, ::-1], np.uint8)
    zoo = Zoo("cpu")
    (one,) = load_detector(zoo, "yunet")(image, 0.6)
    (both,) = load_detector(zoo, "yunet+retinaface_mnet025")(image, 0.6)
    (other,) = load_detector(zoo, "retinaface_mnet025")(image, 0.9)
    assert both.score >= one.score > 0.9
    width = one.bbox[2] - one.bbox[0]
    assert np.abs(other.bbox - one.bbox).max() < 0.2 * width
    assert np.linalg.norm(other.keypoints - one.keypoints, axis=1).max() < 0.12 * width
