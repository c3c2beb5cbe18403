from __future__ import annotations

from pathlib import Path

import pytest

from mien.cli.arguments import shield

from .conftest import Mien


@pytest.mark.parametrize(
    ("line", "files", "shielded"),
    [
        ("swap -s a.jpg -t b.jpg -o c.jpg", "", "swap -s a.jpg -t b.jpg -o c.jpg"),
        ("swap -s -a.jpg -t --b -o c", "-a.jpg --b", "swap -s ./-a.jpg -t ./--b -o c"),
        ("swap -s a -t b -o -c.mp4", "", "swap -s a -t b -o ./-c.mp4"),
        ("swap -s a -t b --report -r.json -o c", "", "swap -s a -t b --report ./-r.json -o c"),
        ("swap -s -t b -o c", "", "swap -s -t b -o c"),
        ("swap -s -t -t b -o c", "-t", "swap -s ./-t -t b -o c"),
        ("swap -s a -t b -o --quiet", "", "swap -s a -t b -o --quiet"),
        ("swap -s a -t b -o --crf=3", "", "swap -s a -t b -o --crf=3"),
        ("swap -s a -t b -o c --quiet", "--quiet", "swap -s a -t b -o c --quiet"),
        ("analyze -x.jpg --json", "-x.jpg --json", "analyze ./-x.jpg --json"),
        ("analyze -- -x.jpg", "-x.jpg", "analyze -- -x.jpg"),
        ("analyze -missing.jpg", "", "analyze -missing.jpg"),
    ],
)
def test_paths_are_told_from_flags(line: str, files: str, shielded: str) -> None:
    assert shield(line.split(), set(files.split()).__contains__) == shielded.split()


@pytest.mark.parametrize(
    "name", ["-x.jpg", "[1].jpg", '{"a": 1}', "a b.jpg", "🙂.jpg", "it's.jpg", '"q".jpg', "@x", "~"]
)
def test_an_existing_file_is_read_whatever_its_name(
    mien: Mien, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(b"not a picture")
    result = mien("analyze", name)
    assert result.code == 1
    assert result.err.startswith(f"mien: {name}: ")
    assert result.err.count("\n") == 1
