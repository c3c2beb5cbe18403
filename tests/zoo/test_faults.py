"""Networks that break their word, and weights that are damaged: one error that names the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

import mien
from mien.errors import ModelError
from mien.fusion import INPUTS, SIDE, View
from mien.mesh import constants
from mien.options import Device
from mien.runtime.graph import Graph
from mien.runtime.session import Runtime
from mien.types import FloatArray, Patch
from mien.zoo.cards import Weights
from mien.zoo.contracts import check_patches
from mien.zoo.detectors.retinaface import RetinaFaceMnet025
from mien.zoo.detectors.yunet import YuNet
from mien.zoo.embedders.mobilefacenet import MobileFaceNet
from mien.zoo.expressions.blendshapes52 import Blendshapes52
from mien.zoo.landmarkers.mesh478 import Mesh478
from mien.zoo.maskers.occluder import Occluder
from mien.zoo.maskers.skin_hair import SkinHair
from mien.zoo.registry import registry
from mien.zoo.swappers.texture import TextureSwapper
from mien.zoo.tensors import Network, Shape


class Value:
    def __init__(self, name: str, shape: Sequence[int | str | None]) -> None:
        self.name, self.shape, self.type = name, shape, "tensor(float)"


class Liar:
    """A graph of the right shapes that gives what it is told to."""

    def __init__(
        self,
        inputs: Sequence[Sequence[int | str | None]],
        outputs: Sequence[Sequence[int | str | None]],
        spoil: Callable[[list[FloatArray]], None],
        names: Sequence[str] = (),
    ) -> None:
        self._inputs, self._outputs, self._spoil = inputs, outputs, spoil
        self._names = names or [f"i{index}" for index in range(len(inputs))]

    def open(self, model: Path | bytes, device: Device, threads: int) -> Graph:
        return self

    def get_providers(self) -> Sequence[str]:
        return ["CPUExecutionProvider"]

    def get_inputs(self) -> Sequence[Value]:
        return [Value(name, shape) for name, shape in zip(self._names, self._inputs, strict=True)]

    def get_outputs(self) -> Sequence[Value]:
        return [Value(f"o{index}", shape) for index, shape in enumerate(self._outputs)]

    def run(
        self, names: object, feeds: Mapping[str, npt.NDArray[Any]], options: object
    ) -> Sequence[npt.NDArray[np.float32]]:
        x = feeds[self._names[0]]
        height, width = x.shape[2], x.shape[-1]
        cells = iter([(height // stride) * (width // stride) for stride in (8, 16, 32)] * 4)
        priors = 2 * sum((height // stride) * (width // stride) for stride in (8, 16, 32))
        sizes: dict[str | None, Callable[[], int]] = {
            "n": lambda: len(x), "cells": lambda: next(cells), None: lambda: priors
        }  # fmt: skip
        outputs = [
            np.full([size if isinstance(size, int) else sizes[size]() for size in shape], 0.5, np.float32)
            for shape in self._outputs
        ]
        self._spoil(outputs)
        return outputs


def crops(size: int) -> npt.NDArray[np.uint8]:
    return np.full((2, size, size, 3), 90, np.uint8)


def view() -> View:
    image, even = np.full((SIDE, SIDE, 3), 0.4, np.float32), np.ones((SIDE, SIDE), np.float32)
    return View(np.eye(2, 3, dtype=np.float32), image, image, even, even, even, even)


ADAPTERS: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "yunet": (YuNet, lambda model: model(np.zeros((64, 96, 3), np.uint8), 0.3)),
    "retinaface_mnet025": (RetinaFaceMnet025, lambda model: model(np.zeros((64, 96, 3), np.uint8), 0.3)),
    "mesh478": (Mesh478, lambda model: model(crops(256))),
    "mobilefacenet": (MobileFaceNet, lambda model: model(crops(112))),
    "blendshapes52": (Blendshapes52, lambda model: model(np.random.default_rng(0).random((2, 478, 3), np.float32))),
    "occluder": (Occluder, lambda model: model(crops(160))),
    "skin_hair": (SkinHair, lambda model: model(crops(512))),
    "texture": (TextureSwapper, lambda model: model.maps([view(), view()])),
}


@cache
def contract(name: str) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Inputs and outputs that the adapter expects."""
    network: Network = ADAPTERS[name][0]("cpu")._network
    return network._wanted


def liar(name: str, spoil: Callable[[list[FloatArray]], None]) -> Any:
    """The adapter on a graph that has the shipped one's shapes and gives 0.5 for everything, then is spoilt."""
    graph = Liar(*contract(name), spoil, INPUTS if name == "texture" else ())
    return ADAPTERS[name][0](Runtime("cpu", opener=graph.open), b"")


def test_every_network_of_the_zoo_is_here() -> None:
    assert set(ADAPTERS) == {family.card.name for family in registry().values() if family.card.bundled}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_honest_network_passes(name: str) -> None:
    ADAPTERS[name][1](liar(name, lambda outputs: None))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ADAPTERS)
def test_one_value_that_is_not_finite_in_any_output_is_an_error_that_names_the_model(name: str, value: float) -> None:
    for index in range(len(contract(name)[1])):

        def spoil(outputs: list[FloatArray], index: int = index) -> None:
            outputs[index].reshape(-1)[-1] = value

        with pytest.raises(ModelError) as caught:
            ADAPTERS[name][1](liar(name, spoil))
        assert str(caught.value) == (
            f"{name}: the model gave values that are not finite; verify the file and the device"
        )


