"""Batches of untouched and swapped faces that differ in nothing but the swap.

Each swap stands beside the photo that it was made from, and both are flipped, moved, shrunk, compressed, blurred,
recoloured and covered with noise alike: no trace of where a photo is from or of how it was stored can tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor

from mien.types import ByteArray, FloatArray
from training.naturalness.swaps import JUDGED, STORED, Swaps

SPOILT = 0.5
"""Share of faces that are shrunk, compressed, blurred or noisy; the others are only moved and recoloured."""


@dataclass(frozen=True, slots=True)
class Film:
    """What happens to a face between the scene and the classifier."""

    matrix: FloatArray
    """(2, 3) from the shrunk crop to the classifier's."""
    flip: bool
    shrunk: int
    """Side in pixels at which it was stored."""
    quality: int
    """Of JPEG; 0: not compressed."""
    blur: float
    """Sigma in pixels of the classifier's crop."""
    noise: float
    """Standard deviation, 0–1."""
    gain: FloatArray
    """(3,)."""
    gamma: float
    saturation: float

    @classmethod
    def drawn(cls, chance: np.random.Generator) -> Film:
        """One at random."""
        spoilt = chance.random() < SPOILT
        shrunk = int(STORED.side * chance.uniform(0.4, 1)) if spoilt and chance.random() < 0.5 else STORED.side
        fit = STORED.margin / JUDGED.margin * JUDGED.side / shrunk * float(np.exp(chance.normal(0, 0.03)))
        angle = chance.normal(0, np.radians(2))
        turn = fit * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        middle = (JUDGED.side - 1) / 2 + chance.normal(0, 0.012 * JUDGED.side, 2)
        return cls(
            np.asarray(np.c_[turn, middle - turn @ np.full(2, (shrunk - 1) / 2)], np.float32),
            bool(chance.random() < 0.5),
            shrunk,
            int(chance.uniform(40, 96)) if spoilt and chance.random() < 0.6 else 0,
            float(chance.uniform(0.3, 1.1)) if spoilt and chance.random() < 0.4 else 0.0,
            float(chance.uniform(0, 0.025)) if spoilt and chance.random() < 0.5 else 0.0,
            np.exp(chance.normal(0, 0.1) + chance.normal(0, 0.03, 3)).astype(np.float32),
            float(np.exp(chance.normal(0, 0.12))),
            float(np.exp(chance.normal(0, 0.15))),
        )

    def __call__(self, crop: ByteArray, chance: np.random.Generator) -> FloatArray:
        """(S, S, 3) RGB 0–1 as the classifier sees a stored crop."""
        if self.flip:
            crop = np.ascontiguousarray(crop[:, ::-1])
        if self.shrunk < len(crop):
            crop = np.asarray(cv2.resize(crop, (self.shrunk, self.shrunk), interpolation=cv2.INTER_AREA), np.uint8)
        if self.quality:
            _, stored = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, self.quality])
            crop = np.asarray(cv2.imdecode(stored, cv2.IMREAD_COLOR), np.uint8)
        side = JUDGED.side
        seen = cv2.warpAffine(crop, self.matrix, (side, side), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        image = seen.astype(np.float32) / 255
        if self.blur:
            image = np.asarray(cv2.GaussianBlur(image, (0, 0), self.blur), np.float32)
        grey = image.mean(2, keepdims=True)
        image = np.clip(grey + self.saturation * (image - grey), 0, 1) ** np.float32(self.gamma) * self.gain
        if self.noise:
            image = image + np.float32(self.noise) * chance.standard_normal(image.shape, np.float32)
        return np.asarray(np.rint(np.clip(image, 0, 1) * 255) / 255, np.float32)


class Batches:
    """Draws batches. All its randomness comes from the seed.

    Args:
        untouched: (P, S, S, 3) stored crops of the photos.
        kinds: swaps of these photos, drawn in equal parts.
    """

    def __init__(self, untouched: ByteArray, kinds: Sequence[Swaps], seed: int) -> None:
        self._untouched, self._kinds = untouched, tuple(kinds)
        self._chance = np.random.default_rng(seed)

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """(2·count, 3, S, S) RGB 0–1: `count` photos, then a swap of each; (2·count, 1) 0 for photos, 1 for swaps."""
        before, after = [], []
        for i in range(count):
            kind = self._kinds[i % len(self._kinds)]
            swap = int(self._chance.integers(len(kind.crops)))
            film = Film.drawn(self._chance)
            before.append(film(self._untouched[kind.target[swap]], self._chance))
            after.append(film(kind.crops[swap], self._chance))
        images = np.ascontiguousarray(np.stack([*before, *after]).transpose(0, 3, 1, 2))
        return torch.from_numpy(images), torch.arange(2).repeat_interleave(count)[:, None].float()
