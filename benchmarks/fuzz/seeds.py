"""Small files of every format that mien reads, with a face in one frame so that a whole swap runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, features

from benchmarks.fuzz.mutate import pack
from mien import Identity, Progress, Zoo, analyze, swap

PORTRAITS = Path(__file__).parents[2] / "tests" / "fixtures" / "portraits"
SIDE = 96
FRAMES = 4
JOURNAL_TARGET, JOURNAL_OUTPUT = "for-journal.mp4", "whole-journal.mp4"
JOURNAL_OPTIONS: Mapping[str, Any] = MappingProxyType({"preset": "ultrafast", "segment_frames": 1})


@cache
def portrait(name: str = "male_009", side: int = SIDE) -> Image.Image:
    """(side, side) RGB."""
    with Image.open(PORTRAITS / f"{name}.jpg") as photo:
        return photo.convert("RGB").resize((side, side), Image.Resampling.LANCZOS)


@cache
def pictures() -> tuple[Image.Image, ...]:
    """The frames of an animation: a face, then waves."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    waves = [np.stack([127 + 100 * np.sin(x / (5 + c) + y / 9 + i) for c in range(3)], -1) for i in range(FRAMES - 1)]
    return portrait(), *(Image.fromarray(wave.astype(np.uint8)) for wave in waves)


@dataclass(frozen=True)
class Video:
    """How a video seed is written; a call writes it."""

    codec: str
    pixel_format: str = "yuv420p"
    audio: str | None = None
    muxer: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    subtitles: bool = False

    def __call__(self, path: Path) -> None:
        """Write the file."""
        with av.open(str(path), "w", format=self.muxer, container_options={"fflags": "+bitexact"}) as out:
            video = out.add_stream(self.codec, rate=25, options=dict(self.options))
            assert isinstance(video, av.VideoStream)
            context = video.codec_context
            context.width, context.height, context.pix_fmt, context.thread_count = SIDE, SIDE, self.pixel_format, 1
            sound = out.add_stream(self.audio, rate=48000, layout="mono") if self.audio else None
            if isinstance(sound, av.AudioStream):
                sound.bit_rate = 64_000
            lines = _subtitles(path, out) if self.subtitles else None
            for i, picture in enumerate(pictures()):
                frame = av.VideoFrame.from_ndarray(np.asarray(picture), "rgb24").reformat(format=self.pixel_format)
                frame.pts, frame.time_base = i, Fraction(1, 25)
                out.mux(video.encode(frame))
            out.mux(video.encode(None))
            if isinstance(sound, av.AudioStream):
                _sing(out, sound)
            if lines is not None:
                _copy_subtitles(lines, out)


