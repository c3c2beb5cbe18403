"""Networks that judge: whose face it is, how alike two pictures look, and whether a face was swapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import shape_inference

from mien.errors import ModelError, OptionsError
from mien.geometry import template_matrix, warp
from mien.mesh import SURFACE, upright_matrix
from mien.runtime.session import Session
from mien.types import ByteArray, Face, FloatArray
from mien.zoo.lookalike import lookalikes
from mien.zoo.registry import Zoo, registry
from mien.zoo.tensors import IMAGENET_MEAN, IMAGENET_STD, to_nchw, unit

OWN = "mobilefacenet"
"""The embedder that ships with mien and always judges."""
CROP = 1.25
"""Side of a description network's crop over the extent of the mesh."""
SIDE, MARGIN = 224, 1.5
"""The classifier's crop: its side, and that over the extent of the mesh."""
COARSEST = 14
"""Least side of the inner features that pictures are compared by."""


class Judge(Protocol):
    """Embeds a face: `judge(image, face)` gives a (D,) unit vector."""

    name: str

    def __call__(self, image: ByteArray, face: Face) -> FloatArray:
        """The embedding of a face in a picture."""


class ZooJudge:
    """An embedder of the zoo."""

    def __init__(self, zoo: Zoo, name: str) -> None:
        self.name = name
        self._model: Any = zoo.load("embedder", name)

    def __call__(self, image: ByteArray, face: Face) -> FloatArray:
        """(D,) embedding of the aligned face."""
        model = self._model
        crop = warp(image, template_matrix(face.keypoints, model.template, model.size), model.size, model.size)
        return np.asarray(model(np.asarray(crop, np.uint8)[None])[0], np.float32)


class DescriptionJudge:
    """A face description network (N×S×S×3 RGB 0–255); its longest output is the embedding.

    The crop is not turned; its side is `CROP` times the extent of the mesh, where neutral and smiling photos of one
    person are told from strangers best.
    """

    def __init__(self, name: str, network: Session) -> None:
        self.name, self._network = name, network
        self._side = _whole(network.inputs[0].shape[1])

    def __call__(self, image: ByteArray, face: Face) -> FloatArray:
        """(D,) embedding of the face."""
        low, high = face.mesh[:SURFACE, :2].min(0), face.mesh[:SURFACE, :2].max(0)
        scale, half = self._side / (CROP * float((high - low).max())), self._side / 2
        shift = half - scale * (low + high) / 2
        matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]], np.float32)
        outputs = self._network(warp(image, matrix, self._side, self._side)[None].astype(np.float32))
        vectors = [np.asarray(output, np.float32).reshape(1, -1) for output in outputs]
        longest = max(vectors, key=lambda vector: vector.shape[1])
        return np.asarray(unit(self.name, longest)[0], np.float32)


def open_judges(zoo: Zoo, evaluators: Sequence[str | Path] = ()) -> tuple[Judge, ...]:
    """The embedder that ships, and further ones: names of the zoo's embedders, or ONNX files.

    A file of N×S×S×3 is a description network; any other is held to the families of the zoo. Files go by their stems.

    Raises:
        OptionsError: two of one name, or no such embedder. ModelError: a file that is missing or no embedder.
    """
    judges: list[Judge] = [ZooJudge(zoo, OWN)]
    for evaluator in evaluators:
        judge = _open(zoo, evaluator)
        if any(judge.name == other.name for other in judges):
            raise OptionsError(f"there are two evaluators called {judge.name}; leave one out, or rename its file")
        judges.append(judge)
    return tuple(judges)


