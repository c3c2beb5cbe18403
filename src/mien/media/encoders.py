"""Which encoder, pixel format and options an output gets."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import av
import cv2
from av.codec.codec import UnknownCodecError, find_best_pix_fmt_of_list
from av.codec.context import CodecOption, OptionType

from mien.errors import OptionsError
from mien.options import SwapOptions

VIDEO_EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
)
"""Output extension → FFmpeg muxer."""

# From slowest to fastest, with what they mean to encoders that count: libsvtav1's preset, libvpx's cpu-used.
_PRESETS = MappingProxyType(
    {
        "placebo": (1, 0),
        "veryslow": (2, 0),
        "slower": (3, 1),
        "slow": (4, 1),
        "medium": (6, 2),
        "fast": (8, 3),
        "faster": (9, 4),
        "veryfast": (10, 4),
        "superfast": (11, 5),
        "ultrafast": (12, 5),
    }
)
_EXTRA = MappingProxyType(
    {
        "libvpx-vp9": {"deadline": "good", "row-mt": "1"},
        "libx265": {"x265-params": "log-level=none"},  # Else it tells its settings on standard error.
        "ffv1": {"level": "3", "slicecrc": "1"},
    }
)
# Listed by FFmpeg, refused by the encoder.
_UNOPENED = MappingProxyType({"libvpx-vp9": ("gbr",)})
# They refuse sizes that their chroma grid does not divide.
_EVEN_ONLY = ("libx264", "libx265")
_AVX512 = 13
"""OpenCV's number of that processor feature."""


@dataclass(frozen=True, slots=True)
class EncoderPlan:
    """What to open an encoder with."""

    name: str
    pixel_format: str
    options: Mapping[str, str]
    note: str | None = None
    """What differs from the target, in words."""


def video_muxer(path: Path) -> str:
    """FFmpeg's muxer for an output path.

    Raises:
        OptionsError: the extension is none of `VIDEO_EXTENSIONS`.
    """
    made = VIDEO_EXTENSIONS.get(path.suffix.lower())
    if made is None:
        raise OptionsError(f"{path}: videos cannot be written as {path.suffix!r}; use {', '.join(VIDEO_EXTENSIONS)}")
    return made


def plan_encoder(muxer: str, options: SwapOptions, source: str, width: int, height: int) -> EncoderPlan:
    """The encoder for frames of pixel format `source` and that stored size.

    Raises:
        OptionsError: an encoder, preset or pixel format that is unknown or does not fit.
    """
    name = options.encoder
    if name == "auto":
        name = "libvpx-vp9" if muxer == "webm" else "libx264"
    formats = _pixel_formats(name)
    _check_container(name, muxer)
    if options.pixel_format == "auto":
        chosen, note = _nearest(name, formats, source, width, height)
    else:
        chosen, note = options.pixel_format, None
        if chosen not in formats:
            raise OptionsError(f"{name} has no pixel format {chosen!r}; use auto or one of {', '.join(formats)}")
    return EncoderPlan(name, chosen, MappingProxyType(_options(name, options)), note)


def _pixel_formats(name: str) -> list[str]:
    try:
        codec = av.Codec(name, "w")
    except UnknownCodecError:
        codec = None
    if codec is None or codec.type != "video":
        raise OptionsError(f"this FFmpeg has no video encoder {name!r}; try libx264, or see `mien doctor`")
    return [f.name for f in codec.video_formats or ()]


def _check_container(name: str, muxer: str) -> None:
    with av.open(io.BytesIO(), "w", format=muxer) as trial:
        try:
            trial.add_stream(name, rate=25)
        except ValueError as error:
            raise OptionsError(f"{muxer} cannot hold what {name} makes; use .mkv or another encoder") from error


def _nearest(name: str, formats: list[str], source: str, width: int, height: int) -> tuple[str, str | None]:
    """The target's own pixel format, or the one that loses least, and what to tell about it."""
    formats = [f for f in formats if not f.startswith(("yuvj", *_UNOPENED.get(name, ())))]
    if name in _EVEN_ONLY:
        formats = [f for f in formats if _fits(f, width, height)]
    if not formats or source in formats:
        return source, None
    best, loss = find_best_pix_fmt_of_list(formats, source, has_alpha=True)
    chosen = best.name if best else formats[0]
    if av.VideoFormat(source).is_rgb and av.VideoFormat(chosen).is_rgb and not loss:
        return chosen, None  # The same samples, packed.
    return chosen, f"{name} holds {chosen} in place of the target's {source} at {width}×{height}"


def _fits(pixel_format: str, width: int, height: int) -> bool:
    """False where the chroma grid does not divide the size, which x264 and x265 refuse."""
    fmt = av.VideoFormat(pixel_format, width, height)
    return (
        width % (2 if fmt.chroma_width(16) == 8 else 1) == 0 and height % (2 if fmt.chroma_height(16) == 8 else 1) == 0
    )


def _options(name: str, options: SwapOptions) -> dict[str, str]:
    known = {o.name: o for o in av.CodecContext.create(name, "w").supported_options.private}
    made = dict(_EXTRA.get(name, {}))
    if name in ("libx264", "libx264rgb") and cv2.checkHardwareSupport(_AVX512):
        # x264's macroblock tree reads memory that nobody wrote where AVX-512 is used and a row is not a multiple of 8
        # macroblocks: the same frames gave other bytes now and then.
        made["x264-params"] = "asm=AVX2"
    if "crf" in known:
        made["crf"] = str(options.crf)
    elif "cq" in known:
        made |= {"rc": "vbr", "cq": str(options.crf)}
    if "preset" in known:
        made["preset"] = _preset(known["preset"], name, options.preset)
    elif "cpu-used" in known:
        made["cpu-used"] = str(_named(name, options.preset)[1])
    return made


def _preset(option: CodecOption, name: str, preset: str) -> str:
    if preset in {choice.name for choice in option.choices}:
        return preset
    counted = _named(name, preset)[0]
    return preset if option.type == OptionType.STRING else str(counted)


def _named(name: str, preset: str) -> tuple[int, int]:
    if preset not in _PRESETS:
        raise OptionsError(f"{name} has no preset {preset!r}; use one of {', '.join(_PRESETS)}")
    return _PRESETS[preset]