def _sing(out: av.container.OutputContainer, track: av.AudioStream) -> None:
    wave = 0.3 * np.sin(np.arange(48000 * FRAMES // 25) / 20).astype(np.float32)
    frame = av.AudioFrame.from_ndarray(wave[None], "fltp", "mono")
    frame.sample_rate, frame.pts, frame.time_base = 48000, 0, Fraction(1, 48000)
    context = track.codec_context
    context.open(strict=False)
    resampler = av.AudioResampler(context.format, "mono", 48000, frame_size=context.frame_size or 1024)
    for part in [*resampler.resample(frame), *resampler.resample(None)]:
        out.mux(track.encode(part))
    out.mux(track.encode(None))


def _subtitles(path: Path, out: av.container.OutputContainer) -> tuple[Path, Any]:
    text = path.with_suffix(".srt")
    text.write_text("1\n00:00:00,000 --> 00:00:00,080\nHello\n")
    with av.open(str(text)) as source:
        return text, out.add_stream_from_template(source.streams.subtitles[0], opaque=True)


def _copy_subtitles(lines: tuple[Path, Any], out: av.container.OutputContainer) -> None:
    text, stream = lines
    with av.open(str(text)) as source:
        for packet in source.demux():
            if packet.size:
                packet.stream = stream
                out.mux(packet)
    text.unlink()


def _photo(mode: str = "RGB", **options: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        kind = options.pop("format", None)
        image = portrait()
        image = image.quantize(64) if mode == "P" else image.convert(mode)
        image.save(path, format=kind, **options)

    return make


def _tagged(path: Path) -> None:
    """A JPEG with orientation, camera and colour profile, progressive."""
    from PIL import ImageCms

    exif = Image.Exif()
    exif[274], exif[271] = 6, "mien"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    turned = portrait().transpose(Image.Transpose.ROTATE_90)
    turned.save(path, exif=exif, icc_profile=profile, progressive=True, quality=90)


def _deep(channels: int = 3) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        pixels: npt.NDArray[Any] = np.asarray(portrait(), np.uint16)[..., ::-1] * 257
        if channels == 1:
            pixels = pixels[..., 1]
        elif channels == 4:
            pixels = np.dstack([pixels, np.full(pixels.shape[:2], 40000, np.uint16)])
        assert cv2.imwrite(str(path), pixels)

    return make


def _animation(**options: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        first, *rest = pictures()
        first.save(path, save_all=True, append_images=rest, duration=40, **options)

    return make


def _heif(path: Path) -> None:
    from pillow_heif import from_pillow

    from_pillow(portrait()).save(path, quality=90)


@dataclass(frozen=True)
class Seed:
    """A file to damage."""

    name: str
    """Of the file, too."""
    kind: str
    """image, video, analysis, identity or journal."""
    make: Callable[[Path], None]

    @property
    def file_is_animation(self) -> bool:
        """Whether it may be written as a photo's format and as a video's."""
        return self.name.startswith(("moving.", "pages."))


_X264 = MappingProxyType({"preset": "ultrafast", "bf": "1"})
_X265 = MappingProxyType({"preset": "ultrafast", "x265-params": "log-level=none:pools=none"})

_IMAGES: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "plain.jpg": _photo(quality=90), "tagged.jpg": _tagged, "grey.jpg": _photo("L"), "cmyk.jpg": _photo("CMYK"),
        "plain.png": _photo(), "palette.png": _photo("P"), "alpha.png": _photo("RGBA"), "deep.png": _deep(),
        "deep_grey.png": _deep(1), "deep_alpha.png": _deep(4), "still.webp": _photo(quality=90),
        "lossless.webp": _photo("RGBA", lossless=True), "still.gif": _photo("P"), "plain.tiff": _photo(),
        "lzw.tiff": _photo(compression="tiff_lzw"), "deep.tiff": _deep(), "plain.bmp": _photo(), "plain.ppm": _photo(),
        "plain.jp2": _photo(), "plain.qoi": _photo(), "plain.heic": _heif,
        **({"plain.avif": _photo(quality=80)} if features.check("avif") else {}),
    }
)  # fmt: skip
_ANIMATIONS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "moving.png": _animation(), "moving.webp": _animation(quality=80), "moving.gif": _animation(),
        "pages.tiff": _animation(),
        "h264.mp4": Video("libx264", audio="aac", options=_X264), "hevc.mp4": Video("libx265", options=_X265),
        "prores.mov": Video("prores_ks", "yuv422p10le", audio="pcm_s16le"),
        "h264.mov": Video("libx264", "yuv444p", options=_X264),
        "ffv1.mkv": Video("ffv1", "yuv422p10le", audio="libopus", subtitles=True),
        "vp9.mkv": Video("libvpx-vp9", options={"deadline": "realtime", "cpu-used": "8"}),
        "av1.mkv": Video("libsvtav1", options={"preset": "12"}),
        "vp8.webm": Video("libvpx", audio="libopus", options={"deadline": "realtime", "cpu-used": "8"}),
        "mpeg4.avi": Video("mpeg4", audio="libmp3lame"), "mjpeg.avi": Video("mjpeg", "yuvj420p", audio="pcm_s16le"),
        "h264.ts": Video("libx264", audio="aac", options=_X264), "mpeg2.ps": Video("mpeg2video", muxer="mpeg"),
        "h264.flv": Video("libx264", audio="aac", options=_X264), "vp8.ogv": Video("libvpx", muxer="ogg"),
        "mpeg2.mxf": Video("mpeg2video", audio="pcm_s16le"), "mpeg4.nut": Video("mpeg4", audio="mp2"),
        "wmv2.wmv": Video("wmv2", audio="wmav2", muxer="asf"),
        "raw.y4m": Video("wrapped_avframe", muxer="yuv4mpegpipe"),
        "raw.h264": Video("libx264", muxer="h264", options=_X264),
        "raw.hevc": Video("libx265", muxer="hevc", options=_X265),
    }
)  # fmt: skip


def all_seeds() -> Sequence[Seed]:
    """Every seed, in a fixed order."""
    media = [(_IMAGES, "image"), (_ANIMATIONS, "video")]
    made = [Seed(name, kind, make) for makers, kind in media for name, make in makers.items()]
    saved = Seed("clip.analysis", "analysis", _analysis), Seed("person.npz", "identity", _identity)
    # Both have two of several parts, and are few beside the media.
    return (*made, *saved, *saved, *[Seed("run.journal", "journal", _journal)] * 3)


def _analysis(path: Path) -> None:
    clip = path.with_name("for-analysis.mp4")
    _ANIMATIONS["h264.mp4"](clip)
    with analyze(clip, device="cpu") as analysis:
        analysis.save(path)
    clip.unlink()


def _identity(path: Path) -> None:
    photo = path.with_name("for-identity.png")
    portrait("female_031", 160).save(photo)
    Identity.from_images([photo], zoo=Zoo("cpu")).save(path)
    photo.unlink()


def _journal(path: Path) -> None:
    """The work of a run that was interrupted after two segments of four, packed; its target and whole output beside."""
    target, output = path.with_name(JOURNAL_TARGET), path.with_name(JOURNAL_OUTPUT)
    _ANIMATIONS["h264.mp4"](target)
    zoo, person = Zoo("cpu"), Identity.load(path.with_name("person.npz"))

    def interrupt(progress: Progress) -> None:
        if progress.phase == "render" and progress.done == FRAMES - 1:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        swap(person, target, output, zoo=zoo, progress=interrupt, **JOURNAL_OPTIONS)
    work = output.with_name(f"{output.name}.mien")
    path.write_bytes(pack({file.name: file.read_bytes() for file in sorted(work.iterdir())}))
    swap(person, target, output, zoo=zoo, **JOURNAL_OPTIONS)


def make_seeds(folder: Path) -> None:
    """Write every seed, under its name. A folder that has them is left as it is."""
    done = folder / "done"
    if done.exists():
        return
    os.environ.setdefault("SVT_LOG", "1")  # Else the AV1 encoder tells its settings.
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in {seed.name: seed for seed in all_seeds()}.items():
        seed.make(folder / name)
    portrait("male_036", 128).save(folder / "clean.png")
    done.write_text(f"{os.getpid()}\n")
