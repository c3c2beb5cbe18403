"""Robust search: restored pictures, what is found in them, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mien.faces import FaceFinder
from mien.options import AnalyzeOptions
from mien.robust import (
    FAINTEST,
    LARGEST,
    LEAST,
    SHRUNK,
    is_flat,
    is_noisy,
    is_soft,
    pictures,
    retried,
    retried_near,
    stretched,
)
from mien.search import Search, unique
from mien.types import ByteArray, Detection, Face, FloatArray
from mien.views import ArrayFrame, View
from mien.zoo.registry import Zoo
from tests.fakes import face

Damage = Callable[[ByteArray], ByteArray]


@pytest.fixture(scope="module")
def portrait(portraits: Path) -> ByteArray:
    """male_036 with a face about 100 pixels high, RGB."""
    bgr = cv2.imread(str(portraits / "male_036.jpg"))
    assert bgr is not None
    small = cv2.resize(bgr, (256, 256), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(small[:, :, ::-1], np.uint8)


@pytest.fixture(scope="module")
def known(portrait: ByteArray, models: Zoo) -> Face:
    (found,) = FaceFinder(models).find_in_image(portrait, embeddings=False)
    return found


def noisy(image: ByteArray, gain: float, sigma: float) -> ByteArray:
    noise = np.random.default_rng(7).normal(0, sigma, image.shape)
    return np.clip(np.rint(image * gain + noise), 0, 255).astype(np.uint8)


DAMAGES: dict[str, Damage] = {
    "dark": lambda image: noisy(image, 0.03, 2),
    "noise": lambda image: noisy(image, 1, 100),
    "blur": lambda image: np.asarray(cv2.GaussianBlur(image, (0, 0), 10), np.uint8),
}


def finder(models: Zoo, mode: str, **options: Any) -> FaceFinder:
    return FaceFinder(models, AnalyzeOptions.model_validate({"robust": mode, **options}))


def apart(found: Face, keypoints: FloatArray) -> float:
    """Mean distance of the keypoints over that of the eyes."""
    eyes = np.linalg.norm(keypoints[0] - keypoints[1])
    return float(np.linalg.norm(found.keypoints - keypoints, axis=1).mean() / eyes)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_a_plain_search_misses_is_found_in_its_place(
    damage: str, portrait: ByteArray, known: Face, models: Zoo
) -> None:
    image = DAMAGES[damage](portrait)
    assert finder(models, "off").find_in_image(image, embeddings=False) == ()
    (found,) = finder(models, "auto").find_in_image(image, embeddings=False)
    assert apart(found, known.keypoints) < 0.2 and found.presence >= 0.5
    assert np.abs(found.bbox - known.bbox).max() < 0.3 * (known.bbox[3] - known.bbox[1])
    assert found.mesh.shape == (478, 3) and np.ptp(found.mesh[:, 2]) == pytest.approx(np.ptp(known.mesh[:, 2]), rel=0.5)


def test_a_turned_dark_face_is_found_upright_to_itself(portrait: ByteArray, known: Face, models: Zoo) -> None:
    image = np.ascontiguousarray(np.rot90(noisy(portrait, 0.03, 2), 2))
    (found,) = finder(models, "auto").find_in_image(image, embeddings=False)
    assert apart(found, np.asarray(255 - known.keypoints, np.float32)) < 0.2


def test_where_a_plain_search_finds_faces_auto_changes_nothing_and_loads_nothing(portrait: ByteArray) -> None:
    zoo = Zoo("cpu")
    (plain,) = finder(zoo, "off")(ArrayFrame(portrait))
    (auto,) = finder(zoo, "auto")(ArrayFrame(portrait))
    for name in ("bbox", "score", "keypoints", "mesh", "presence", "embedding"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(auto, name))
    assert "retinaface_mnet025" not in {card.name for card in zoo.loaded}


def test_auto_retries_only_where_a_thorough_search_or_the_caller_asks(portrait: ByteArray, models: Zoo) -> None:
    frame = ArrayFrame(DAMAGES["dark"](portrait))
    auto = finder(models, "auto")
    assert auto(frame, thorough=False, embeddings=False) == ()
    assert auto(frame, thorough=True, embeddings=False, robust=False) == ()
    assert len(auto(frame, thorough=False, embeddings=False, robust=True)) == 1
    assert len(finder(models, "on")(frame, thorough=False, embeddings=False)) == 1


def test_on_adds_what_was_missed_and_keeps_what_was_found(portrait: ByteArray, models: Zoo) -> None:
    image = np.concatenate([portrait, DAMAGES["noise"](portrait)], 1)
    off = finder(models, "off").find_in_image(image, embeddings=False)
    on = finder(models, "on").find_in_image(image, embeddings=False)
    assert len(off) == 1 and len(on) == 2
    kept = min(on, key=lambda each: float(each.bbox[0]))
    np.testing.assert_array_equal(kept.mesh, off[0].mesh)


@pytest.mark.parametrize("mode", ["auto", "on"])
def test_bad_frames_have_no_face_and_end_nothing(mode: str, models: Zoo) -> None:
    random = np.random.default_rng(3)
    frames = [
        random.integers(0, 256, (200, 300, 3), np.uint8), np.zeros((240, 320, 3), np.uint8),
        np.full((120, 200, 3), 255, np.uint8), random.integers(0, 2, (150, 150, 3), np.uint8),
        np.zeros((1, 1, 3), np.uint8), np.zeros((2, 900, 3), np.uint8), random.integers(0, 256, (15, 15, 3), np.uint8),
    ]  # fmt: skip
    for image in frames:
        assert finder(models, mode).find_in_image(image, expressions=True) == ()
    deep = np.zeros((60, 80, 3), np.float32)
    assert finder(models, mode).find_in_image(deep) == ()


def test_a_lost_face_is_recovered_near_its_place_only(portrait: ByteArray, known: Face, models: Zoo) -> None:
    image = np.full((400, 600, 3), 90, np.uint8)
    image[100:356, 300:556] = portrait
    frame = ArrayFrame(DAMAGES["dark"](image))
    shift = np.array([300, 100], np.float32)
    place = known.bbox + np.tile(shift, 2)
    auto = finder(models, "auto")
    (found,) = auto.recover(frame, [place], expressions=True)
    assert apart(found, known.keypoints + shift) < 0.2
    assert found.blendshapes is not None and found.blendshapes.shape == (52,)
    assert auto.recover(frame, [np.asarray(place - 250, np.float32)]) == ()
    assert auto.recover(frame, [place + np.float32(5000)]) == ()
    assert finder(models, "off").recover(frame, [place]) == ()


def test_recovery_is_bounded(models: Zoo) -> None:
    read: list[object] = []

    class Watched(ArrayFrame):
        def read(self, box: Any) -> Any:
            read.append(box)
            return super().read(box)

    places = [np.array([x, 0, x + side, side], np.float32) for x, side in ((0, 30), (50, 60), (120, 40), (170, 20))]
    finder(models, "auto").recover(Watched(np.zeros((100, 200, 3), np.uint8)), places)
    assert len(read) == 2


@pytest.mark.parametrize(("width", "height"), [(300, 200), (640, 480), (1000, 700), (4000, 2000), (17, 900)])
def test_pictures_know_their_scale_and_their_size_is_bounded(width: int, height: int) -> None:
    image = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)  # nothing to sharpen
    made = list(pictures(ArrayFrame(image)))
    longest, seen = max(width, height), min(max(width, height), LARGEST)
    sizes = [max(picture.image.shape[:2]) for picture in made]
    wanted = [seen * part for part in SHRUNK if part * seen >= LEAST] + (
        [min(2 * seen, LARGEST)] if LARGEST / seen > 1.2 else []
    )
    np.testing.assert_allclose(sizes, wanted, atol=0.51)
    np.testing.assert_allclose([picture.scale * longest for picture in made], sizes, rtol=1e-6)
    assert [picture.second for picture in made] == [size < seen for size in sizes]


def test_only_blurred_pictures_are_sharpened(portrait: ByteArray) -> None:
    faint, blurred = (list(pictures(ArrayFrame(image))) for image in (portrait // 8, DAMAGES["blur"](portrait)))
    assert len(blurred) == len(faint) + 1
    soft, sharp = blurred[1], blurred[2]
    assert soft.scale == sharp.scale and soft.image.shape == sharp.image.shape

    def steepest(image: ByteArray) -> float:
        return float(np.percentile(np.abs(np.diff(image.astype(float), axis=1)), 90))

    assert steepest(sharp.image) > 1.3 * steepest(soft.image)


def test_only_what_is_dark_noisy_or_blurred_is_restored(portrait: ByteArray) -> None:
    """A clear picture is only enlarged: shrunk, a few strokes look like a face."""
    assert not (is_flat(portrait) or is_noisy(portrait) or is_soft(portrait))
    assert [picture.second for picture in pictures(ArrayFrame(portrait))] == [False]
    grain = np.random.default_rng(1).normal(0, 40, portrait.shape)
    noisy = np.clip(portrait + grain, 0, 255).astype(np.uint8)
    assert (is_flat(noisy), is_noisy(noisy), is_soft(noisy)) == (False, True, False)
    assert (is_flat(portrait // 16), is_noisy(portrait // 16)) == (True, False)
    assert is_soft(np.full((64, 64, 3), 90, np.uint8)) and not is_noisy(np.zeros((2, 2, 3), np.uint8))
    for image in (noisy, portrait // 16):
        assert sum(picture.second for picture in pictures(ArrayFrame(image))) == len(SHRUNK)


def test_stretching_keeps_order_and_fractions_and_leaves_flat_pictures_flat() -> None:
    ramp = np.asarray(np.linspace(3, 5, 300).reshape(10, 10, 3), np.float32)
    made = stretched(ramp).reshape(-1).astype(int)
    assert (np.diff(made) >= 0).all() and made[0] < 10 and made[-1] > 245 and len(set(made.tolist())) > 100
    assert np.ptp(stretched(np.full((8, 8, 3), 7, np.float32))) == 0
    assert np.ptp(stretched(np.asarray(ramp / 100, np.float32))) <= 245 * 0.02 / FAINTEST + 1


class Sure:
    """A detector that finds one upright face in the middle, and a landmarker that agrees but doubts it."""

    size, presence = 256, 0.4
    keypoints = np.array([(-0.2, -0.15), (0.2, -0.15), (0, 0.08), (-0.15, 0.3), (0.15, 0.3)], np.float32)

    def __call__(self, image: ByteArray, min_score: float | None = None) -> Any:
        if min_score is None:
            return self._meshes(len(image)), np.full(len(image), self.presence, np.float32)
        centre, side = np.array(image.shape[1::-1]) / 2, min(image.shape[:2]) / 2
        box = np.concatenate([centre - side / 2, centre + side / 2]).astype(np.float32)
        return [Detection(box, 0.95, (centre + side * self.keypoints).astype(np.float32))]

    def _meshes(self, count: int) -> FloatArray:
        mesh = face(127.5, 127.5, 256 / 1.5).mesh
        mesh[[33, 263], :2] = [(60, 102), (195, 102)]
        return np.repeat(mesh[None], count, 0)


class Blob(Sure):
    """A detector that takes a white square for a face from 20 pixels on, and a landmarker that is sure of it."""

    presence = 0.9

    def __call__(self, image: ByteArray, min_score: float | None = None) -> Any:
        if min_score is None:
            return super().__call__(image)
        rows, columns = np.nonzero(image.min(2) > 200)
        if len(rows) == 0 or np.ptp(rows) < 19:
            return []
        low, high = np.array([columns.min(), rows.min()]), np.array([columns.max() + 1, rows.max() + 1])
        points = (low + high) / 2 + (high - low) * self.keypoints
        return [Detection(np.concatenate([low, high]).astype(np.float32), 0.95, points.astype(np.float32))]


def test_small_faces_are_found_enlarged_and_mapped_back() -> None:
    image = np.full((240, 320, 3), 120, np.uint8)
    image[100:112, 200:212] = 255
    search = Search(Blob(), Blob(), 0.6, 10)
    view = View(image, np.eye(2, 3, dtype=np.float32))
    assert search.detect(iter([view])) == []
    (found,) = retried(search, Blob(), ArrayFrame(image))
    np.testing.assert_allclose(found.bbox, [200, 100, 212, 112], atol=1.5)
    np.testing.assert_allclose(found.keypoints, np.array([205.5, 105.5]) + 12 * Sure.keypoints, atol=1.5)
    assert np.ptp(found.mesh[:, 2]) == pytest.approx(12 * np.ptp(face(0, 0, 1).mesh[:, 2]), rel=0.2)
    assert retried(replace(search, smallest=16), Blob(), ArrayFrame(image)) == []


@pytest.mark.parametrize(("trusting", "count"), [(True, 1), (False, 0)])
def test_a_doubting_landmarker_is_outvoted_only_where_the_search_trusts_its_detector(
    trusting: bool, count: int
) -> None:
    image = np.zeros((200, 200, 3), np.uint8)
    search = Search(Sure(), Sure(), 0.6, 10, trusting)
    view = View(image, np.eye(2, 3, dtype=np.float32))
    assert len(search.confirm(ArrayFrame(image), view, search.detect(iter([view])))) == count


def test_of_two_that_coincide_the_first_ones_stay() -> None:
    old, better, other = face(50, 50, score=0.7), face(51, 50, score=0.9), face(300, 50, score=0.8)
    assert unique([old, better, other], first=1) == [old, other]
    assert unique([old, better, other]) == [better, other]
    assert unique([]) == []


def test_nothing_is_near_a_place_outside_the_frame() -> None:
    search = Search(Sure(), Sure(), 0.6, 10)
    box = np.array([-500, -500, -400, -400], np.float32)
    assert retried_near(search, Sure(), ArrayFrame(np.zeros((50, 50, 3), np.uint8)), box) is None