@pytest.mark.parametrize("name", ADAPTERS)
def test_another_number_of_results_or_dimensions_is_an_error_that_names_the_model(name: str) -> None:
    for index in range(len(contract(name)[1])):

        def more(outputs: list[FloatArray], index: int = index) -> None:
            outputs[index] = np.concatenate([outputs[index]] * 2)

        def fewer(outputs: list[FloatArray], index: int = index) -> None:
            outputs[index] = outputs[index][:-1]

        def flat(outputs: list[FloatArray], index: int = index) -> None:
            outputs[index] = outputs[index][None]

        def narrow(outputs: list[FloatArray], index: int = index) -> None:
            outputs[index] = outputs[index][..., :-1]

        for spoil in (more, fewer, flat, narrow):
            with pytest.raises(ModelError, match=rf"^{name}: gave .* for .*; this file is not the model it is named"):
                ADAPTERS[name][1](liar(name, spoil))


def test_a_detector_whose_cells_are_not_those_of_the_picture() -> None:
    def spoil(outputs: list[FloatArray]) -> None:
        outputs[4] = outputs[4][:, 1:]

    with pytest.raises(ModelError, match=r"^yunet: gave 96, 24, 6, 96, 23, 6, .* cells, not \[96, 24, 6"):
        ADAPTERS["yunet"][1](liar("yunet", spoil))


def test_a_detector_whose_boxes_are_beyond_all_numbers() -> None:
    def spoil(outputs: list[FloatArray]) -> None:
        outputs[6][..., 3] = 500

    with pytest.raises(ModelError, match=r"^yunet: the model gave values that are not finite"):
        ADAPTERS["yunet"][1](liar("yunet", spoil))


@pytest.mark.parametrize("value", [0.0, 1e-30])
def test_an_embedding_of_nobody(value: float) -> None:
    def spoil(outputs: list[FloatArray]) -> None:
        outputs[0][1] = value

    with pytest.raises(ModelError, match=r"^mobilefacenet: the model gave an empty embedding; verify the file"):
        ADAPTERS["mobilefacenet"][1](liar("mobilefacenet", spoil))


def test_a_huge_embedding_is_still_of_length_1() -> None:
    def spoil(outputs: list[FloatArray]) -> None:
        outputs[0][:] = 3e37

    embeddings = ADAPTERS["mobilefacenet"][1](liar("mobilefacenet", spoil))
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-6)


def test_points_that_are_not_finite_are_not_blamed_on_the_model() -> None:
    meshes = np.random.default_rng(0).random((1, 478, 3), np.float32)
    meshes[0, :, 1] = np.nan
    with pytest.raises(ModelError, match=r"^blendshapes52: was given values that are not finite; report this"):
        Blendshapes52("cpu")(meshes)


def test_a_graph_of_another_type_is_refused_when_it_is_opened() -> None:
    made = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64)],
        "classes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 512, 512))],
        [helper.make_tensor_value_info("y", TensorProto.INT64, ("n", 3, 512, 512))],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match=r"expected outputs of floating point but found tensor\(int64\); convert"):
        SkinHair("cpu", bytes(model.SerializeToString()))


@pytest.mark.parametrize("damage", ["missing", "cut", "one bit"])
def test_shipped_weights_that_are_damaged_are_refused_before_they_are_opened(damage: str, tmp_path: Path) -> None:
    whole = Blendshapes52.card.weights
    assert whole is not None
    data = bytearray(whole.path.read_bytes())
    path = tmp_path / "net.onnx"
    weights = replace(whole, file=str(path))  # an absolute path replaces the package's folder
    if damage == "cut":
        path.write_bytes(data[:-1])
    if damage == "one bit":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    reason = {
        "missing": r"cannot be read \(No such file or directory\)",
        "cut": rf"is damaged \({whole.size - 1} bytes of {whole.size}\)",
        "one bit": r"is damaged \(its sha256 is not the one it shipped with\)",
    }[damage]
    with pytest.raises(ModelError, match=rf"net\.onnx: {reason}; install mien again$"):
        Network(replace(Blendshapes52.card, weights=weights), "cpu", None, [(1, 146, 2)], [(52,)])


def test_whole_weights_are_checked_and_given() -> None:
    weights = Blendshapes52.card.weights
    assert isinstance(weights, Weights)
    assert weights.checked() == weights.path


def test_patches_are_checked_against_their_crops() -> None:
    crop = np.zeros((4, 6, 3), np.uint8)
    good = Patch(np.zeros((4, 6, 3), np.float32), np.zeros((4, 6), np.float32))
    check_patches("net", [good, good], [crop, crop])
    with pytest.raises(ModelError, match=r"^net: 1 patches for 2 crops; report this with the model's name$"):
        check_patches("net", [good], [crop, crop])
    for rgb, mask in (((4, 5, 3), (4, 6)), ((4, 6, 3), (6, 4))):
        patch = Patch(np.zeros(rgb, np.float32), np.zeros(mask, np.float32))
        with pytest.raises(ModelError, match=r"^net: a patch of .* for a crop of 4×6×3; report this"):
            check_patches("net", [patch], [crop])
    for part in ("rgb", "mask"):
        values = getattr(good, part).copy()
        values[0, 0] = np.nan
        with pytest.raises(ModelError, match=r"^net: the model gave values that are not finite"):
            check_patches("net", [replace(good, **{part: values})], [crop])


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "one bit", "another"])
def test_shipped_arrays_that_are_damaged(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "mesh.npz"
    data = bytearray((Path(mien.__file__).parent / "weights" / "face_mesh_478.npz").read_bytes())
    if damage == "another":
        np.savez(path, other=np.zeros(3))
    elif damage != "missing":
        data[len(data) // 2] ^= damage == "one bit"
        path.write_bytes(data[: {"cut": -40, "empty": 0}.get(damage, len(data))])
    with pytest.raises(ModelError, match=r"mesh\.npz: cannot be read \(.*\); install mien again$"):
        constants(str(path), "vertices", "uv", "triangles", "procrustes_index", "blendshape_names")
