"""Seams and casts of known size on generated pictures."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mien.color import as_float, from_lab, to_lab
from mien.evaluate.border import FLOOR, INSIDE, OUTSIDE, border, changed_region
from mien.evaluate.images import delta_e
from mien.mesh import OVAL, SURFACE, polygon_mask
from mien.types import ByteArray, FloatArray
from tests.heads import mesh

HEAD = mesh(240.0, (256.0, 256.0))
SHAPE = (512, 512)


def flat(lab: tuple[float, float, float]) -> ByteArray:
    """A picture of one colour."""
    colour = from_lab(np.asarray(lab, np.float32)[None, None])
    return np.asarray(np.rint(np.broadcast_to(colour, (*SHAPE, 3)) * 255), np.uint8)


def oval() -> FloatArray:
    """1 on the face."""
    return polygon_mask(HEAD[list(OVAL), :2], SHAPE[1], SHAPE[0])


def put(target: ByteArray, patch: ByteArray, mask: FloatArray) -> ByteArray:
    mixed = target + mask[..., None] * (patch.astype(np.float32) - target)
    return np.asarray(np.rint(mixed), np.uint8)


def textured(seed: int = 0) -> ByteArray:
    """Skin-like: a slow gradient and fine grain."""
    chance = np.random.default_rng(seed)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]] / 512
    lab = np.stack([60 + 15 * x + 10 * y, np.full(SHAPE, 15.0), np.full(SHAPE, 18.0)], 2)
    lab[..., 0] += cv2.GaussianBlur(chance.normal(0, 6, SHAPE), (0, 0), 1.5)
    return np.asarray(np.rint(from_lab(lab.astype(np.float32)) * 255), np.uint8)


def lab_of(picture: ByteArray) -> FloatArray:
    return np.asarray(to_lab(as_float(picture[:1, :1]))[0, 0], np.float32)


@pytest.mark.parametrize("picture", [flat((60, 15, 18)), textured()])
def test_an_output_that_equals_its_target_scores_nothing(picture: ByteArray) -> None:
    found = border(picture, picture.copy(), HEAD)
    assert (found.seam, found.softened, found.cast, found.place) == (0, 0, 0, None)


def test_a_picture_that_changed_alike_everywhere_has_no_border() -> None:
    target = textured()
    found = border(target, np.asarray(np.clip(target.astype(int) + 12, 0, 255), np.uint8), HEAD)
    assert found.seam < 0.03
    assert found.cast < 0.15


@pytest.mark.parametrize("step", [4.0, 8.0, 16.0])
def test_the_cast_is_the_colour_difference_of_the_rim(step: float) -> None:
    target, patch = flat((60, 15, 18)), flat((60 - step, 15, 18))
    found = border(target, put(target, patch, oval()), HEAD)
    assert found.cast == pytest.approx(float(delta_e(lab_of(patch), lab_of(target))), abs=0.05)


def test_the_cast_sees_colour_without_light() -> None:
    target, patch = flat((60, 15, 18)), flat((60, 25, 18))
    found = border(target, put(target, patch, oval()), HEAD)
    assert found.cast == pytest.approx(float(delta_e(lab_of(patch), lab_of(target))), abs=0.1)


def test_a_change_that_the_surroundings_share_is_no_cast() -> None:
    target = flat((60, 15, 18))
    brighter = flat((68, 15, 18))
    wide = polygon_mask((HEAD[list(OVAL), :2] - 256) * 1.3 + 256, SHAPE[1], SHAPE[0])
    narrow = border(target, put(target, brighter, oval()), HEAD)
    # A change that begins further out has its border, and so its cast, there: nothing hides behind a wider mask.
    assert border(target, put(target, brighter, wide), HEAD).cast == pytest.approx(narrow.cast, abs=0.1)


@pytest.mark.parametrize("step", [6.0, 12.0])
def test_the_seam_of_a_hard_step_is_its_energy(step: float) -> None:
    target, patch = flat((60, 15, 18)), flat((60 - step, 15, 18))
    found = border(target, put(target, patch, oval()), HEAD)
    jump = float(np.linalg.norm(lab_of(patch) - lab_of(target)))
    steps = OUTSIDE + INSIDE - 1
    # The step falls into one depth, or is shared by two: its energy is between all and half of its square.
    most, least = (np.log((share * jump**2 / steps + FLOOR) / FLOOR) for share in (1.0, 0.45))
    assert least <= found.seam <= most
    assert found.softened == pytest.approx(0, abs=1e-6)


def test_a_soft_border_shows_less_than_a_hard_one_and_none_hides_the_cast() -> None:
    target, patch = textured(), np.asarray(np.clip(textured().astype(int) - 25, 0, 255), np.uint8)
    masks = [cv2.GaussianBlur(oval(), (0, 0), sigma) if sigma else oval() for sigma in (0, 4, 12)]
    found = [border(target, put(target, patch, np.asarray(mask, np.float32)), HEAD) for mask in masks]
    assert found[0].seam > found[1].seam > found[2].seam > 0
    assert found[0].seam > 2 * found[2].seam


def test_grain_that_is_drawn_anew_is_no_seam() -> None:
    target, other = textured(0), textured(1)
    soft = np.asarray(cv2.GaussianBlur(oval(), (0, 0), 5), np.float32)
    grain = border(target, put(target, other, soft), HEAD)
    step = border(target, put(target, np.asarray(np.clip(other.astype(int) - 25, 0, 255), np.uint8), oval()), HEAD)
    assert grain.seam < 0.35
    assert step.seam > 4 * grain.seam
    assert grain.cast < 1


def test_a_blurred_border_loses_edges() -> None:
    target = textured()
    target[:, 248:264] = 30  # a dark band across the border, which a blur wipes out
    ring = np.asarray(cv2.dilate(oval(), np.ones((15, 15))) - cv2.erode(oval(), np.ones((45, 45))), np.float32)
    found = border(target, put(target, np.asarray(cv2.GaussianBlur(target, (0, 0), 12), np.uint8), oval()), HEAD)
    assert ring.max() == 1
    assert found.softened > 0.02


def test_the_worst_place_is_where_the_step_is() -> None:
    target = flat((60, 15, 18))
    patch = flat((60, 15, 18))
    patch[:, 256:] = np.clip(patch[:, 256:].astype(int) - 60, 0, 255)
    output = put(target, patch, oval())
    found = border(target, output, HEAD)
    assert found.place is not None
    assert found.place[0] > 256
    # On the outline, within 3 % of the face.
    gap = np.linalg.norm(HEAD[list(OVAL), :2] - np.array(found.place), axis=1).min()
    left = abs(found.place[0] - 256)
    assert min(gap, left) < 0.06 * float(np.ptp(HEAD[:SURFACE, 0]))


def test_faces_of_any_size_and_turn_score_alike() -> None:
    scores = []
    for scale, angle in ((1.0, 0.0), (0.5, 0.0), (0.7, 25.0)):
        turn = cv2.getRotationMatrix2D((256, 256), angle, scale)
        head = HEAD.copy()
        head[:, :2] = HEAD[:, :2] @ turn[:, :2].T + turn[:, 2]
        mask = polygon_mask(head[list(OVAL), :2], *SHAPE[::-1])
        target, patch = flat((60, 15, 18)), flat((50, 15, 18))
        scores.append(border(target, put(target, patch, mask), head))
    assert np.ptp([score.cast for score in scores]) < 0.2
    assert np.ptp([score.seam for score in scores]) < 0.4 * scores[0].seam


def test_the_region_is_what_changed_without_holes() -> None:
    before = np.full((512, 512, 3), 100, np.uint8)
    after = before.copy()
    cv2.circle(after, (256, 256), 80, (130, 130, 130), -1)
    cv2.circle(after, (256, 256), 20, (100, 100, 100), -1)  # an open mouth, left as it was
    cv2.circle(after, (480, 480), 20, (130, 130, 130), -1)  # another face
    outline = np.zeros((512, 512), np.bool_)
    outline[170:340, 170:340] = True
    region = changed_region(before, after, outline, np.ones((512, 512), np.bool_))
    assert region is not None
    assert region[256, 256] and region[256, 330] and not region[480, 480]
    assert int(region.sum()) == pytest.approx(np.pi * 82**2, rel=0.03)
    assert changed_region(before, before + np.uint8(1), outline, np.ones((512, 512), np.bool_)) is None
