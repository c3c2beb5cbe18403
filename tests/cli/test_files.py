from __future__ import annotations

import json
from pathlib import Path

import pytest

from mien.cli.files import write_json


def test_a_report_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    write_json(path, {"a": [1, None, "é"]})
    assert json.loads(path.read_text()) == {"a": [1, None, "é"]}
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_report(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_report_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    write_json(tmp_path / "r.json", {})
    assert (tmp_path / "r.json").stat().st_mode == plain.stat().st_mode
