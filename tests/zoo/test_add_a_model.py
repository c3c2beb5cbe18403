"""The example of docs/add-a-model.md is code that works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mien.errors import ModelError
from mien.zoo.cards import ModelCard
from mien.zoo.probe import probe
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the example's file, stand-in and test define."""
    text = (ROOT / "docs" / "add-a-model.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    found: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "add-a-model.md", "exec"), found)
    return found


def test_the_examples_own_test_passes(names: dict[str, Any]) -> None:
    names["test_channels_are_rgb_with_imagenet_statistics"]()


@pytest.mark.parametrize(("name", "dimensions"), [("ExampleSmall", 128), ("ExampleLarge", 512)])
def test_the_example_keeps_an_embedders_contract(names: dict[str, Any], name: str, dimensions: int) -> None:
    model = names[name]("cpu", names["example"](dimensions))
    crops = np.array([(255, 0, 51), (10, 20, 30)], np.uint8)[:, None, None].repeat(112, 1).repeat(112, 2)
    embeddings = model(crops)
    assert embeddings.shape == (2, dimensions) and embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-6)
    probe("embedder", model)


def test_the_example_refuses_another_file(names: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"^example_small: expected outputs n×128 but found n×512"):
        names["ExampleSmall"]("cpu", names["example"](512))


def test_the_example_tells_the_two_kinds_of_weights(names: dict[str, Any]) -> None:
    small, large = (names[name].card for name in ("ExampleSmall", "ExampleLarge"))
    assert isinstance(small, ModelCard) and (small.supply, large.supply) == ("ships", "pull")
    assert large.next_step == "run `mien models pull example_large`"
