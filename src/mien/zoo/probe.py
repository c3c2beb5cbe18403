"""One run of a model with plausible inputs of its task: what it gives has to be finite and of the promised shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.errors import ModelError
from mien.geometry import TEMPLATES
from mien.identity_data import IdentityData
from mien.runtime.session import Session
from mien.types import ByteArray, Detection, Face, FloatArray
from mien.zoo.cards import Task
from mien.zoo.contracts import Source, Style, check_patches
from mien.zoo.tensors import require_finite

SIDE = 320
"""Of the picture for detectors."""
DIMENSIONS = 512
"""Of embeddings, where a model does not say."""
_CENTRED = np.array([(0.35, 0.4), (0.65, 0.4), (0.5, 0.6), (0.38, 0.75), (0.62, 0.75)], np.float32)


def probe(task: Task, model: Any) -> None:
    """Run a loaded model once.

    Raises:
        ModelError: it fails, or gives what its task does not promise; names the model.
        DeviceError: see `Session`.
    """
    _PROBES[task](model)


def picture(size: int) -> ByteArray:
    """size×size×3: soft shades without a face, no two channels alike."""
    ramp = np.linspace(60, 190, size)
    channels = np.broadcast_arrays(ramp[None], ramp[::-1, None], 0.25 * (ramp[None] + ramp[:, None]) + 40)
    return np.stack(channels, 2).astype(np.uint8)


def _expect(name: str, what: str, found: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    """-1 stands for any size of at least 1."""
    fits = found.ndim == len(shape) and all(
        size == want or want < 0 < size for size, want in zip(found.shape, shape, strict=True)
    )
    if not fits or not np.issubdtype(found.dtype, np.floating):
        text, wanted = ("×".join("?" if n < 0 else str(n) for n in each) for each in (found.shape, shape))
        raise ModelError(f"{name}: gave {what} of {text} {found.dtype} where {wanted} floats were expected")
    require_finite(name, found)


def _expect_shares(name: str, what: str, found: FloatArray) -> None:
    if found.min() < -1e-3 or found.max() > 1 + 1e-3:
        raise ModelError(f"{name}: gave {what} from {found.min():.3g} to {found.max():.3g} where 0 to 1 was expected")


def _detector(model: Any) -> None:
    hits: list[Detection] = model(picture(SIDE), 0.5)
    for hit in hits:
        _expect(model.card.name, "a box", hit.bbox, (4,))
        _expect(model.card.name, "keypoints", hit.keypoints, (5, 2))
        _expect_shares(model.card.name, "scores", np.array([hit.score], np.float32))


def _landmarker(model: Any) -> None:
    if model.crop == "points":
        return _expect(model.card.name, "points", model(TEMPLATES[model.template][None]), (1, model.points, 2))
    points, scores = model(picture(model.size)[None])
    if points.shape[-1:] not in ((2,), (3,)):
        raise ModelError(
            f"{model.card.name}: gave points of {points.shape[-1:]} coordinates where 2 or 3 were expected"
        )
    _expect(model.card.name, "points", points, (1, model.points, -1))
    _expect(model.card.name, "scores", scores, (1,))
    _expect_shares(model.card.name, "scores", scores)


def _embedder(model: Any) -> None:
    embeddings = model(picture(model.size)[None])
    _expect(model.card.name, "embeddings", embeddings, (1, -1))
    if abs(float(np.linalg.norm(embeddings)) - 1) > 1e-3:
        raise ModelError(f"{model.card.name}: gave an embedding of length {np.linalg.norm(embeddings):.3g}, not 1")


def _converter(model: Any) -> None:
    _expect(model.card.name, "embeddings", model(_embedding(_dimensions(model))[None]), (1, -1))


def _swapper(model: Any) -> None:
    crop = picture(model.size)
    layout = _CENTRED if model.template is None else TEMPLATES[model.template]
    needs = model.needs
    source = Source(
        _identity(),
        _embedding(DIMENSIONS) if needs.embedder or needs.converter else None,
        picture(needs.size) if needs.size else None,
    )
    face = _face(layout * model.size, model.size)
    masks = {"skin": np.ones(crop.shape[:2], np.float32)} if model.needs_mask else None
    check_patches(model.card.name, model([crop], [face], [masks], source, Style()), [crop])


def _enhancer(model: Any) -> None:
    result = model(picture(model.size)[None])
    _expect(model.card.name, "a picture", result, (1, model.size, model.size, 3))
    _expect_shares(model.card.name, "colours", result)


def _masker(model: Any) -> None:
    result = model(picture(model.size)[None])
    _expect(model.card.name, "masks", result, (1, model.size, model.size, len(model.classes)))
    _expect_shares(model.card.name, "masks", result)


def _expression(model: Any) -> None:
    _expect(model.card.name, "scores", model(_mesh(256)[None]), (1, len(model.names)))


def _attribute(model: Any) -> None:
    _expect(model.card.name, "values", model(picture(model.size)[None]), (1, len(model.names)))


_PROBES: Mapping[Task, Callable[[Any], None]] = MappingProxyType(
    {
        "detector": _detector,
        "landmarker": _landmarker,
        "embedder": _embedder,
        "converter": _converter,
        "swapper": _swapper,
        "enhancer": _enhancer,
        "masker": _masker,
        "expression": _expression,
        "attribute": _attribute,
    }
)


def _embedding(size: int, length: float = 20.0) -> FloatArray:
    """(size,), as long as those of ArcFace usually are."""
    values = np.random.default_rng(0).normal(size=size)
    return np.asarray(length * values / np.linalg.norm(values), np.float32)


def _dimensions(model: Any) -> int:
    """Of the embeddings that a converter takes, by its graph's word."""
    for part in vars(model).values():
        if isinstance(part, Session) and part.inputs and part.inputs[0].shape:
            size = part.inputs[0].shape[-1]
            return size if isinstance(size, int) else DIMENSIONS
    return DIMENSIONS


def _mesh(size: int) -> FloatArray:
    """(478, 3) points within a crop of that size."""
    return np.asarray(np.random.default_rng(0).uniform(0.2, 0.8, (478, 3)) * size, np.float32)


def _face(keypoints: FloatArray, size: int) -> Face:
    box = np.array([0.15, 0.1, 0.85, 0.95], np.float32) * size
    return Face(box, 0.9, np.asarray(keypoints, np.float32), _mesh(size), 0.99, _embedding(128, 1.0))


def _identity() -> IdentityData:
    texture = np.full((16, 16, 3), 0.5, np.float32)
    return IdentityData(_embedding(128, 1.0), texture, texture[..., 0], _mesh(256), _mesh(16)[:468])
