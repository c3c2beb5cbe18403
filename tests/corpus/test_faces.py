"""Faces: every face is found and swapped where it is, nothing before it is painted over, nothing else changes."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import mien
from mien.types import Face
from mien.zoo.registry import Zoo
from tests.corpus.conftest import Bench
from tests.corpus.crowd import EYES, MOUTH, SIDE, covered, drawn, grid, portrait, tilted, turned_away
from tests.corpus.film import film
from tests.corpus.look import assert_untouched, look
from tests.corpus.scene import Array, Pixels, head, pattern, photo_of, scene, stamp

FACE = (slice(123, 347), slice(162, 320))
"""Rows and columns of the face in `portrait()`."""


def save(path: Path, pixels: Pixels) -> Path:
    Image.fromarray(pixels).save(path)
    return path


def read(path: Path) -> Pixels:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def swapped(bench: Bench, tmp_path: Path, pixels: Pixels, name: str = "face") -> Pixels:
    made = read(bench.swap(save(tmp_path / f"{name}.png", pixels), f"{name}.png"))
    assert made.shape == pixels.shape
    return made


def change(a: Array, b: Array) -> Array:
    """Mean absolute difference of each pixel."""
    return np.asarray(np.abs(a.astype(float) - b).mean(2))


def test_no_face_is_an_error(bench: Bench, tmp_path: Path) -> None:
    bench.fails(save(tmp_path / "none.png", scene(name=None)), "none.png", "no face", name="out.png")
    bench.fails(film(tmp_path / "none.mp4", pts=range(4), draw=lambda n: scene(n, name=None)), "none.mp4", "no face")


def test_a_source_without_a_face_is_an_error(bench: Bench, tmp_path: Path) -> None:
    target, empty = save(tmp_path / "in.png", scene()), save(tmp_path / "none.png", scene(name=None))
    ended = bench.command("swap", "-s", empty, "-t", target, "-o", bench.folder / "out.png")
    assert (ended.code, ended.out) == (1, "")
    assert "none.png" in ended.err
    assert "no face" in ended.err
    assert list(bench.folder.iterdir()) == []


@pytest.mark.parametrize("count", [1, 2, 9, 200])
def test_every_one_of_many_faces_is_swapped(bench: Bench, tmp_path: Path, count: int) -> None:
    crowd, tiles = grid(count, side=48)
    made = swapped(bench, tmp_path, crowd)
    assert len(bench.report.faces) == count
    keep = np.ones(crowd.shape[:2], bool)
    for x0, y0, x1, y1 in tiles:
        keep[y0:y1, x0:x1] = False
        assert (change(made, crowd)[y0:y1, x0:x1] > 10).mean() > 0.05
    assert np.array_equal(made[keep], crowd[keep])


@pytest.mark.parametrize("side", [28, 40, 120, 1000, 4000])
def test_faces_of_20_to_4000_pixels(bench: Bench, tmp_path: Path, side: int) -> None:
    """The side is the longer one of the face's box."""
    size, border = round(side * 380 / 279), 40
    picture = pattern(size + 2 * border, size + 2 * border).copy()
    picture[border:-border, border:-border] = head("male_036", size)
    target = save(tmp_path / ("in.png" if side < 1000 else "in.jpg"), picture)
    before = read(target)
    detect_size = 640 if side >= 1000 else 0
    made = read(bench.swap(target, "out.png" if side < 1000 else "out.bmp", detect_size=detect_size))
    (face,) = bench.report.faces
    assert face.bbox[3] - face.bbox[1] == pytest.approx(side, rel=0.2)
    inner = made[border:-border, border:-border]
    assert (change(inner, before[border:-border, border:-border]) > 10).mean() > 0.1
    keep = np.ones(made.shape[:2], bool)
    keep[border:-border, border:-border] = False
    assert np.array_equal(made[keep], before[keep])


