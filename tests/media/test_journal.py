"""The journal: what is noted survives; what is cut off, of another run, or no journal, is not believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mien.errors import OutputError
from mien.media.journal import Journal, Segment

OUT = Path("out.mp4")
HEADER = {"the target": "aa", "--crf": 17}


def segment(number: int) -> Segment:
    return Segment(
        number=number,
        sha256=f"{number:064x}",
        last_frame=10 * number + 9,
        source_pts=1000 * number,
        last_pts=1000 * number - 7,
        lag=2,
        moved=number,
        setup={"name": "libx264", "rate": "30000/1001"},
        state="00",
        notes=[],
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    journal = Journal.create(path, HEADER)
    for number in range(3):
        journal.append(segment(number))
    return path


def test_what_was_noted_is_read_back(path: Path) -> None:
    assert Journal.load(path, OUT, HEADER).segments == [segment(0), segment(1), segment(2)]


def test_a_journal_cut_anywhere_goes_on_after_its_last_whole_line(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    for length in range(len(whole) + 1):
        cut = tmp_path / "cut"
        cut.write_bytes(whole[:length])
        if length < header:
            with pytest.raises(OutputError, match="is not a whole journal; run again without --resume"):
                Journal.load(cut, OUT, HEADER)
            continue
        journal = Journal.load(cut, OUT, HEADER)
        count = whole[:length].count(b"\n") - 1
        assert journal.segments == [segment(number) for number in range(count)]
        journal.append(segment(count))
        assert Journal.load(cut, OUT, HEADER).segments == [segment(number) for number in range(count + 1)]


@pytest.mark.parametrize("line", [b"[1]", b"{", b'{"number": 1}', b"\xff\xfe", b"null"])
def test_a_line_that_is_none_ends_the_journal(path: Path, line: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[2] = line
    path.write_bytes(b"\n".join(lines))
    assert Journal.load(path, OUT, HEADER).segments == [segment(0)]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_altered_value_is_not_believed(path: Path, number: int) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[number] = lines[number].replace(b'"lag": 2', b'"lag": 3')
    path.write_bytes(b"\n".join(lines))
    assert Journal.load(path, OUT, HEADER).segments == [segment(i) for i in range(number - 1)]


def test_segments_out_of_order_are_not_believed(path: Path) -> None:
    Journal.load(path, OUT, HEADER).append(replace(segment(7)))
    assert len(Journal.load(path, OUT, HEADER).segments) == 3


def test_what_differs_is_told(path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        Journal.load(path, OUT, {"the target": "aa", "--crf": 20, "--fps": "25"})
    assert str(caught.value) == (
        "out.mp4: the interrupted run was another one (--crf was 17 and is 20; --fps was unknown and is 25); "
        "repeat it as it was, or run without --resume to start anew"
    )


def test_a_journal_of_another_format_is_refused(path: Path) -> None:
    Journal.create(path, {**HEADER, "format": 0})
    with pytest.raises(OutputError, match="format was 0 and is 1"):
        Journal.load(path, OUT, HEADER)


def test_segments_can_be_forgotten(path: Path) -> None:
    journal = Journal.load(path, OUT, HEADER)
    journal.forget(1)
    journal.append(replace(segment(1), moved=5))
    assert Journal.load(path, OUT, HEADER).segments == [segment(0), replace(segment(1), moved=5)]
