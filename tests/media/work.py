"""A stand-in for a swap: a box painted in every frame, from file to file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.media import open_reader, open_writer
from mien.options import SwapOptions
from mien.types import Box

FFV1 = SwapOptions(encoder="ffv1", encoder_threads=2)
X264 = SwapOptions(encoder_threads=2, preset="veryfast")


def convert(source: Path, made: Path, options: SwapOptions = X264, box: Box | None = None) -> list[str]:
    """Swap-like work: edit a box in every frame. The writer's notes."""
    with open_reader(source) as reader, open_writer(made, reader, options) as writer:
        for frame in reader:
            if box is not None:
                rgb = np.full((box.height, box.width, 3), (0.9, 0.3, 0.1), np.float32)
                frame.write(box, rgb, np.full(rgb.shape[:2], 0.8, np.float32))
            writer.write(frame)
    return writer.notes


def assert_equal_outside(a: list[npt.NDArray[Any]], b: list[npt.NDArray[Any]], box: Box) -> None:
    """Every plane is equal beyond the box, and somewhere not within it."""
    for old, new in zip(a, b, strict=True):
        fy, fx = round(a[0].shape[0] / old.shape[0]), round(a[0].shape[1] / old.shape[1])
        keep = np.ones(old.shape, bool)
        keep[box.y0 // fy : -(-box.y1 // fy), box.x0 // fx : -(-box.x1 // fx)] = False
        assert np.array_equal(old[keep], new[keep])
        assert not np.array_equal(old[~keep], new[~keep])
