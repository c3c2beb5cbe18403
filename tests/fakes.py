"""Made-up faces, frames and models for tests that need no photo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mien.faces import keypoints_of_mesh
from mien.identity_data import IdentityData
from mien.runtime.session import Session, Where
from mien.types import Box, ByteArray, Detection, Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard, Task
from mien.zoo.contracts import Source, SourceNeeds, Style
from mien.zoo.registry import Zoo
from tests.stand_ins import graph, node


def unit_mesh() -> FloatArray:
    """(478, 3) points in −0.5–0.5, the five keypoints laid out as in an upright face."""
    mesh = np.random.default_rng(5).uniform(-0.5, 0.5, (478, 3)).astype(np.float32)
    mesh[:4, :2] = [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]
    layout = np.arange(478)[:, None].repeat(2, 1).astype(np.float32)
    for index, xy in zip(
        keypoints_of_mesh(layout)[:, 0].astype(int),
        [(-0.2, -0.15), (0.2, -0.15), (0, 0.08), (-0.15, 0.3), (0.15, 0.3)],
        strict=True,
    ):
        mesh[index, :2] = xy
    return mesh


MESH = unit_mesh()
MESH.setflags(write=False)


def face(
    x: float, y: float, side: float = 60.0, *, track: int = -1, embedding: FloatArray | None = None, score: float = 0.9
) -> Face:
    """An upright face centred on (x, y), `side` pixels wide and high."""
    mesh = np.asarray(MESH * side + (x, y, 0), np.float32)
    bbox = np.array([x - side / 2, y - side / 2, x + side / 2, y + side / 2], np.float32)
    return Face(bbox, score, keypoints_of_mesh(mesh), mesh, 0.99, embedding, track=track)


def embedding(angle: float, size: int = 8) -> FloatArray:
    """(size,) unit vector; the cosine of two is that of the difference of their angles."""
    vector = np.zeros(size, np.float32)
    vector[:2] = np.cos(angle), np.sin(angle)
    return vector


@dataclass(eq=False)
class FakeFrame:
    """An RGB array as a frame, with a record of what was written."""

    pixels: ByteArray
    index: int = 0
    time: float = 0.0
    writes: list[tuple[Box, FloatArray, FloatArray]] = field(default_factory=list)

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    def thumbnail(self, side: int) -> ByteArray:
        step = max(1, -(-max(self.width, self.height) // side))
        return self.pixels[::step, ::step].copy()

    def read(self, box: Box) -> Image:
        assert box == box.clip(self.width, self.height)
        assert not box.empty
        return self.pixels[box.y0 : box.y1, box.x0 : box.x1].copy()

    def write(self, box: Box, rgb: FloatArray, mask: FloatArray) -> None:
        old = self.read(box)
        assert rgb.shape == old.shape
        assert mask.shape == old.shape[:2]
        blended = old + mask[..., None] * (rgb * 255 - old)
        self.pixels[box.y0 : box.y1, box.x0 : box.x1] = np.rint(blended)
        self.writes.append((box, rgb, mask))


def grey(width: int = 320, height: int = 240, level: int = 90, index: int = 0) -> FakeFrame:
    """A frame of one grey."""
    return FakeFrame(np.full((height, width, 3), level, np.uint8), index, index / 25)


def card(task: Task) -> ModelCard:
    """A card of a model that does not exist."""
    return ModelCard("fake", task, "CC0-1.0", True, "made here")


def identity(angle: float = 0.0) -> IdentityData:
    """A person with an embedding and nothing to see."""
    texture = np.zeros((4, 4, 3), np.float32)
    return IdentityData(embedding(angle), texture, texture[..., 0], MESH, MESH[:468])


@dataclass
class FakeSwapper:
    """Inverts each crop; records the tracks and masks of each batch."""

    template: str | None = None
    size: int = 128
    margin: float = 1.5
    needs_mask: bool = False
    needs: SourceNeeds = field(default_factory=SourceNeeds)
    card: ModelCard = field(default_factory=lambda: card("swapper"))
    batches: list[list[int]] = field(default_factory=list)
    masks: list[Mapping[str, FloatArray] | None] = field(default_factory=list)

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, style: Style,
    ) -> list[Patch]:  # fmt: skip
        self.batches.append([face.track for face in faces])
        self.masks += masks
        return [
            Patch(np.asarray(1 - crop / 255, np.float32), np.ones(crop.shape[:2], np.float32))
            for crop, _, _ in zip(crops, faces, masks, strict=True)
        ]


def network(where: Where = "cpu") -> Session:
    """A network that nobody runs."""
    dims = {"x": ("n", 3)}
    return Session(graph([node("Identity", ["x"], "y")], dims, {"y": ("n", 3)}), where, name="net")


@dataclass
class NetworkSwapper(FakeSwapper):
    """Has a network, so that frames are swapped in batches."""

    network: Session = field(default_factory=network)


class FakeMasker:
    """Gives back the picture's first two channels as classes."""

    size = 64
    margin = 1.2

    def __init__(self) -> None:
        self.card = card("masker")
        self.classes: tuple[str, ...] = ("x", "y")
        self.batches: list[int] = []

    def __call__(self, crops: ByteArray) -> FloatArray:
        assert crops.dtype == np.uint8
        assert crops.shape[1:] == (self.size, self.size, 3)
        self.batches.append(len(crops))
        return np.asarray(crops[..., :2] / 255, np.float32)


class FakeEmbedder:
    """The embedding's angle is that of the crop's mean red and green."""

    template = "arcface_112_v2"
    size = 16

    def __init__(self) -> None:
        self.card = card("embedder")

    def __call__(self, crops: ByteArray) -> FloatArray:
        colours = crops.reshape(len(crops), -1, 3).mean(1)
        return np.stack([embedding(float(np.arctan2(green, red))) for red, green, _ in colours])

    def raw(self, crops: ByteArray) -> FloatArray:
        """The mean colour, 0–255."""
        return np.asarray(crops.reshape(len(crops), -1, 3).mean(1), np.float32)


class FakeDetector:
    """Finds nothing."""

    def __init__(self) -> None:
        self.card = card("detector")

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        return []


class FakeLandmarker:
    """Sees no face in any crop."""

    size = 16
    points = 478
    crop = "mesh"
    margin = 1.5

    def __init__(self) -> None:
        self.card = card("landmarker")

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        beside = np.asarray(MESH * self.size / 2, np.float32)
        return np.repeat(beside[None], len(crops), axis=0), np.zeros(len(crops), np.float32)


class FakeZoo(Zoo):
    """Made-up models."""

    def __init__(self, swapper: FakeSwapper | None = None, more: Mapping[tuple[Task, str], Any] | None = None) -> None:
        super().__init__("cpu")
        self.swapper, self.masker = swapper or FakeSwapper(), FakeMasker()
        self._loaded = {
            **(more or {}),
            ("swapper", "texture"): self.swapper,
            ("masker", "occluder"): self.masker,
            ("embedder", "mobilefacenet"): FakeEmbedder(),
            ("detector", "yunet"): FakeDetector(),
            ("landmarker", "mesh478"): FakeLandmarker(),
        }
        self.asked: list[tuple[Task, str]] = []

    def load(self, task: Task, name: str) -> Any:
        self.asked.append((task, name))
        return super().load(task, name)