@pytest.fixture(scope="module")
def face(models: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Face:
    """The portrait's own face."""
    path = save(tmp_path_factory.mktemp("portrait") / "in.png", portrait())
    with mien.analyze(path, zoo=models) as analysis:
        found: list[Face] = list(analysis[0])
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("yaw", [-75, -45, 45, 75, 90])
def test_a_face_in_profile(bench: Bench, tmp_path: Path, face: Face, yaw: int) -> None:
    picture = turned_away(yaw, face)
    made = swapped(bench, tmp_path, picture)
    (found,) = bench.report.faces
    x0, y0, x1, y1 = (round(value) for value in found.bbox)
    assert (x0 + x1) / 2 == pytest.approx(240 + 35 * np.sign(yaw), abs=45)
    keep = np.ones(picture.shape[:2], bool)
    keep[y0 - 60 : y1 + 60, x0 - 60 : x1 + 60] = False
    assert np.array_equal(made[keep], picture[keep])
    assert (change(made, picture)[y0:y1, x0:x1] > 8).mean() > 0.1
    # The cap behind the head is not painted with skin.
    behind = made[200:280, 175:190] if yaw > 0 else made[200:280, 290:305]
    assert np.abs(behind.astype(float) - [60, 42, 36]).mean() < 6


@pytest.mark.parametrize("degrees", range(0, 360, 30))
def test_a_tilted_face_gets_the_same_face_as_an_upright_one(bench: Bench, tmp_path: Path, degrees: int) -> None:
    upright = swapped(bench, tmp_path, tilted(0)[0], "upright")
    picture, window = tilted(degrees)
    made = swapped(bench, tmp_path, picture, "tilted")
    assert np.array_equal(made[~window], picture[~window])
    back = cv2.getRotationMatrix2D((239.5, 239.5), degrees, 1.0)
    straight = cv2.warpAffine(made, back, (480, 480), flags=cv2.INTER_CUBIC)
    assert change(straight, upright)[FACE].mean() < 4 < change(upright, portrait())[FACE].mean() / 4


def test_an_upside_down_clip(bench: Bench, tmp_path: Path) -> None:
    def draw(number: int) -> Pixels:
        made = scene(number)
        made[40:200, 144:304] = made[40:200, 144:304][::-1, ::-1].copy()
        return made

    target = film(tmp_path / "in.mp4", pts=range(6), draw=draw)
    before, after = look(target), look(bench.swap(target))
    assert bench.report.frames_with_faces == 6
    assert_untouched(before, after)


CUTS = {
    "left": (slice(None), slice(220, None)),
    "right": (slice(None), slice(None, 260)),
    "top": (slice(190, None), slice(None)),
    "bottom": (slice(None, 280), slice(None)),
    "all sides": (slice(140, 330), slice(175, 305)),
}


@pytest.mark.parametrize("side", CUTS)
def test_a_face_at_the_edge_of_the_frame(bench: Bench, tmp_path: Path, side: str) -> None:
    """What is seen of it gets what an uncut one gets there."""
    whole = swapped(bench, tmp_path, portrait(), "whole")
    part = np.ascontiguousarray(portrait()[CUTS[side]])
    made = swapped(bench, tmp_path, part, "part")
    assert len(bench.report.faces) == 1
    wanted, was = whole[CUTS[side]], change(whole, portrait())[CUTS[side]]
    seen = was > 10
    assert change(made, wanted)[seen].mean() < 0.6 * was[seen].mean()
    assert (change(made, part) > 5)[was == 0].mean() < 0.02


@pytest.mark.parametrize(("what", "share"), [
    ("sunglasses", 0.2), ("mask", 0.4), ("hand", 0.75), ("hair", 0.9), ("microphone", 0.4),
])  # fmt: skip
def test_what_covers_a_face_stays_before_it(bench: Bench, tmp_path: Path, what: str, share: float) -> None:
    """The cover changes by at most that share of what the bare face changes there; the rest is swapped."""
    bare = change(swapped(bench, tmp_path, portrait(), "bare"), portrait())
    picture, cover = covered(what)
    made = change(swapped(bench, tmp_path, picture, "covered"), picture)
    inner = cv2.erode(cover.astype(np.uint8), np.ones((3, 3))) > 0
    where = np.zeros_like(cover)
    where[FACE] = True
    assert made[inner & where].mean() < share * bare[inner & where].mean()
    if what != "mask":  # little is left beside a mask
        assert made[~cover & where].mean() > 0.6 * bare[~cover & where].mean()


def lids(picture: Pixels) -> Array:
    """Mean colour of both eyes' middles."""
    at = (480 - SIDE) // 2
    parts = [picture[y + at - 4 : y + at + 5, x + at - 8 : x + at + 9] for x, y in EYES]
    return np.asarray(np.mean([part.reshape(-1, 3).mean(0) for part in parts], axis=0))


def test_closed_eyes_stay_closed(bench: Bench, tmp_path: Path) -> None:
    picture, at = portrait(), (480 - SIDE) // 2
    skin = picture[at + 60 : at + 70, at + 140 : at + 170].reshape(-1, 3).mean(0)
    for x, y in EYES:
        cv2.ellipse(picture, (x + at, y + at), (26, 13), 0, 0, 360, skin.tolist(), -1)
        cv2.ellipse(picture, (x + at, y + at + 2), (22, 8), 0, 10, 170, (25, 15, 12), 3)
    picture[FACE] = cv2.GaussianBlur(picture[FACE], (0, 0), 1.0)
    made = swapped(bench, tmp_path, picture)
    assert len(bench.report.faces) == 1
    white = made[FACE].reshape(-1, 3)[:, 2]
    assert white.size
    # No bright eyeball is painted: the eyes stay as dark as the lids around them.
    assert lids(made).mean() < lids(picture).mean() + 40
    assert change(made, picture)[FACE].mean() > 8


def test_an_open_mouth_stays_open(bench: Bench, tmp_path: Path) -> None:
    picture, at = portrait(), (480 - SIDE) // 2
    x, y = MOUTH[0] + at, MOUTH[1] + at
    cv2.ellipse(picture, (x, y + 6), (34, 26), 0, 0, 360, (96, 48, 50), -1)
    cv2.ellipse(picture, (x, y + 6), (26, 18), 0, 0, 360, (22, 8, 10), -1)
    made = swapped(bench, tmp_path, picture)
    inside = (slice(y, y + 12), slice(x - 10, x + 10))
    assert made[inside].mean() < 60, "the mouth was painted shut"
    assert change(made, picture)[FACE].mean() > 8


def pair(left: str, right: str, x_left: float, x_right: float, number: int) -> Pixels:
    """Two people before the pattern, the left one in front where they meet."""
    made = pattern(480, 240).copy()
    for name, x in ((right, x_right), (left, x_left)):
        made[70:230, round(x) : round(x) + 120] = head(name, 160)[:, 20:140]
    stamp(made, number)
    return made


def brightness(picture: Array, face: Face) -> float:
    """Of the face's middle: tells one person from the other."""
    x0, y0, x1, y1 = face.bbox
    dx, dy = (x1 - x0) / 4, (y1 - y0) / 4
    return float(picture[round(y0 + dy) : round(y1 - dy), round(x0 + dx) : round(x1 - dx)].mean())


def test_two_people_crossing_keep_their_tracks(bench: Bench, tmp_path: Path) -> None:
    def draw(number: int) -> Pixels:
        return pair("male_036", "female_001", 10 + 14 * number, 346 - 14 * number, number)

    target = film(tmp_path / "in.mp4", pts=range(25), draw=draw)
    with mien.analyze(target, zoo=bench.zoo) as analysis:
        assert list(analysis.cuts) == []
        levels: dict[int, list[float]] = {}
        for number in range(25):
            for face in analysis[number]:
                if number not in range(10, 16):  # there the one in front covers the other
                    levels.setdefault(face.track, []).append(brightness(draw(number), face))
        assert all(len(analysis[number]) == 2 for number in (*range(8), *range(17, 25)))
    for track, seen in levels.items():
        assert max(seen) - min(seen) < 60, f"track {track} went from one person to the other"
    before, after = look(target), look(bench.swap(target))
    assert after.numbers == list(range(25))
    assert bench.report.frames_with_faces == 25
    for old, new in zip(before.shots, after.shots, strict=True):
        assert np.array_equal(old.planes[0][:64], new.planes[0][:64])


def test_a_face_that_another_person_hides_is_not_painted(bench: Bench, tmp_path: Path) -> None:
    """For some frames only hair is seen of the one behind: it stays hair."""

    def draw(number: int) -> Pixels:
        return pair("male_036", "female_001", 10 + 14 * number, 346 - 14 * number, number)

    target = film(tmp_path / "in.mp4", pts=range(25), draw=draw)
    before, after = look(target), look(bench.swap(target))
    for number, beside in {11: slice(276, None), 12: slice(292, None), 13: slice(None, 202)}.items():
        old, new = before.shots[number].planes[0][:, beside], after.shots[number].planes[0][:, beside]
        assert np.array_equal(old, new), f"frame {number}: a hidden face was painted beside the one in front"


def test_a_cut_between_people_ends_the_track(bench: Bench, tmp_path: Path) -> None:
    def draw(number: int) -> Pixels:
        return scene(number, name="male_036") if number < 6 else scene(number, name="female_001", seed=7)

    target = film(tmp_path / "in.mp4", pts=range(12), draw=draw)
    with mien.analyze(target, zoo=bench.zoo) as analysis:
        assert list(analysis.cuts) == [6]
        assert sorted((track.first, track.last) for track in analysis.tracks) == [(0, 5), (6, 11)]
    before, after = look(target), look(bench.swap(target))
    assert after.numbers == list(range(12))
    assert bench.report.tracks == 2
    assert_untouched(before, after)
    # The first frame of a shot looks like the rest of it: nothing of the other person's shot is smoothed in.
    steps = [
        np.abs(a.planes[0].astype(float) - b.planes[0]).mean()
        for a, b in zip(after.shots, after.shots[1:], strict=False)
    ]
    assert max(steps[:5] + steps[6:]) < 4 < steps[5]


def test_a_source_cropped_to_the_face_alone(bench: Bench, tmp_path: Path) -> None:
    with Image.open(photo_of("female_031")) as image:
        image.crop((188, 32, 329, 225)).save(tmp_path / "tight.png")
    tight = mien.Identity.from_images([tmp_path / "tight.png"], zoo=bench.zoo)
    assert mien.cosine_similarity(tight, bench.person) > 0.7
    target = save(tmp_path / "in.png", portrait())
    wanted = read(bench.swap(target, "wanted.png"))
    report = mien.swap(tight, target, bench.folder / "tight.png", zoo=bench.zoo)
    made = read(bench.folder / "tight.png")
    assert not report.faces[0].doubtful
    was = change(wanted, portrait())[FACE]
    assert change(made, wanted)[FACE].mean() < 0.6 * was.mean()


@pytest.mark.parametrize("how", ["statue", "cartoon", "pencil"])
def test_drawings_and_statues_with_a_face_are_swapped(bench: Bench, tmp_path: Path, how: str) -> None:
    picture = drawn(how)
    made = swapped(bench, tmp_path, picture)
    (found,) = bench.report.faces
    x0, y0, x1, y1 = (round(value) for value in found.bbox)
    keep = np.ones(picture.shape[:2], bool)
    keep[y0 - 60 : y1 + 60, x0 - 60 : x1 + 60] = False
    assert np.array_equal(made[keep], picture[keep])
    assert change(made, picture)[y0:y1, x0:x1].mean() > 8


def test_a_few_strokes_are_no_face(bench: Bench, tmp_path: Path) -> None:
    bench.fails(save(tmp_path / "child.png", drawn("child")), "child.png", "no face", name="out.png")
