from __future__ import annotations

import hashlib
from pathlib import Path

import onnxruntime
import pytest

from mien.zoo.cards import ModelCard
from mien.zoo.registry import registry

CARDS: list[ModelCard] = [family.card for family in registry().values() if family.card.bundled]


def test_the_five_face_models_ship() -> None:
    assert {card.name for card in CARDS} >= {"yunet", "mesh478", "blendshapes52", "mobilefacenet", "skin_hair"}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_the_card_describes_the_file_and_the_readme_names_it(card: ModelCard) -> None:
    assert card.weights is not None
    data = card.weights.path.read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (card.weights.size, card.weights.sha256)
    readme = (card.weights.path.parent / "README.md").read_text(encoding="utf-8")
    assert f"{card.weights.sha256}  {card.weights.file}" in readme
    assert f"`{card.weights.file}` | {card.weights.size}" in readme


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_licence_text_lies_beside_the_weights(card: ModelCard) -> None:
    assert card.weights is not None
    texts = {"Apache-2.0": "Apache License", "MIT": "MIT License"}
    licences = [path.read_text(encoding="utf-8") for path in card.weights.path.parent.glob("LICENSE-*.txt")]
    assert any(texts[card.licence] in text for text in licences)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_loading_is_silent(card: ModelCard, capfd: pytest.CaptureFixture[str]) -> None:
    assert card.weights is not None
    onnxruntime.InferenceSession(str(card.weights.path), providers=["CPUExecutionProvider"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_no_cast_of_stored_float16_is_left_at_run_time(card: ModelCard, tmp_path: Path) -> None:
    assert card.weights is not None
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(str(card.weights.path), options, providers=["CPUExecutionProvider"])
    import onnx

    assert "Cast" not in {node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
