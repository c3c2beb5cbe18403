"""A photo as the bytes of a file: in its own mode where the format holds it, with all that travels with it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.media.frame import ImageFrame
from mien.media.image_jpeg import room_for
from mien.media.image_meta import ImageMeta
from mien.media.image_native import Native
from mien.media.image_open import register_heif
from mien.media.image_png import encode_grey_alpha_16, metadata_chunks, with_metadata
from mien.media.image_tiff import TiffWriter, metadata_tags
from mien.media.sequence_gif import GifMuxer
from mien.types import ByteArray

_DEEP = ("PNG", "TIFF", "HEIF")
_NO_ALPHA = ("JPEG", "BMP")
_GREY_ALPHA = ("PNG", "TIFF")
_NATIVE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"PNG": ("1", "P"), "TIFF": ("1", "P", "CMYK"), "JPEG": ("CMYK",), "BMP": ("1", "P")}
)
_HEIF_BITS = 10


def encode(photo: ImageFrame, kind: str, quality: int) -> bytes | memoryview:
    """The photo as a file.

    Args:
        kind: Pillow's name of the format.
        quality: for formats that lose some; never coarser than the photo's file was, where that is known.

    Raises:
        ValueError, KeyError, OSError, cv2.error: it cannot be encoded.
    """
    array, meta = photo.array, photo.meta
    if kind == "TIFF":
        return _tiff(photo)
    if kind == "GIF":
        return _gif(photo)
    if photo.peak == 65535 and kind == "PNG":
        return with_metadata(png_16(array), png_metadata(meta, photo.colors))
    if photo.peak == 65535 and kind == "HEIF":
        return _deep_heif(photo, quality)
    native = native_for(photo, kind)
    if native is not None:
        image, colors = _native_image(native), 4 if native.mode == "CMYK" else 1 if native.mode == "1" else 3
    else:
        array = _for_format(to_8_bit(array), kind)
        image, colors = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array), photo.colors
    file = io.BytesIO()
    if kind == "PNG":
        image.save(file, "PNG", **_transparency(native))
        return with_metadata(file.getvalue(), png_metadata(meta, colors))
    keywords = _keywords(meta, kind, image.mode, colors, quality)
    with room_for(image) if keywords.get("progressive") else nullcontext():
        image.save(file, kind, **keywords)
    return file.getbuffer()


def losses(photo: ImageFrame, kind: str) -> list[str]:
    """What a format cannot keep of a photo, and what reading it lost, in words."""
    meta, notes = photo.meta, list(photo.meta.notes)
    if photo.array.shape[2] in (2, 4) and kind in _NO_ALPHA:
        notes.append(f"{kind} holds no transparency: the photo was put on white")
    if photo.peak == 65535 and kind not in _DEEP:
        depth = meta.depth if meta.depth > 8 else 16
        notes.append(f"{kind} holds 8 bits: the photo's {depth} were rounded")
    if photo.peak == 65535 and kind == "HEIF" and meta.depth != _HEIF_BITS:
        notes.append(f"{kind} is written with {_HEIF_BITS} bits: the photo's {max(meta.depth, 12)} were rounded")
    if meta.native is not None and meta.native.mode == "CMYK" and "CMYK" not in _NATIVE.get(kind, ()):
        notes.append(f"{kind} holds no CMYK: the photo was converted to sRGB")
    if kind == "JPEG" and (meta.jpeg_exif() != meta.exif or meta.jpeg_xmp() != meta.xmp):
        notes.append("the photo's EXIF or XMP is longer than a JPEG holds and was left out")
    return notes


def native_for(photo: ImageFrame, kind: str) -> Native | None:
    """The photo back in its own mode, if it has one that the format holds."""
    native = photo.meta.native
    if native is None or native.mode not in _NATIVE.get(kind, ()) or photo.peak != 255:
        return None
    if native.mode == "P" and native.transparent and kind != "PNG":
        return None
    return native.restored(photo.array)


def png_metadata(meta: ImageMeta, colors: int) -> list[bytes]:
    """Chunks that stand between a PNG's header and its samples."""
    return metadata_chunks(meta.png, icc=meta.icc_for(colors), exif=meta.exif, xmp=meta.xmp, dpi=meta.dpi)


