from __future__ import annotations

import json

from mien.zoo.registry import registry

from .conftest import Mien

KEYS = {"name", "task", "licence", "commercial", "installed", "size", "origin"}


def test_json_is_an_array_with_every_model(mien: Mien) -> None:
    result = mien("models", "list", "--json")
    rows = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert {(row["task"], row["name"]) for row in rows} == set(registry())
    assert all(set(row) == KEYS for row in rows)


def test_json_tells_what_the_cards_tell(mien: Mien) -> None:
    rows = {row["name"]: row for row in json.loads(mien("models", "list", "--json").out)}
    card = registry()["detector", "yunet"].card
    assert rows["yunet"] == {
        "name": "yunet",
        "task": "detector",
        "licence": card.licence,
        "commercial": True,
        "installed": True,
        "size": card.weights.path.stat().st_size,
        "origin": card.origin,
    }


def test_table_has_a_line_for_each_model(mien: Mien) -> None:
    lines = mien("models", "list").out.splitlines()
    assert lines[0].split()[:3] == ["task", "name", "licence"]
    assert {tuple(line.split()[:2]) for line in lines[1:]} == set(registry())
