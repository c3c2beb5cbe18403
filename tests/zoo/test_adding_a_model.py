"""The example of docs/adding-a-model.md is code that works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mien.errors import ModelError
from tests import stand_ins
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def example() -> Any:
    text = (ROOT / "docs" / "adding-a-model.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], "adding-a-model.md", "exec"), names)
    return names["Example"]


def test_the_example_keeps_an_embedders_contract(example: Any) -> None:
    crops = np.array([(255, 0, 51), (10, 20, 30)], np.uint8)[:, None, None].repeat(112, 1).repeat(112, 2)
    embeddings = example("cpu", stand_ins.embedder())(crops)
    assert embeddings.shape == (2, 128) and embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-6)


def test_the_example_refuses_another_file(example: Any) -> None:
    with pytest.raises(ModelError, match=r"^example: expected outputs n×128 but found n×512"):
        example("cpu", stand_ins.embedder(512))
