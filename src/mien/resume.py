"""What an interrupted run must have in common with the one that goes on with it, and the analysis it left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mien.analysis import Analysis
from mien.errors import MediaError
from mien.identity_data import IdentityData
from mien.media.segments import file_sha256
from mien.media.versions import library_versions
from mien.options import SwapOptions
from mien.pipeline import batch_frames, models_of
from mien.runtime.versions import runtime_versions
from mien.zoo.cards import ModelCard
from mien.zoo.registry import Zoo

# None changes a byte of the output.
_FREE = frozenset(
    (
        "resume",
        "queue_size",
        "min_similarity",
        "model_timeout",
        "memory_limit",
        "max_pixels",
        "max_duration",
        "max_fps",
        "max_streams",
    )
)


def fingerprint(target: Path, identity: IdentityData, options: SwapOptions, zoo: Zoo) -> dict[str, Any]:
    """All that the bytes of the output follow from, by names that a message can show."""
    chosen = options.model_dump(exclude=set(_FREE) | {"device"})
    chosen["batch_frames"] = batch_frames(options, zoo)  # what 0 stands for may differ tomorrow, and so rounding
    return {
        "the target": file_sha256(target),
        "the source": _digest(identity),
        "the device": zoo.used_device,
        **_weights(options, zoo),
        **{f"--{name.replace('_', '-')}": value for name, value in chosen.items()},
        "mien": version("mien"),
        "NumPy": np.__version__,
        "OpenCV": cv2.__version__,
        **runtime_versions(),
        **library_versions(),
    }


def kept_analysis(
    folder: Path, make: Callable[[], Analysis], notes: Callable[[], Sequence[str]]
) -> tuple[Analysis, Sequence[str]]:
    """The analysis that an interrupted run left in its folder, or a new one, which is then kept there.

    Args:
        notes: what was wrong with the target, once it was read as a whole; it is kept and given back as well.
    """
    path, told = folder / "analysis", folder / "notes"
    if path.exists():
        try:
            return Analysis.load(path), tuple(map(str, json.loads(told.read_bytes())))
        except (MediaError, OSError, ValueError, TypeError):
            pass  # Not whole: it is made again.
    with make() as made:
        found = tuple(notes())
        told.write_text(json.dumps(found))
        made.save(path)
    return Analysis.load(path), found


def _weights(options: SwapOptions, zoo: Zoo) -> Mapping[str, str]:
    """The sha256 of each model's file; a model that the user added counts by its file, whatever its name."""
    cards: list[ModelCard] = [model.card for model in models_of(options, zoo)]
    return {f"{card.task} {card.name}": card.weights.sha256 for card in cards if card.weights is not None}


def _digest(identity: IdentityData) -> str:
    total = hashlib.sha256()
    values = {field.name: getattr(identity, field.name) for field in fields(identity)}
    for name, value in sorted({**values, **identity.embeddings, "embeddings": None}.items()):
        if value is not None:
            array = np.ascontiguousarray(value)
            total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            total.update(array.tobytes())
    return total.hexdigest()
