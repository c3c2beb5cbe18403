"""Made-up faces and frames for tests that need no photo."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mien.faces import keypoints_of_mesh
from mien.types import Box, ByteArray, Face, FloatArray, Image


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
