"""Opening photos by their content: which kind, how large, how deep; limits come before any decoding."""

from __future__ import annotations

import ctypes
import logging
import mmap
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

import PIL
from PIL import Image, TiffImagePlugin, UnidentifiedImageError, features

from mien.errors import MediaError, MienError
from mien.media.limits import Limits

_FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "JPEG2000", "QOI")
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
_HEAD = 4096
_16_BIT = ("I;16", "I;16L", "I;16B", "I;16N")
_BITS_PER_SAMPLE, _SUBFILE = 258, 254
_REDUCED, _MASK = 1, 4
_PNM = re.compile(rb"P[1-7]\s(?:\s*#[^\n]*\n)*\s*\d+\s+(?:#[^\n]*\n\s*)*\d+\s+(?:#[^\n]*\n\s*)*(\d+)\s")
_HDR = (16, 18)
_FAULTS = (
    *(OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError, KeyError, TypeError, RuntimeError),
    *(struct.error, zlib.error),
)
_pillow_limit = Lock()
# Pillow logs what it also raises; without a handler that would go to the error stream.
logging.getLogger("PIL").addHandler(logging.NullHandler())


@contextmanager
def opened(path: Path, limits: Limits | None = None) -> Iterator[tuple[Image.Image | None, bytes]]:
    """The photo with its headers read, or None if it is no photo, and the file's first bytes.

    Raises:
        MediaError: too large, or damaged; also for what goes wrong in the body of `with`.
    """
    limits = limits or Limits.of(None)
    with faults(path):
        with path.open("rb") as file:
            head = file.read(_HEAD)
        image = _identify(path, head, limits)
        try:
            if image is not None:
                if image.format == "TIFF":
                    silence_libtiff()
                limits.check_size(path, *image.size)
                _refuse_hdr(path, image, head)
            yield image, head
        finally:
            if image is not None:
                image.close()


@cache
def silence_libtiff() -> None:
    """Keep the libtiff that Pillow's wheel brings along from printing what Pillow also raises.

    It has no other switch than its C functions. A Pillow built against the system's libtiff is left alone.
    """
    for name in (Path(PIL.__file__).parents[1] / "pillow.libs").glob("libtiff*"):
        library = ctypes.CDLL(str(name))
        for function in (library.TIFFSetErrorHandler, library.TIFFSetWarningHandler):
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_void_p
            function(None)


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """A file's bytes, without reading it as a whole."""
    with path.open("rb") as file:
        # Not closed by hand: what failed may still hold views of it. It goes with the last of them.
        yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@contextmanager
def quiet() -> Iterator[None]:
    """Pillow without its warnings: what matters of a damaged file is raised. Not to be left open over a `yield`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Turns what damaged files make Pillow raise into a MediaError."""
    try:
        yield
    except MienError:
        raise
    except MemoryError as error:
        raise MediaError(f"{path}: does not fit into memory; scale it down") from error
    except Image.DecompressionBombError as error:
        raise MediaError(
            f"{path}: has far more pixels than max_pixels allows; raise max_pixels or make it smaller"
        ) from error
    except _FAULTS as error:
        told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = " ".join(told.split()) or type(error).__name__
        raise MediaError(f"{path}: is a damaged or truncated photo ({reason}); get the file again") from error


def bit_depth(image: Image.Image, head: bytes) -> int:
    """Bits per sample in the file, 8 for what is less."""
    if image.format == "HEIF":
        return int(image.info.get("bit_depth") or 8)
    if image.mode in _16_BIT:
        return 16
    if image.format == "PNG":
        return max(8, int(head[24]))
    if image.format == "TIFF":
        assert isinstance(image, TiffImagePlugin.TiffImageFile)
        bits = image.tag_v2.get(_BITS_PER_SAMPLE, 8)
        return max(8, *(int(value) for value in (bits if isinstance(bits, tuple) else (bits,))))
    if image.format == "PPM":
        match = _PNM.match(head)
        return 16 if match and int(match[1]) > 255 else 8
    if image.format == "AVIF":
        at = head.find(b"av1C")
        flags = head[at + 6] if 0 <= at < len(head) - 6 else 0
        return (12 if flags & 0x20 else 10) if flags & 0x40 else 8
    if image.format == "JPEG2000":
        at = head.find(b"\xff\x51")
        return max(8, (head[at + 40] & 0x7F) + 1) if 0 <= at < len(head) - 40 else 8
    return 8


def full_pages(image: Image.Image) -> list[int]:
    """Which pictures of a TIFF are pages, not small copies or masks of others; leaves the first one selected."""
    count = getattr(image, "n_frames", 1)
    pages = []
    for page in range(count):
        image.seek(page)
        assert isinstance(image, TiffImagePlugin.TiffImageFile)
        kind = image.tag_v2.get(_SUBFILE, 0)
        if not (isinstance(kind, int) and kind & (_REDUCED | _MASK)):
            pages.append(page)
    pages = pages or [0]
    image.seek(pages[0])
    return pages


def register_heif() -> None:
    """Teach Pillow HEIC; idempotent, and only paid for by those who need it."""
    from pillow_heif import register_heif_opener

    register_heif_opener()


def _identify(path: Path, head: bytes, limits: Limits) -> Image.Image | None:
    formats = list(_FORMATS)
    if features.check("avif"):
        formats.append("AVIF")
    if head[4:8] == b"ftyp" and any(brand in head[:64] for brand in _HEIF_BRANDS):
        register_heif()
        formats.append("HEIF")
    # Pillow knows one limit for all of a process; while a file is opened it is the one asked for.
    with _pillow_limit, quiet():
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, limits.max_pixels
        try:
            return Image.open(path, formats=formats)
        except UnidentifiedImageError:
            return None
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _refuse_hdr(path: Path, image: Image.Image, head: bytes) -> None:
    """PQ and HLG: faces would be painted in the wrong light, and the tag would be lost on writing."""
    transfer = 0
    if image.format == "PNG":
        at = head.find(b"cICP")
        transfer = head[at + 5] if 0 <= at < len(head) - 5 else 0
    elif image.format == "HEIF":
        transfer = int((image.info.get("nclx_profile") or {}).get("transfer_characteristics", 0))
    elif image.format == "AVIF":
        at = head.find(b"colrnclx")
        transfer = int.from_bytes(head[at + 10 : at + 12], "big") if at >= 0 else 0
    if transfer in _HDR:
        name = "PQ" if transfer == _HDR[0] else "HLG"
        raise MediaError(f"{path}: is an HDR photo ({name}), which mien cannot work on; convert it to SDR")


def size_text(sizes: set[tuple[int, int]]) -> str:
    """Sizes, for messages."""
    return ", ".join(f"{width}×{height}" for width, height in sorted(sizes)[:4])
