from __future__ import annotations

import json
from pathlib import Path

from .conftest import Mien


def test_the_same_photo_is_alike_and_strangers_are_not(mien: Mien, portraits: Path) -> None:
    one, other = portraits / "female_001.jpg", portraits / "male_009.jpg"
    same = json.loads(mien("compare", one, one, "--json").out)
    strangers = json.loads(mien("compare", one, other, "--json").out)
    assert same == {"a": str(one), "b": str(one), "similarity": same["similarity"]}
    assert same["similarity"] > 0.999
    assert strangers["similarity"] < 0.4
    assert mien("compare", one, other).out == f"similarity {strangers['similarity']:.3f}\n"


def test_a_photo_without_a_face_fails(mien: Mien, portraits: Path, tmp_path: Path) -> None:
    missing = tmp_path / "x.jpg"
    result = mien("compare", portraits / "male_009.jpg", missing)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"mien: {missing}: ")