def _open(zoo: Zoo, evaluator: str | Path) -> Judge:
    file = Path(evaluator)
    if file.suffix.lower() != ".onnx":
        return ZooJudge(zoo, str(evaluator))
    network = Session(_existing(file), "cpu")
    shape = network.inputs[0].shape
    if len(shape) == 4 and shape[3] == 3 and isinstance(shape[1], int) and shape[1] == shape[2]:
        return DescriptionJudge(file.stem, network)
    families = [name for name in lookalikes(file, "embedder") or () if ("embedder", name) in registry()]
    if not families:
        raise ModelError(f"{file}: is no embedder that mien knows; pass one of N×S×S×3, or of a family of the zoo")
    zoo.lend("embedder", file.stem, families[0], file)
    return ZooJudge(zoo, file.stem)


class Perceptual:
    """How unlike two pictures of a face look: the distance of the inner features of the embedder that ships.

    Zhang et al., "The unreasonable effectiveness of deep features as a perceptual metric", 2018, without its learned
    weights: features of each resolution are normalised over channels, their squared differences averaged over places
    and resolutions. 0: equal; 2: as far apart as features that share no channel.
    """

    def __init__(self) -> None:
        card = registry()["embedder", OWN].card
        model = registry()["embedder", OWN]
        self._template, self._size = model.template, model.size
        self._network = Session(inner_features(onnx.load(card.bundled.checked())), "cpu", name=f"{OWN} inside")

    def __call__(self, a: ByteArray, b: ByteArray, face: Face) -> float:
        """Distance of two pictures of one size, both cut out by the keypoints of one face."""
        matrix = template_matrix(face.keypoints, self._template, self._size)
        first, second = (self._features(np.asarray(warp(x, matrix, self._size, self._size), np.uint8)) for x in (a, b))
        return float(np.mean([((x - y) ** 2).sum(1).mean() for x, y in zip(first, second, strict=True)]))

    def _features(self, crop: ByteArray) -> list[FloatArray]:
        outputs = self._network(to_nchw(crop[None], IMAGENET_MEAN, IMAGENET_STD))
        return [np.asarray(x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-10), np.float32) for x in outputs]


def inner_features(model: onnx.ModelProto) -> bytes:
    """The network cut off inside: its outputs are the last features of each resolution from `COARSEST` up.

    Raises:
        ModelError: a network without such features.
    """
    inferred = shape_inference.infer_shapes(model)
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in inferred.graph.value_info
    }
    last: dict[int, str] = {}
    for node in model.graph.node:
        for name in node.output:
            shape = shapes.get(name, [])
            if len(shape) == 4 and shape[2] == shape[3] and shape[2] >= COARSEST:
                last[shape[2]] = name
    if not last:
        raise ModelError("this network has no inner features of a known size; use another")
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.output[:]
    kinds = {value.name: value for value in inferred.graph.value_info}
    cut.graph.output.extend(kinds[name] for _, name in sorted(last.items(), reverse=True))
    return bytes(cut.SerializeToString())


class Classifier:
    """Tells swapped faces from untouched ones: N×3×224×224 RGB 0–1 → N×1 logits, higher for swapped.

    Raises:
        ModelError: the file is missing or takes something else.
    """

    def __init__(self, file: Path) -> None:
        self._network = Session(_existing(file), "cpu")
        shape = list(self._network.inputs[0].shape)
        if len(self._network.inputs) != 1 or shape[1:] != [3, SIDE, SIDE]:
            text = "×".join(str(size) for size in shape)
            raise ModelError(f"{file}: takes {text}, not N×3×{SIDE}×{SIDE}; pass a classifier of swapped faces")

    def __call__(self, image: ByteArray, mesh: FloatArray) -> float:
        """The logit of a face that was swapped."""
        crop = warp(image, upright_matrix(mesh, MARGIN, SIDE), SIDE, SIDE).astype(np.float32) / 255
        return float(np.ravel(self._network(np.ascontiguousarray(crop.transpose(2, 0, 1)[None]))[0])[0])


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise ModelError(f"{file}: there is no such file; check the path")
    return file


def _whole(size: int | str | None) -> int:
    assert isinstance(size, int)  # whoever makes a judge looked
    return size