def png_16(array: npt.NDArray[Any]) -> bytes:
    """(H, W, C) uint16 as PNG, without metadata."""
    if array.shape[2] == 2:
        return encode_grey_alpha_16(array)
    if array.shape[2] >= 3:
        array = cv2.cvtColor(array, cv2.COLOR_RGBA2BGRA if array.shape[2] == 4 else cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(".png", array)
    if not done:
        raise ValueError(f"16-bit PNG of shape {array.shape}")
    return bytes(data.tobytes())


def png_8(array: ByteArray) -> bytes:
    """(H, W, C) uint8 as PNG, without metadata."""
    file = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(file, "PNG")
    return file.getvalue()


def webp(array: ByteArray, meta: ImageMeta, quality: int) -> bytes:
    """(H, W, 3 or 4) as WebP, without metadata."""
    file = io.BytesIO()
    Image.fromarray(array).save(file, "WEBP", **_webp_keywords(meta, quality))
    return file.getvalue()


def add_tiff_page(writer: TiffWriter, photo: ImageFrame) -> None:
    """One more page of a TIFF."""
    meta, native, array = photo.meta, native_for(photo, "TIFF"), photo.array
    mode, palette, colors = "", b"", photo.colors
    if native is not None:
        mode, array, palette = native.mode, native.array, native.palette[:, :3].tobytes()
        colors = 4 if mode == "CMYK" else colors
    elif array.dtype == np.uint16 and array.shape[2] == 2:
        array = array[..., [0, 0, 0, 1]]  # Nothing reads 16-bit grey with alpha.
    tags = metadata_tags(icc=meta.icc_for(colors), exif=meta.exif, xmp=meta.xmp, dpi=meta.dpi)
    writer.add(array, mode, palette=palette, tags=tags)


def to_8_bit(array: npt.NDArray[Any]) -> ByteArray:
    """Rounded to uint8."""
    if array.dtype == np.uint8:
        return array
    return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)


def rgba(array: npt.NDArray[Any]) -> ByteArray:
    """(H, W, 4) uint8 of any photo."""
    array = to_8_bit(array)
    if array.shape[2] == 4:
        return array
    colors = np.broadcast_to(array[..., :1], (*array.shape[:2], 3)) if array.shape[2] < 3 else array
    alpha = array[..., 1] if array.shape[2] == 2 else np.full(array.shape[:2], 255, np.uint8)
    return np.dstack([colors, alpha])


def _tiff(photo: ImageFrame) -> memoryview:
    file = io.BytesIO()
    add_tiff_page(TiffWriter(file), photo)
    return file.getbuffer()


def _gif(photo: ImageFrame) -> memoryview:
    file, native = io.BytesIO(), photo.meta.native
    muxer = GifMuxer(file, (photo.width, photo.height), 1)
    same = native is not None and native.array.shape[:2] == photo.array.shape[:2]
    muxer.add(rgba(photo.array), rgba(native.promoted()[..., : photo.array.shape[2]]) if native and same else None, 0)
    muxer.finish()
    return file.getbuffer()


def _deep_heif(photo: ImageFrame, quality: int) -> memoryview:
    import pillow_heif

    array, meta, file = photo.array, photo.meta, io.BytesIO()
    if array.shape[2] == 2:
        array = array[..., [0, 0, 0, 1]]
    mode = {1: "L;16", 3: "RGB;16", 4: "RGBA;16"}[array.shape[2]]
    extra = {"exif": meta.exif, "xmp": meta.xmp, "icc_profile": meta.icc_for(photo.colors)}
    size = (photo.width, photo.height)
    kept = {key: value for key, value in extra.items() if value}
    pillow_heif.encode(mode, size, np.ascontiguousarray(array).tobytes(), file, quality=quality, **kept)
    return file.getbuffer()


def _for_format(array: ByteArray, kind: str) -> ByteArray:
    if array.shape[2] in (2, 4) and kind in _NO_ALPHA:
        array = _on_white(array)
    if array.shape[2] == 2 and kind not in _GREY_ALPHA:
        array = np.ascontiguousarray(array[..., [0, 0, 0, 1]])
    return array


def _native_image(native: Native) -> Image.Image:
    if native.mode == "CMYK":
        return Image.fromarray(native.array, "CMYK")
    image = Image.fromarray(native.array)
    if native.mode == "1":
        return image.convert("1", dither=Image.Dither.NONE)
    image.putpalette(native.palette[:, :3].tobytes())
    return image


def _transparency(native: Native | None) -> dict[str, bytes]:
    if native is None or not native.transparent:
        return {}
    return {"transparency": native.palette[:, 3].tobytes()}


def _keywords(meta: ImageMeta, kind: str, mode: str, colors: int, quality: int) -> dict[str, Any]:
    keywords: dict[str, Any] = {"icc_profile": meta.icc_for(colors), "exif": meta.exif, "xmp": meta.xmp}
    if meta.dpi:
        keywords["dpi"] = meta.dpi
    if kind == "JPEG":
        keywords |= {"exif": meta.jpeg_exif(), "xmp": meta.jpeg_xmp(), **meta.jpeg.keywords(quality, mode)}
    elif kind == "WEBP":
        keywords |= _webp_keywords(meta, quality)
    elif kind == "AVIF":
        keywords |= {"quality": quality, "subsampling": "4:4:4"}
    elif kind == "HEIF":
        register_heif()
        keywords["quality"] = quality
    return {key: value for key, value in keywords.items() if value not in (None, b"")}


def _webp_keywords(meta: ImageMeta, quality: int) -> dict[str, Any]:
    # A method of 4 to 6 costs seconds on large photos; exact keeps the colours below transparent pixels.
    return {"quality": max(quality, meta.webp.quality), "lossless": meta.webp.lossless, "exact": True}


def _on_white(array: ByteArray) -> ByteArray:
    alpha = array[..., -1:].astype(np.float32) / 255
    made = array[..., :-1] * alpha + 255 * (1 - alpha)
    return np.rint(made).astype(np.uint8)
