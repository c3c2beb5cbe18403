"""Square patches of skin, hair, cloth and scenery cut from the photos, as materials."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from training.occluder.crops import MASKS, STORED, Array, Crops

PATCH = 44
"""Side in stored pixels."""
SURE = 0.93


@dataclass(frozen=True, slots=True, eq=False)
class Textures:
    """Patches by material, each PATCH×PATCH×3 uint8."""

    skin: tuple[Array, ...]
    hair: tuple[Array, ...]
    cloth: tuple[Array, ...]
    scene: tuple[Array, ...]

    def pick(self, rng: np.random.Generator, material: str) -> Array:
        """A random patch."""
        patches: tuple[Array, ...] = getattr(self, material)
        return patches[rng.integers(len(patches))]


def _best_window(mask: Array) -> tuple[int, int] | None:
    """Corner, in stored pixels, of the window that lies most inside a 0–255 mask."""
    step = STORED / MASKS
    side = int(PATCH / step)
    mean = cv2.boxFilter(mask.astype(np.float32) / 255, -1, (side, side), anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
    row, column = np.unravel_index(int(mean.argmax()), mean.shape)
    if mean[row, column] < SURE:
        return None
    return min(int(row * step), STORED - PATCH), min(int(column * step), STORED - PATCH)


def cut(crops: Crops, indices: Array) -> Textures:
    """The patches of some of the photos."""
    found: dict[str, list[Array]] = {"skin": [], "cloth": [], "hair": [], "scene": []}
    for i in indices.tolist():
        masks, image = crops.masks[i], crops.images[i]
        away = 255 - masks.max(2)
        for name, mask in (("skin", masks[..., 0]), ("cloth", masks[..., 1]), ("hair", masks[..., 2]), ("scene", away)):
            at = _best_window(mask)
            if at is not None:
                found[name].append(image[at[0] : at[0] + PATCH, at[1] : at[1] + PATCH].copy())
    return Textures(**{name: tuple(patches) for name, patches in found.items()})
