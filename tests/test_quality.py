"""The quality benchmark draws its pairs the same way each time, and measures what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import quality


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Folders of photos that are names only."""
    for folder, count in (("portraits", 8), ("hard", 4), ("london", 3)):
        (tmp_path / folder).mkdir()
        for i in range(count):
            (tmp_path / folder / f"{folder}_{i}.jpg").touch()
    (tmp_path / "portraits" / "LICENSE.txt").touch()
    return tmp_path


def test_pairs_are_the_same_each_time(data: Path) -> None:
    first, again, other = (list(quality.pairs(data, 200, seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 200
    # The first pairs of a long run are those of a short one.
    assert list(quality.pairs(data, 20, 0)) == first[:20]


def test_pairs_are_of_two_people_from_both_folders(data: Path) -> None:
    found = list(quality.pairs(data, 400, 0))
    assert all(source != target for source, target in found)
    people = {path for pair in found for path in pair}
    assert people == {*(data / "portraits").glob("*.jpg"), *(data / "hard").glob("*.jpg")}
    assert {(b, a) for a, b in found} & set(found)  # ordered: both ways round


def test_psnr_of_known_differences() -> None:
    black, grey = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 51, np.uint8)
    assert quality._psnr(black, grey) == pytest.approx(20 * np.log10(5), abs=1e-3)
    assert quality._psnr(grey, black) == quality._psnr(black, grey)
    assert quality._psnr(grey, grey) > 100
