"""Writing TIFF pages with their profile and EXIF, which neither Pillow nor OpenCV can for 16-bit colour."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, TiffImagePlugin

EXIF, GPS = 0x8769, 0x8825
XMP, ICC, _ORIENTATION = 700, 34675, 274
_BYTE, _SHORT, _LONG, _UNDEFINED = 1, 3, 4, 7
_PHOTOMETRIC = {1: 1, 2: 1, 3: 2, 4: 2}
_HEADER = b"II*\0"
_STRIP = 1 << 20
_LIMIT = 2**32 - 1


class TiffWriter:
    """Writes pages, one after the other, to a seekable file: little-endian, deflate, any of mien's modes.

    Args:
        file: empty, opened for reading and writing bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._link = 4
        file.write(_HEADER + bytes(4))

    def add(
        self, array: npt.NDArray[Any], mode: str = "", *, palette: bytes = b"", tags: Mapping[int, Any] | None = None
    ) -> None:
        """Write one page.

        Args:
            array: (H, W[, C]) uint8 or uint16: 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha.
            mode: "1" (array 0 or 255), "P" (array of indices) or "CMYK" (4 channels); empty for the others.
            palette: RGB triples for "P".
            tags: see `metadata_tags`.

        Raises:
            ValueError: the file would grow beyond the 4 GB that TIFF can address.
        """
        array = array.reshape(*array.shape[:2], -1)
        height, width, channels = array.shape
        bits = 1 if mode == "1" else array.itemsize * 8
        ifd = TiffImagePlugin.ImageFileDirectory_v2()
        if mode == "1":
            rows = np.packbits(array[..., 0] > 127, axis=1)
        elif mode == "P":
            rows = array[..., 0]
            codes = np.zeros((256, 3), np.uint16)
            codes[: len(palette) // 3] = np.frombuffer(palette, np.uint8).reshape(-1, 3).astype(np.uint16) * 257
            _set(ifd, 320, _SHORT, tuple(int(v) for v in codes.T.ravel()))
        else:
            rows = array
            _set(ifd, 317, _SHORT, 2)
            if channels in (2, 4) and mode != "CMYK":
                _set(ifd, 338, _SHORT, 2)
        photometric = {"1": 1, "P": 3, "CMYK": 5}.get(mode, _PHOTOMETRIC[channels])
        per_strip = max(1, _STRIP // max(1, rows[0].nbytes))
        starts, sizes = self._strips(rows, per_strip, predict=mode not in ("1", "P"))
        for tag, kind, value in (
            (256, _LONG, width),
            (257, _LONG, height),
            (258, _SHORT, (bits,) * channels),
            (259, _SHORT, 8),
            (262, _SHORT, photometric),
            (273, _LONG, starts),
            (277, _SHORT, channels),
            (278, _LONG, per_strip),
            (279, _LONG, sizes),
            (284, _SHORT, 1),
        ):
            _set(ifd, tag, kind, value)
        for tag, value in (tags or {}).items():
            _set(ifd, tag, {XMP: _BYTE, ICC: _UNDEFINED, EXIF: _LONG, GPS: _LONG}.get(tag), value)
        self._close_page(ifd)

    def _strips(self, rows: npt.NDArray[Any], per_strip: int, *, predict: bool) -> tuple[tuple[int, ...], ...]:
        starts, sizes = [], []
        for top in range(0, len(rows), per_strip):
            part = np.ascontiguousarray(rows[top : top + per_strip])
            if predict:
                part = np.concatenate([part[:, :1], part[:, 1:] - part[:, :-1]], axis=1)
            data = zlib.compress(part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes())
            starts.append(self._file.tell())
            sizes.append(len(data))
            self._file.write(data)
        return tuple(starts), tuple(sizes)

    def _close_page(self, ifd: TiffImagePlugin.ImageFileDirectory_v2) -> None:
        """Write the directory after its strips and link it to the one before."""
        if self._file.tell() % 2:
            self._file.write(b"\0")
        at = self._file.tell()
        starts = ifd[273]
        ifd[273] = 0  # Pillow takes offsets as counted from the directory's end.
        data = bytearray(ifd.tobytes(at))
        if at + len(data) + 4 * len(starts) > _LIMIT:
            raise ValueError("TIFF holds at most 4 GB")
        (count,) = struct.unpack_from("<H", data)
        for entry in range(2, 2 + count * 12, 12):
            if struct.unpack_from("<H", data, entry) == (273,):
                place = starts[0] if len(starts) == 1 else at + len(data)
                struct.pack_into("<II", data, entry + 4, len(starts), place)
        if len(starts) > 1:
            data += struct.pack(f"<{len(starts)}I", *starts)
        self._file.write(data)
        self._file.seek(self._link)
        self._file.write(struct.pack("<I", at))
        self._link = at + 2 + count * 12
        self._file.seek(0, 2)


def metadata_tags(*, icc: bytes | None, exif: bytes, xmp: bytes, dpi: tuple[float, float] | None) -> dict[int, Any]:
    """Tags of a page that say what is not in its samples."""
    tags: dict[int, Any] = {_ORIENTATION: 1}  # Else readers look for one in the XMP.
    if exif:
        block = Image.Exif()
        block.load(exif)
        tags |= {tag: value for tag, value in block.items() if tag in _DESCRIBING}
        for sub in (EXIF, GPS):
            values = dict(block.get_ifd(sub))
            if values:
                tags[sub] = {tag: value for tag, value in values.items() if not isinstance(value, dict)}
    if dpi:
        tags |= {282: dpi[0], 283: dpi[1], 296: 2}
    if icc:
        tags[ICC] = icc
    if xmp:
        tags[XMP] = xmp
    return tags


_DESCRIBING = (270, 271, 272, 305, 306, 315, 33432)
"""Description, make, model, software, time, artist, copyright: of the photo, not of its samples."""


def _set(ifd: TiffImagePlugin.ImageFileDirectory_v2, tag: int, kind: int | None, value: Any) -> None:
    if kind is not None:
        ifd.tagtype[tag] = kind
    ifd[tag] = value
