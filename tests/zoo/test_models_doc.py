from __future__ import annotations

from mien.zoo.registry import registry
from scripts.models_doc import PAGE, page


def test_the_page_of_models_is_that_of_the_registry() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m scripts.models_doc`"


def test_every_model_has_a_row() -> None:
    rows = [line.strip("| ").split(" | ") for line in page().splitlines() if line.startswith("| ")]
    found = {(row[1], row[0]): row for row in rows if len(row) == 8}
    del found["task", "name"]
    assert set(found) == set(registry())
    assert found["detector", "yunet"][2:5] == ["Apache-2.0", "yes", "yes"]
    assert found["detector", "scrfd_10g"][3:5] == ["no", "no"]
    assert found["detector", "scrfd_10g"][7] == "`mien models pull scrfd_10g`"
