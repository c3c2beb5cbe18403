"""The test run of a model: whatever a model gives that its task does not promise is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mien.errors import ModelError
from mien.types import Detection, Patch
from mien.zoo.cards import TASKS, Task
from mien.zoo.contracts import SourceNeeds
from mien.zoo.probe import _PROBES, picture, probe
from mien.zoo.registry import registry
from tests.fakes import card

SHIPPED = sorted(key for key, family in registry().items() if family.card.supply == "ships")


class Made:
    """A model that gives what it is told to."""

    def __init__(self, task: Task, call: Callable[..., Any], **attributes: Any) -> None:
        self.card, self.call = card(task), call
        vars(self).update(attributes)

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def zeros(*shape: int) -> Callable[..., Any]:
    return lambda *_: np.zeros(shape, np.float32)


def full(value: float, *shape: int) -> Callable[..., Any]:
    return lambda *_: np.full(shape, value, np.float32)


def hit(box: int = 4, points: int = 5, score: float = 0.9, value: float = 1.0) -> Callable[..., Any]:
    return lambda *_: [
        Detection(np.full(box, value, np.float32), score, np.full((points, 2), value, np.float32))
    ]  # fmt: skip


def patches(height: int, value: float = 0.5) -> Callable[..., Any]:
    rgb = np.full((height, 32, 3), value, np.float32)
    return lambda *_: [Patch(rgb, rgb[..., 0])]


SWAPPER = {"size": 32, "template": "arcface_128", "needs_mask": True, "needs": SourceNeeds("a", "b", "ffhq_512", 64)}
MESH = {"size": 8, "points": 68, "crop": "bbox"}
LIMITS: list[tuple[Task, Callable[..., Any], dict[str, Any], str]] = [
    ("detector", hit(3), {}, "a box of 3 float32 where 4 floats were expected"),
    ("detector", hit(points=4), {}, "keypoints of 4×2 float32 where 5×2 floats were expected"),
    ("detector", hit(score=1.5), {}, "scores from 1.5 to 1.5 where 0 to 1 was expected"),
    ("detector", hit(value=np.inf), {}, "values that are not finite"),
    ("landmarker", lambda *_: (np.zeros((1, 67, 2)), np.zeros(1)), MESH, "points of 1×67×2 float64 where 1×68×"),
    ("landmarker", lambda *_: (np.zeros((1, 68, 4)), np.zeros(1)), MESH, "where 2 or 3 were expected"),
    ("landmarker", lambda *_: (np.zeros((1, 68, 2)), np.zeros(2)), MESH, "scores of 2 float64 where 1 floats"),
    ("landmarker", lambda *_: (np.zeros((1, 68, 2)), np.full(1, -3.0)), MESH, "scores from -3 to -3 where"),
    ("embedder", full(1, 1, 4), {"size": 8}, "an embedding of length 2, not 1"),
    ("embedder", zeros(2, 4), {"size": 8}, "embeddings of 2×4 float32 where 1×? floats were expected"),
    ("embedder", lambda *_: np.zeros((1, 4), np.int64), {"size": 8}, "embeddings of 1×4 int64 where"),
    ("converter", zeros(1), {}, "embeddings of 1 float32 where 1×? floats were expected"),
    ("converter", full(np.nan, 1, 4), {}, "values that are not finite"),
    ("swapper", patches(31), SWAPPER, "a patch of 31×32×3 for a crop of 32×32×3"),
    ("swapper", patches(32, np.nan), SWAPPER, "values that are not finite"),
    ("swapper", lambda *_: [], SWAPPER, "0 patches for 1 crops"),
    ("enhancer", full(2, 1, 8, 8, 3), {"size": 8}, "colours from 2 to 2 where 0 to 1 was expected"),
    ("enhancer", zeros(1, 3, 8, 8), {"size": 8}, "a picture of 1×3×8×8 float32 where 1×8×8×3 floats were expected"),
    ("masker", zeros(1, 8, 8, 2), {"size": 8, "classes": ("a",)}, "masks of 1×8×8×2 float32 where 1×8×8×1 floats"),
    ("masker", full(-1, 1, 8, 8, 1), {"size": 8, "classes": ("a",)}, "masks from -1 to -1 where 0 to 1"),
    ("expression", zeros(1, 51), {"names": ("a",) * 52}, "scores of 1×51 float32 where 1×52 floats were expected"),
    ("attribute", zeros(1, 3), {"names": ("a", "b"), "size": 8}, "values of 1×3 float32 where 1×2 floats"),
]


@pytest.mark.parametrize(("task", "call", "attributes", "text"), LIMITS)
def test_what_a_task_does_not_promise(
    task: Task, call: Callable[..., Any], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(ModelError) as caught:
        probe(task, Made(task, call, **attributes))
    assert str(caught.value).startswith("fake: ") and text in str(caught.value)


def test_what_is_promised_passes() -> None:
    seen: list[Any] = []

    def swap(crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> Any:
        seen.append((crops[0].shape, source.embedding.shape, source.photo.shape, list(masks[0])))
        return patches(32)()

    probe("detector", Made("detector", lambda *_: []))
    probe("detector", Made("detector", hit()))
    probe("swapper", Made("swapper", swap, **SWAPPER))
    assert seen == [((32, 32, 3), (512,), (64, 64, 3), ["skin"])]


@pytest.mark.parametrize(("task", "name"), SHIPPED)
def test_what_ships_passes(task: Task, name: str) -> None:
    if name != "texture":  # it makes no patch of a made-up face
        probe(task, registry()[task, name]("cpu"))


def test_every_task_has_a_probe_and_its_picture_tells_channels_apart() -> None:
    assert set(_PROBES) == set(TASKS)
    image = picture(32)
    assert image.shape == (32, 32, 3) and image.dtype == np.uint8
    assert all(image[..., a].tolist() != image[..., b].tolist() for a, b in ((0, 1), (0, 2), (1, 2)))
