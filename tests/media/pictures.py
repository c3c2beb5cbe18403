"""Tiny photos and sequences for tests, and a stand-in for a swap on them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from mien.media import ImageFrame, SequenceReader, open_reader, open_writer
from mien.options import SwapOptions
from mien.types import Box

BOX = Box(5, 4, 14, 11)
"""What `edit` paints."""
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
Pixels = npt.NDArray[Any]


def noise(channels: int, dtype: type = np.uint8, width: int = 30, height: int = 20, seed: int = 0) -> Pixels:
    """(height, width[, channels]) of every code; two dimensions for one channel."""
    peak = int(np.iinfo(dtype).max)
    made: Pixels = np.random.default_rng(seed).integers(0, peak + 1, (height, width, channels)).astype(dtype)
    return made[..., 0] if channels == 1 else made


def smooth(width: int = 60, height: int = 40, seed: int = 0) -> Pixels:
    """(height, width, 3) soft colours."""
    small = noise(3, width=6, height=4, seed=seed)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def edit(frame: ImageFrame, rgb: tuple[float, float, float] = (0.75, 0.5, 0.25)) -> None:
    """Paint the box."""
    frame.write(BOX, np.full((BOX.height, BOX.width, 3), rgb, np.float32), np.ones((BOX.height, BOX.width), np.float32))


def inside(height: int = 20, width: int = 30) -> npt.NDArray[np.bool_]:
    """(height, width) of the box."""
    mask = np.zeros((height, width), bool)
    mask[BOX.y0 : BOX.y1, BOX.x0 : BOX.x1] = True
    return mask


def rework(source: Path, made: Path, *, edited: bool = True, **options: Any) -> list[str]:
    """Read, paint and write; the writer's notes."""
    chosen = SwapOptions(**options)
    with open_reader(source, chosen, output=made) as reader, open_writer(made, reader, chosen) as writer:
        for frame in reader:
            if edited:
                assert isinstance(frame, ImageFrame)
                edit(frame)
            writer.write(frame)
    return writer.notes


def only(path: Path) -> ImageFrame:
    """The one frame of a photo."""
    (frame,) = open_reader(path)
    assert isinstance(frame, ImageFrame)
    return frame


def frames(path: Path, **options: Any) -> list[ImageFrame]:
    """The frames of a sequence."""
    reader = open_reader(path, SwapOptions(**options))
    assert isinstance(reader, SequenceReader)
    made = list(reader)
    assert len(made) == reader.frame_count
    assert [frame.index for frame in made] == list(range(len(made)))
    return made


def save_all(path: Path, arrays: Sequence[Pixels], **keywords: Any) -> Path:
    """An animation or pages, by Pillow."""
    images = [Image.fromarray(array) for array in arrays]
    images[0].save(path, save_all=True, append_images=images[1:], **keywords)
    return path


def shown_by_pillow(path: Path, mode: str = "RGBA") -> list[Pixels]:
    """The frames as Pillow shows them."""
    made = []
    with Image.open(path) as image:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            made.append(np.asarray(image.convert(mode)))
    return made


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(array: Pixels, color: int, extra: bytes = b"", size: tuple[int, int] | None = None) -> bytes:
    """A PNG by hand: 8 or 16 bits by the array's type; `extra` chunks stand before the samples."""
    height, width = size or array.shape[:2]
    bits = array.itemsize * 8
    rows = b"".join(b"\0" + row.astype(f">u{array.itemsize}").tobytes() for row in array)
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0))
    parts = (b"\x89PNG\r\n\x1a\n", header, extra, png_chunk(b"IDAT", zlib.compress(rows)), png_chunk(b"IEND", b""))
    return b"".join(parts)


def cmyk_profile() -> bytes:
    """A printer's profile without black ink: CMYK → Lab and Lab → CMYK."""
    steps = 9
    axis = np.linspace(0, 1, steps)
    c, m, y, k = (v.ravel() for v in np.meshgrid(axis, axis, axis, axis, indexing="ij"))
    rgb = np.stack([(1 - v) * (1 - k) * scale for v, scale in ((c, 0.9), (m, 0.95), (y, 0.85))], 1)
    forward = _lut(4, 3, steps, _to_lab(rgb))
    grid = np.stack([v.ravel() for v in np.meshgrid(axis * 255, axis * 255, axis * 255, indexing="ij")], 1)
    white = np.array([0.9, 0.95, 0.85])
    back = np.clip(1 - _from_lab(grid) / white, 0, 1) * 255
    backward = _lut(3, 4, steps, np.concatenate([back, np.zeros((len(back), 1))], 1))
    text = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"Test\0" + bytes(78)
    tags = {b"desc": text, b"cprt": b"text\0\0\0\0CC0\0", b"A2B0": forward, b"B2A0": backward}
    tags[b"wtpt"] = b"XYZ \0\0\0\0" + struct.pack(">III", 0xF6D6, 0x10000, 0xD32D)
    offset, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">II", offset + len(body), len(data))
        body += data
    head = struct.pack(
        ">I4sI4s4s4s12s4s", offset + len(body), b"lcms", 0x02100000, b"prtr", b"CMYK", b"Lab ", b"", b"acsp"
    )
    head = head.ljust(68, b"\0") + struct.pack(">III", 0xF6D6, 0x10000, 0xD32D)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def _lut(inputs: int, outputs: int, steps: int, values: Pixels) -> bytes:
    ramp = bytes(range(256))
    matrix = struct.pack(">9I", *(0x10000 if i % 4 == 0 else 0 for i in range(9)))
    codes: bytes = np.rint(np.clip(values, 0, 255)).astype(np.uint8).tobytes()
    return b"mft1\0\0\0\0" + bytes([inputs, outputs, steps, 0]) + matrix + ramp * inputs + codes + ramp * outputs


# Linear RGB to XYZ under D50, as in ICC's sRGB.
_XYZ = np.array([[0.4361, 0.3851, 0.1431], [0.2225, 0.7169, 0.0606], [0.0139, 0.0971, 0.7142]])
_WHITE = np.array([0.9642, 1.0, 0.8249])


def _to_lab(rgb: Pixels) -> Pixels:
    """sRGB 0–1 to Lab in codes of 8 bits."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    t = linear @ _XYZ.T / _WHITE
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
    return np.asarray(lab * [2.55, 1, 1] + [0, 128, 128])


def _from_lab(codes: Pixels) -> Pixels:
    lab = (codes - [0, 128, 128]) / [2.55, 1, 1]
    y = (lab[:, 0] + 16) / 116
    f = np.stack([y + lab[:, 1] / 500, y, y - lab[:, 2] / 200], 1)
    t = np.where(f > 0.2069, f**3, (f - 16 / 116) / 7.787)
    linear = np.clip(t * _WHITE @ np.linalg.inv(_XYZ).T, 0, 1)
    return np.asarray(np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055))
