"""Faces drawn as squares, and stand-ins that see them: what they find, and how like two are, follows by hand.

A square's red and green tell who it is (an angle: the cosine of two faces is that of the difference of their angles);
its blue is the score with which it is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from mien.faces import keypoints_of_mesh
from mien.types import ByteArray, Detection, Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard, Task
from mien.zoo.contracts import Source, SourceNeeds
from mien.zoo.registry import Zoo
from tests.fakes import MESH, FakeEmbedder, FakeMasker, card

BRIGHT = 200
FOUND = 20
"""Blue above which a square is seen."""


def square_mesh() -> FloatArray:
    """(478, 3) in −0.5–0.5; the corners of the eyes are level."""
    mesh = MESH.copy()
    mesh[[33, 263], :2] = (-0.3, -0.15), (0.3, -0.15)
    mesh.setflags(write=False)
    return mesh


SQUARE = square_mesh()


def blank(width: int = 200, height: int = 160) -> ByteArray:
    """A photo without a face."""
    return np.zeros((height, width, 3), np.uint8)


def draw(image: ByteArray, x: int, y: int, side: int, degrees: float = 45, score: float = 1.0) -> ByteArray:
    """The image with a face whose top left pixel is (x, y)."""
    angle = np.radians(degrees)
    image[y : y + side, x : x + side] = np.rint([BRIGHT * np.cos(angle), BRIGHT * np.sin(angle), 255 * score])
    return image


def save(path: Path, image: ByteArray) -> None:
    """Write without loss, whatever the name's ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode(".png", image[:, :, ::-1])[1].tobytes())


def mesh_of(x: float, y: float, side: float) -> FloatArray:
    """(478, 3) of the face that `draw` draws; pixels are counted from their centres."""
    middle = np.array([x + (side - 1) / 2, y + (side - 1) / 2, 0])
    return np.asarray(SQUARE * side + middle, np.float32)


class SquareDetector:
    """Finds each square, with its blue as score."""

    def __init__(self) -> None:
        self.card = card("detector")

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        count, _, stats, _ = cv2.connectedComponentsWithStats((image[:, :, 2] > FOUND).astype(np.uint8))
        hits = []
        for x, y, width, height, _ in stats[1:count].tolist():
            score = float(image[y + height // 2, x + width // 2, 2]) / 255
            keypoints = keypoints_of_mesh(mesh_of(x, y, max(width, height)))
            hits.append(Detection(np.array([x, y, x + width, y + height], np.float32), score, keypoints))
        return sorted((hit for hit in hits if hit.score >= min_score), key=lambda hit: -hit.score)


class SquareLandmarker:
    """Puts the mesh on the square in the middle of a crop, to a fraction of a pixel."""

    size, points, margin, shift = 240, 478, 1.5, 0.0
    crop: Literal["mesh", "bbox"] = "mesh"

    def __init__(self) -> None:
        self.card = card("landmarker")

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        meshes, presence = zip(*map(self._one, crops), strict=True)
        return np.stack(meshes), np.array(presence, np.float32)

    def _one(self, crop: ByteArray) -> tuple[FloatArray, float]:
        _, labels = cv2.connectedComponents((crop[:, :, 2] > FOUND).astype(np.uint8))
        own = labels[self.size // 2, self.size // 2]
        if not own:
            return mesh_of(0, 0, self.size), 0.0
        cover = cv2.dilate((labels == own).astype(np.uint8), np.ones((5, 5), np.uint8)) * crop[:, :, 2].astype(float)
        cover /= cover.max()
        rows, columns = np.indices(cover.shape)
        middle = np.array([(cover * columns).sum(), (cover * rows).sum(), 0]) / cover.sum()
        return np.asarray(SQUARE * np.sqrt(cover.sum()) + middle, np.float32), 1.0


class Expression:
    """The first score is the height of the mesh in metres of pixels; the others are 0."""

    names = tuple(f"shape_{i}" for i in range(52))

    def __init__(self) -> None:
        self.card = card("expression")

    def __call__(self, meshes: FloatArray) -> FloatArray:
        scores = np.zeros((len(meshes), 52), np.float32)
        scores[:, 0] = np.ptp(meshes[:, :, 1], axis=1) / 1000
        return scores


@dataclass
class Painter:
    """Paints a part of the way from the target's angle to the source's."""

    share: float = 1.0
    template: str | None = None
    size: int = 64
    margin: float = 1.5
    needs_mask: bool = False
    needs: SourceNeeds = field(default_factory=SourceNeeds)
    card: ModelCard = field(default_factory=lambda: card("swapper"))

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, skin_tone: float,
    ) -> list[Patch]:  # fmt: skip
        wanted = np.arctan2(*source.identity.embedding[1::-1])
        return [self._painted(crop, float(wanted)) for crop in crops]

    def _painted(self, crop: Image, wanted: float) -> Patch:
        own = np.arctan2(crop[..., 1].max(), crop[..., 0].max())
        angle = own + self.share * (wanted - own)
        rgb = np.ones(crop.shape, np.float32)
        rgb[..., :2] = BRIGHT / 255 * np.array([np.cos(angle), np.sin(angle)])
        return Patch(rgb, (crop[..., 2] > FOUND).astype(np.float32))


class DrawnZoo(Zoo):
    """Models that see drawn faces."""

    def __init__(self, swapper: Painter | None = None, more: Mapping[tuple[Task, str], Any] | None = None) -> None:
        super().__init__("cpu")
        self._loaded = {
            ("detector", "yunet"): SquareDetector(),
            ("landmarker", "mesh478"): SquareLandmarker(),
            ("embedder", "mobilefacenet"): FakeEmbedder(),
            ("expression", "blendshapes52"): Expression(),
            ("masker", "occluder"): FakeMasker(),
            ("swapper", "texture"): swapper or Painter(),
            **(more or {}),
        }
