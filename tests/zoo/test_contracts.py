"""Every model of the registry keeps the promises of `mien.zoo.contracts`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from mien.color import as_float
from mien.fusion import SIDE, View
from mien.geometry import TEMPLATES
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import Task
from mien.zoo.registry import registry

# Those whose weights ship. Of the swapper its network: it takes a source and masks as well, which its own tests cover.
FAMILIES = sorted(key for key, family in registry().items() if family.card.bundled)


@pytest.fixture(scope="module")
def pair(portraits: Path) -> list[ByteArray]:
    """Two portraits, RGB."""
    images = [cv2.imread(str(portraits / name)) for name in ("female_001.jpg", "male_036.jpg")]
    return [np.ascontiguousarray(image[:, :, ::-1], np.uint8) for image in images if image is not None]


def batch(images: list[ByteArray], size: int) -> ByteArray:
    return np.stack([cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA) for image in images])


def check_batch(model: Callable[[Any], Any], items: npt.NDArray[Any], shape: tuple[int, ...]) -> FloatArray:
    """Shape and type of a batch of two, its items apart and equal to two batches of one, twice the same."""
    both: FloatArray = model(items)
    assert both.dtype == np.float32 and both.shape == (2, *shape)
    assert np.isfinite(both).all()
    assert np.abs(both[0] - both[1]).max() > 0.001
    np.testing.assert_allclose(np.concatenate([model(items[:1]), model(items[1:])]), both, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model(items), both)
    return both


def check_detector(model: Any, pair: list[ByteArray]) -> None:
    for image in pair:
        hits = model(image, 0.3)
        again = model(image, 0.3)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert hits[0].score > 0.6
        assert hits[0].bbox.shape == (4,) and hits[0].keypoints.shape == (5, 2)
        assert hits[0].bbox.dtype == hits[0].keypoints.dtype == np.float32
        np.testing.assert_array_equal(hits[0].bbox, again[0].bbox)
        assert all(hit.score >= 0.6 for hit in model(image, 0.6))
    assert model(np.zeros((40, 70, 3), np.uint8), 0.3) == []


def check_landmarker(model: Any, pair: list[ByteArray]) -> None:
    # The heads of the two portraits, about 1.5 times the extent of the mesh.
    crops = batch([pair[0][60:340, 125:405], pair[1][20:400, 65:445]], model.size)
    check_batch(lambda items: model(items)[0], crops, (478, 3))
    points, presence = model(crops)
    assert presence.shape == (2,) and presence.dtype == np.float32 and presence.min() > 0.9
    assert model(np.zeros((1, model.size, model.size, 3), np.uint8))[1].max() < 0.5
    assert (points[:, [10, 152], 1] > 0).all() and (points[:, 10, 1] < points[:, 152, 1]).all()


def check_embedder(model: Any, pair: list[ByteArray]) -> None:
    assert model.template in TEMPLATES
    crops = batch([pair[0][120:300, 175:355], pair[1][90:310, 145:365]], model.size)
    embeddings = check_batch(model, crops, model(crops).shape[1:])
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def check_masker(model: Any, pair: list[ByteArray]) -> None:
    masks = check_batch(model, batch(pair, model.size), (model.size, model.size, len(model.classes)))
    assert masks.min() >= 0 and masks.max() <= 1
    assert model.margin >= 1


def check_expression(model: Any, pair: list[ByteArray]) -> None:
    from mien.zoo.landmarkers.mesh478 import Mesh478

    crops = batch([pair[0][60:340, 125:405], pair[1][20:400, 65:445]], 256)
    meshes, _ = Mesh478("cpu")(crops)
    scores = check_batch(model, meshes, (52,))
    assert len(model.names) == len(set(model.names)) == 52
    assert scores.min() >= 0 and scores.max() <= 1
    assert model(meshes[:0]).shape == (0, 52)


def check_swapper(model: Any, pair: list[ByteArray]) -> None:
    images = as_float(batch(pair, SIDE))
    ones = np.ones((SIDE, SIDE), np.float32)
    views = [View(np.eye(2, 3, dtype=np.float32), image, image[::-1], ones, ones, ones, ones) for image in images]

    def joined(items: npt.NDArray[Any]) -> FloatArray:
        return np.stack([np.concatenate(maps) for maps in model.maps([views[i] for i in items])])

    maps = check_batch(joined, np.arange(2), (9, SIDE, SIDE))
    assert maps[:, 6].min() >= 0 and maps[:, 6].max() <= 1


CHECKS: dict[Task, Callable[[Any, list[ByteArray]], None]] = {
    "detector": check_detector,
    "landmarker": check_landmarker,
    "embedder": check_embedder,
    "masker": check_masker,
    "expression": check_expression,
    "swapper": check_swapper,
}


@pytest.mark.parametrize(("task", "name"), FAMILIES)
def test_contract(task: Task, name: str, pair: list[ByteArray]) -> None:
    CHECKS[task](registry()[task, name]("cpu"), pair)
