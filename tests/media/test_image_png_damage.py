"""16-bit PNGs whose samples are damaged: an error, where libpng would only print a warning."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from mien.errors import MediaError
from mien.media import ImageFrame, open_reader
from mien.media.image_png import SIGNATURE, chunk

WIDTH, HEIGHT = 21, 13


def png(path: Path, body: bytes, *, interlaced: bool = False, spoil_crc: bool = False) -> Path:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2, 0, 0, interlaced))
    data = chunk(b"IDAT", body)
    if spoil_crc:
        data = data[:-1] + bytes([data[-1] ^ 1])
    path.write_bytes(SIGNATURE + header + data + chunk(b"IEND", b""))
    return path


@pytest.fixture
def rows() -> bytes:
    pixels = np.arange(WIDTH * HEIGHT * 3, dtype=">u2").reshape(HEIGHT, -1) * 37
    return b"".join(b"\0" + row.tobytes() for row in pixels)


def test_a_whole_one_is_read(tmp_path: Path, rows: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with open_reader(png(tmp_path / "a.png", zlib.compress(rows))) as reader:
        (frame,) = reader
    assert isinstance(frame, ImageFrame)
    wanted = np.frombuffer(b"".join(rows[i * 127 + 1 : (i + 1) * 127] for i in range(HEIGHT)), ">u2")
    np.testing.assert_array_equal(frame.array.ravel(), wanted)
    assert capfd.readouterr().err == ""


def test_an_interlaced_one_is_read(tmp_path: Path) -> None:
    sizes = [(3, 2), (3, 2), (6, 2), (5, 4), (11, 3), (10, 7), (21, 6)]
    body = b"".join((b"\0" + b"\x12\x34" * 3 * columns) * lines for columns, lines in sizes)
    with open_reader(png(tmp_path / "a.png", zlib.compress(body), interlaced=True)) as reader:
        (frame,) = reader
    assert isinstance(frame, ImageFrame)
    assert (frame.array == 0x1234).all() and frame.array.shape == (HEIGHT, WIDTH, 3)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("adler", "broken data stream"),
        ("short", "not as many as its size says"),
        ("long", "not as many as its size says"),
        ("cut", "is truncated"),
        ("crc", "check sum of IDAT is wrong"),
    ],
)
def test_damage_is_an_error_and_nothing_is_printed(
    tmp_path: Path, rows: bytes, damage: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    body = zlib.compress({"short": rows[:-127], "long": rows + rows}.get(damage, rows))
    if damage == "adler":
        body = body[:-1] + bytes([body[-1] ^ 1])
    path = png(tmp_path / "a.png", body[:-20] if damage == "cut" else body, spoil_crc=damage == "crc")
    with pytest.raises(MediaError, match=told), open_reader(path) as reader:
        list(reader)
    assert capfd.readouterr().err == ""
