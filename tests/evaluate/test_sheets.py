from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mien.evaluate.report import Row
from mien.evaluate.sheets import LINE, TILE, TILES, choose, decode, encode, overview, sheet, strip, write_picture
from mien.mesh import SURFACE
from mien.types import ByteArray
from tests import heads

FACE = heads.face(heads.mesh(160, (200, 150)))


def plain(colour: tuple[int, int, int]) -> ByteArray:
    return np.full((300, 400, 3), colour, np.uint8)


def tiles(picture: ByteArray) -> list[tuple[int, ...]]:
    """Middle colour of each tile, rounded to tens, as JPEG changes it a little."""
    row = picture[TILE // 2, TILE // 2 :: TILE].astype(int)
    return [tuple(int(round(v, -1)) for v in colour) for colour in row]


def rows(*values: float | None) -> list[Row]:
    return [Row("swap", f"{i}", "t", "s", "t", {}, {} if v is None else {"x": v}) for i, v in enumerate(values)]


def test_a_strip_shows_source_target_output_and_its_parts() -> None:
    red, green, blue = (200, 0, 0), (0, 150, 0), (0, 0, 250)
    picture = decode(strip(plain(red), FACE, plain(green), plain(blue), FACE, None))
    assert picture.shape == (TILE, TILES * TILE, 3)
    assert tiles(picture) == [red, green, blue, blue, blue, green, blue]


def test_the_parts_are_those_of_the_face() -> None:
    output = plain((0, 0, 0))
    eyes, chin = FACE.mesh[[33, 263], :2].mean(0), FACE.mesh[152, :2]
    extent = float(np.ptp(FACE.mesh[:SURFACE, :2], axis=0).max())
    for (x, y), colour in ((eyes, (250, 0, 0)), (chin, (0, 250, 0)), ((300.0, 40.0), (0, 0, 250))):
        side = round(0.1 * extent)
        output[round(y) - side : round(y) + side, round(x) - side : round(x) + side] = colour
    at_chin = decode(strip(output, FACE, output, output, FACE, None))
    elsewhere = decode(strip(output, FACE, output, output, FACE, (300.0, 40.0)))
    assert tiles(at_chin)[3] == (250, 0, 0)
    assert tiles(at_chin)[5:] == [(0, 250, 0)] * 2
    assert tiles(elsewhere)[5:] == [(0, 0, 250)] * 2


def test_a_sheet_puts_a_line_of_text_above_each_strip() -> None:
    one = encode(np.full((TILE, TILES * TILE, 3), 90, np.uint8))
    picture = sheet([("best: a → b", one), ("worst: b → a", one)])
    assert picture.shape == (2 * (LINE + TILE), TILES * TILE, 3)
    assert picture[:LINE].min() < 60 and picture[:LINE].mean() > 200  # dark letters on white
    assert abs(int(picture[LINE + 5, 5, 0]) - 90) <= 2


def test_an_overview_holds_the_first_three_pictures_of_each() -> None:
    wide = np.full((TILE, TILES * TILE, 3), 250, np.uint8)
    wide[:, : 3 * TILE] = (0, 150, 0)
    picture = overview([encode(wide)] * 5, side=40)
    assert picture.shape == (2 * 40, 4 * 3 * 40, 3)
    assert picture[:, : 3 * 40].max(axis=(0, 1))[0] < 20
    assert picture[60, -1].tolist() == [255, 255, 255]  # no sixth
    assert overview([encode(wide)], side=40).shape == (40, 120, 3)


def test_best_typical_and_worst_are_ranked() -> None:
    members = rows(0.1, 0.9, None, 0.5, 0.3, 0.7)
    assert choose(members, "x", 1, higher=True) == {"best": [1], "typical": [3], "worst": [0]}
    assert choose(members, "x", 1, higher=False) == {"best": [0], "typical": [3], "worst": [1]}
    many = choose(rows(*(i / 100 for i in range(30))), "x", 2, higher=True)
    assert many == {"best": [29, 28], "typical": [15, 14], "worst": [0, 1]}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_rows_are_shown_once_each(count: int) -> None:
    chosen = choose(rows(*(float(i) for i in range(count))), "x", 5, higher=True)
    places = [i for group in chosen.values() for i in group]
    assert len(places) == len(set(places))
    assert 0 in chosen["worst"]
    assert choose(rows(None), "x", 5, higher=True) == {"best": [], "typical": [], "worst": []}


def test_pictures_are_written_by_their_ending(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    write_picture(tmp_path / "a.png", image)
    np.testing.assert_array_equal(decode((tmp_path / "a.png").read_bytes()), image)
    write_picture(tmp_path / "a.jpg", image)
    assert (tmp_path / "a.jpg").read_bytes()[:2] == b"\xff\xd8"
