from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from mien.cli.flags import flag, limits
from mien.cli.main import COMMANDS
from mien.options import SwapOptions
from mien.zoo.registry import registry

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def readme() -> list[str]:
    return (ROOT / "README.md").read_text().splitlines()


def test_the_table_of_options_is_that_of_the_model(readme: list[str]) -> None:
    rows = []
    for name, field in SwapOptions.model_fields.items():
        choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        values = ", ".join(choices) or limits(field)
        rows.append(f"| `{flag(name)}` | {field.default} | {values} | {field.description} |")
    start = readme.index(rows[0])
    assert readme[start : start + len(rows)] == rows


def test_the_table_of_licences_is_that_of_the_cards(readme: list[str]) -> None:
    cards = [family.card for family in registry().values() if family.card.bundled is not None]
    rows = {f"| {c.name} | {c.task} | {c.licence} | {'yes' if c.commercial else 'no'} |" for c in cards}
    start = readme.index("| model | task | licence | commercial use |")
    assert set(readme[start + 2 : start + 2 + len(rows)]) == rows


def test_every_command_is_described() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    assert all(f"\n## mien {name}" in text for name in COMMANDS)


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for part in document.read_text().split("](")[1:]:
            target = part.partition(")")[0].partition("#")[0]
            if target and not target.startswith("https:"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"
