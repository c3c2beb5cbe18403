"""Models that cost nothing: they give back what the real ones gave in the same run before, in the same order."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mien.types import Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard, Task
from mien.zoo.contracts import Source, SourceNeeds, Style
from mien.zoo.registry import Zoo

Key = tuple[Task, str]
STEP = 32
"""Pixels by which the sides of ready patches differ."""
_ATTRIBUTES = ("card", "size", "template", "margin", "shift", "crop", "points", "classes", "names", "calibration")


@dataclass
class Recording:
    """What one model is and gave."""

    attributes: Mapping[str, Any]
    results: list[Any] = field(default_factory=list)


class Swapper:
    """Gives the middle of a textured ellipse; those of nearly the same size share one.

    Args:
        size: side of the aligned square that it asks for; 0: boxes at the frame's own resolution.
        ready: heights and widths to make ellipses for beforehand, as `made` told in an earlier run.
    """

    needs_mask = True
    needs = SourceNeeds()
    margin = 1.3

    def __init__(self, size: int = 0, ready: Iterable[tuple[int, int]] = ()) -> None:
        self.card = ModelCard("texture", "swapper", "Apache-2.0", True, "a stand-in")
        self.size = size
        self.template = "arcface_128" if size else None
        self.made: dict[tuple[int, int], Patch] = {sides: patch_of(*sides) for sides in ready}

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, style: Style,
    ) -> list[Patch]:  # fmt: skip
        """A patch for each crop; none is copied."""
        return [self._patch(*crop.shape[:2]) for crop in crops]

    def _patch(self, height: int, width: int) -> Patch:
        sides = -(-height // STEP) * STEP, -(-width // STEP) * STEP
        if sides not in self.made:
            self.made[sides] = patch_of(*sides)
        top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
        part, whole = np.s_[top : top + height, left : left + width], self.made[sides]
        return Patch(whole.rgb[part], whole.mask[part])


def patch_of(height: int, width: int) -> Patch:
    """Skin-coloured grain in an ellipse about as large as a face."""
    grain = np.random.default_rng(2).normal(0, 0.03, (height, width, 1)).astype(np.float32)
    rgb = np.clip(grain + np.array([0.75, 0.58, 0.5], np.float32), 0, 1)
    y, x = np.linspace(-1, 1, height, dtype=np.float32)[:, None], np.linspace(-1, 1, width, dtype=np.float32)
    mask = np.clip(6 * (1 - np.hypot(x / 0.62, y / 0.77)), 0, 1)
    return Patch(rgb, np.asarray(mask, np.float32))


class Recorder(Zoo):
    """Loads the real models, but for the swapper, and keeps what they give."""

    def __init__(self, swapper: Swapper) -> None:
        super().__init__("cpu")
        self._swapper = swapper
        self._recorders: dict[Key, _Recorder] = {}

    def load(self, task: Task, name: str) -> Any:
        """The model, with an ear."""
        if task == "swapper":
            return self._swapper
        if (task, name) not in self._recorders:
            self._recorders[task, name] = _Recorder(super().load(task, name))
        return self._recorders[task, name]

    def save(self, path: Path) -> None:
        """Keep the recordings in a file."""
        recordings = {key: model.recording for key, model in self._recorders.items()}
        path.write_bytes(pickle.dumps((list(self._swapper.made), recordings)))


class _Recorder:
    """One model. Of a masker, one item stands for all: maps are large, and nothing follows from what they hold."""

    def __init__(self, model: Any) -> None:
        self._model = model
        told = {name: getattr(model, name) for name in _ATTRIBUTES if hasattr(model, name)}
        self.recording = Recording(told)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *arguments: Any) -> Any:
        result = self._model(*arguments)
        if self.card.task != "masker":
            self.recording.results.append(deepcopy(result))  # callers may change theirs
        elif not self.recording.results:
            self.recording.results.append(result[0].copy())
        return result


class Player(Zoo):
    """The recordings in place of the models.

    Args:
        path: a file of `Recorder.save`, of a run over the same frames with the same options.
        size: see `Swapper`.
    """

    def __init__(self, path: Path, size: int = 0) -> None:
        super().__init__("cpu")
        recordings: dict[Key, Recording]
        ready, recordings = pickle.loads(path.read_bytes())
        self._loaded: dict[Key, Any] = {key: _Player(recording) for key, recording in recordings.items()}
        self._loaded["swapper", "texture"] = Swapper(size, ready)

    def load(self, task: Task, name: str) -> Any:
        """The stand-in of a model."""
        if (task, name) not in self._loaded:
            raise LookupError(f"{task} {name} was not asked for when the recording was made")
        return self._loaded[task, name]


class _Player:
    def __init__(self, recording: Recording) -> None:
        self.__dict__.update(recording.attributes)
        self._task = recording.attributes["card"].task
        self._results = recording.results
        self._place = 0
        self._repeated: dict[int, Any] = {}

    def __call__(self, items: Any, *_: Any) -> Any:
        if self._task == "masker":
            return self._many(len(items))
        if self._place == len(self._results):
            raise LookupError(f"{self._task}: was called more often than when the recording was made")
        self._place += 1
        return self._results[self._place - 1]

    def _many(self, count: int) -> Any:
        if count not in self._repeated:
            self._repeated[count] = np.repeat(self._results[0][None], count, axis=0)
        return self._repeated[count]
