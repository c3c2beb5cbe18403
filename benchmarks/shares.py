"""How much of the source's texture the blending network uses: one person's two photos against two people.

`python -m benchmarks.shares --data DIR [--people N]`; DIR holds london/NNN_neutral.jpg and NNN_smiling.jpg. A network
that kept the target where it looks like the source would score well on one person, and be of no use: the two must be
alike.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mien import Identity
from mien.color import as_float
from mien.facemask import face_masks
from mien.faces import FaceFinder
from mien.fusion import view_of
from mien.media import open_reader
from mien.paste import mesh_box, moved
from mien.reshaping import reshaped
from mien.types import Box, Face, FloatArray
from mien.zoo.registry import Zoo
from mien.zoo.swappers.texture import TextureSwapper


class Shares:
    """Looks at photos once, and asks the network for its share."""

    def __init__(self) -> None:
        self._zoo = Zoo("cpu")
        self._finder = FaceFinder(self._zoo)
        self._swapper = TextureSwapper("cpu")
        self.target = cache(self._target)
        self.identity = cache(self._identity)

    def _identity(self, path: Path) -> Identity:
        return Identity.from_images([path], zoo=self._zoo)

    def _target(self, path: Path) -> tuple[FloatArray, Face, Mapping[str, FloatArray]]:
        with open_reader(path) as reader:
            frame = next(iter(reader))
            image = frame.read(Box(0, 0, frame.width, frame.height))
        face = self._finder.find_in_image(image, expressions=True)[0]
        box = mesh_box(face.mesh, 1.3).clip(image.shape[1], image.shape[0])
        face = moved(face, np.array([[1, 0, -box.x0], [0, 1, -box.y0]], np.float32))
        crop = as_float(image[box.y0 : box.y1, box.x0 : box.x1])
        (masks,) = face_masks([crop], [face.mesh], [self._zoo.load("masker", "occluder")])
        return crop, face, masks

    def share(self, source: Path, target: Path) -> float:
        """Mean of the network's share over the mesh."""
        data = self.identity(source).data
        crop, face, masks = self.target(target)
        view = view_of(reshaped(crop, face, masks, data, 1.0), data)
        maps = self._swapper.maps([view])
        return float((maps[0][2] * view.mask).sum() / (view.mask**2).sum())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--people", type=int, default=20)
    args = parser.parse_args()
    with (Path(__file__).parents[1] / "training" / "people.csv").open() as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    folder = args.data / "london"
    names = [row["person"] for row in rows if row["folder"] == "london" and row["part"] == "held-out"][: args.people]
    shares = Shares()
    same, other = [], []
    for index, name in enumerate(names):
        next_one = names[(index + 1) % len(names)]
        for source, target in (("neutral", "smiling"), ("smiling", "neutral")):
            here = folder / f"{name}_{target}.jpg"
            same.append(shares.share(folder / f"{name}_{source}.jpg", here))
            other.append(shares.share(folder / f"{next_one}_{source}.jpg", here))
    print(f"{len(same)} targets; mean share: one person {np.mean(same):.4f}, two people {np.mean(other):.4f}")
    print(f"ratio {np.mean(same) / np.mean(other):.4f}; two people, least and most {min(other):.3f}, {max(other):.3f}")


if __name__ == "__main__":
    main()
