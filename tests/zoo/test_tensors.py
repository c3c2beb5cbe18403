"""Networks: types, names and order of inputs, and files that take one item at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

from mien.errors import ModelError
from mien.runtime.graph import Graph, open_graph
from mien.runtime.session import Runtime
from mien.zoo.cards import ModelCard
from mien.zoo.tensors import Network, unit
from tests.stand_ins import graph, node

CARD = ModelCard("net", "swapper", "CC0-1.0", True, "made here")


def product(
    kind: int = TensorProto.FLOAT, batch: int | str = "n", order: Sequence[str] = ("target", "source")
) -> bytes:
    """target (n, 3) · source (n, 1), and twice that as a second output."""
    shapes = {"target": (batch, 3), "source": (batch, 1)}
    made = helper.make_graph(
        [helper.make_node("Mul", ["target", "source"], ["y"]), helper.make_node("Add", ["y", "y"], ["twice"])],
        "product",
        [helper.make_tensor_value_info(name, kind, shapes[name]) for name in order],
        [helper.make_tensor_value_info(name, kind, (batch, 3)) for name in ("y", "twice")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


NAMED = {"source": ("n", 1), "target": ("n", 3)}
SOURCE = np.array([[2.0], [3.0]], np.float32)
TARGET = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("order", [("target", "source"), ("source", "target")])
@pytest.mark.parametrize("batch", ["n", 1])
def test_arrays_find_their_input_by_name_and_results_are_float32(
    kind: int, order: Sequence[str], batch: int | str
) -> None:
    network = Network(CARD, "cpu", product(kind, batch, order), NAMED, [("n", 3), ("n", 3)])
    once, twice = network(SOURCE, TARGET)
    assert once.dtype == twice.dtype == np.float32
    np.testing.assert_array_equal(once, SOURCE * TARGET)
    np.testing.assert_array_equal(twice, 2 * SOURCE * TARGET)


def test_inputs_without_names_are_given_in_the_files_order() -> None:
    network = Network(CARD, "cpu", product(), [("n", 3), ("n", 1)], [("n", 3), ("n", 3)])
    np.testing.assert_array_equal(network(TARGET, SOURCE)[0], SOURCE * TARGET)


def test_outputs_to_spare_are_left_out() -> None:
    network = Network(CARD, "cpu", product(), NAMED, [("n", 3)], spare=True)
    (once,) = network(SOURCE, TARGET)
    np.testing.assert_array_equal(once, SOURCE * TARGET)
    with pytest.raises(ModelError, match=r"expected outputs n×3 but found n×3, n×3"):
        Network(CARD, "cpu", product(), NAMED, [("n", 3)])


def test_an_input_that_only_some_files_have_comes_last() -> None:
    network = Network(
        CARD, "cpu", product(), {"target": ("n", 3)}, [("n", 3)], optional={"source": ("n", 1)}, spare=True
    )
    assert network.has("source") and not network.has("weight")
    np.testing.assert_array_equal(network(TARGET, SOURCE)[0], SOURCE * TARGET)


def test_other_names_are_told() -> None:
    with pytest.raises(ModelError, match=r"^net: expected inputs source, image but found target, source; this file is"):
        Network(CARD, "cpu", product(), {"source": ("n", 1), "image": ("n", 3)}, [("n", 3)])


@pytest.mark.parametrize("shape", [("n", 4), (2, 3), ("n", 3, 1)])
def test_other_shapes_are_told(shape: tuple[Any, ...]) -> None:
    with pytest.raises(ModelError, match=r"^net: expected inputs .* but found 1×3, 1×1; this file is not"):
        Network(CARD, "cpu", product(batch=1), [shape, ("n", 1)], [("n", 3)], spare=True)


def test_none_is_any_size() -> None:
    network = Network(CARD, "cpu", product(batch=1), [(None, None), (None, None)], [(None, 3)], spare=True)
    assert [tensor.shape for tensor in network.inputs] == [(1, 3), (1, 1)]
    np.testing.assert_array_equal(network(TARGET[:1], SOURCE[:1])[0], SOURCE[:1] * TARGET[:1])


def single(shape: tuple[int, ...] = (1, 3), rows: int = 3) -> bytes:
    """x (n, 3) → twice x, by its word; exported for one item, it fails on more, or, with one row, drops them."""
    made = [node("Add", ["x", "x"], "sum"), node("Slice", ["sum", "start", "stop"], "part")]
    constants = {"start": np.array([0]), "stop": np.array([rows]), "shape": np.array(shape)}
    return graph([*made, node("Reshape", ["part", "shape"], "y")], {"x": ("n", 3)}, {"y": ("n", 3)}, **constants)


@pytest.mark.parametrize("file", [single(), single(rows=1)], ids=["fails", "gives one"])
def test_a_file_that_only_declares_a_free_batch_is_run_item_by_item(file: bytes) -> None:
    network = Network(CARD, "cpu", file, [("n", 3)], [("n", 3)])
    np.testing.assert_array_equal(network(TARGET[:1])[0], 2 * TARGET[:1])
    assert not network.notes
    for _ in range(2):
        np.testing.assert_array_equal(network(TARGET)[0], 2 * TARGET)
    assert network.notes == ("net: run item by item, since its file takes no more, whatever it declares",)


class Stubborn:
    """A graph that fails on more than `most` items with these words."""

    def __init__(self, graph: Graph, words: str, most: int) -> None:
        self._graph, self._words, self._most, self.batches = graph, words, most, list[int]()
        self.get_inputs, self.get_outputs = graph.get_inputs, graph.get_outputs
        self.get_providers = graph.get_providers

    def run(self, names: Any, feeds: Any, options: Any) -> Any:
        self.batches.append(len(feeds["target"]))
        if self.batches[-1] > self._most:
            raise RuntimeError(self._words)
        return self._graph.run(names, feeds, options)


def stubborn(words: str, most: int = 1) -> tuple[Network, Stubborn]:
    opened = Stubborn(open_graph(product(), "cpu", 1), words, most)
    where = Runtime("cpu", opener=lambda *_: opened)
    return Network(CARD, where, product(), NAMED, [("n", 3)], spare=True), opened


def test_an_inference_that_was_ended_is_not_tried_item_by_item() -> None:
    network, opened = stubborn("Exiting due to terminate flag being set to true.")
    with pytest.raises(ModelError, match=r"^net: inference failed"):
        network(SOURCE, TARGET)
    assert opened.batches == [2] and not network.notes


def test_memory_that_runs_out_is_not_taken_for_a_file_of_one_item() -> None:
    network, opened = stubborn("CUDA failure 2: out of memory")
    np.testing.assert_array_equal(network(SOURCE, TARGET)[0], SOURCE * TARGET)
    assert opened.batches == [2, 1, 1]
    assert network.notes == ("net: out of memory on cpu; at most 1 done at a time",)


def test_batches_that_fail_once_are_not_tried_again() -> None:
    network, opened = stubborn("Non-zero status code returned while running Reshape node.")
    for _ in range(2):
        np.testing.assert_array_equal(network(SOURCE, TARGET)[0], SOURCE * TARGET)
    assert opened.batches == [2, 1, 1, 1, 1]


def test_a_file_that_fails_on_one_item_too_fails() -> None:
    network, opened = stubborn("Non-zero status code returned while running Reshape node.", most=0)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"^net: inference failed"):
            network(SOURCE, TARGET)
    assert opened.batches == [2, 1, 2, 1] and not network.notes


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_do_not_go_in(value: float) -> None:
    network = Network(CARD, "cpu", product(), NAMED, [("n", 3)], spare=True)
    spoilt: npt.NDArray[np.float32] = np.where(TARGET == 4, np.float32(value), TARGET)
    with pytest.raises(ModelError, match=r"^net: was given values that are not finite"):
        network(SOURCE, spoilt)


def test_short_embeddings_are_scaled_and_only_those_of_nothing_are_told() -> None:
    np.testing.assert_allclose(unit("net", np.array([[3e-3, 4e-3]], np.float32)), [[0.6, 0.8]], atol=1e-6)
    with pytest.raises(ModelError, match=r"^net: the model gave an empty embedding"):
        unit("net", np.array([[3, 4], [0, 0]], np.float32))
