"""The output: which encoder, whole or not at all, and constant memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

from mien.errors import OptionsError, OutputError
from mien.media import Frame, ImageFrame, VideoWriter, open_reader, open_writer
from mien.media.encoders import plan_encoder
from mien.options import SwapOptions
from tests.media.clips import make_clip, times

X264 = SwapOptions(encoder_threads=2, preset="ultrafast")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_clip(tmp_path / "in.mp4", pts=range(12), audio="aac")


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("after", [0, 1, 8])
@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
def test_an_exception_leaves_nothing_behind(
    tmp_path: Path, clip: Path, error: type[BaseException], after: int, suffix: str
) -> None:
    out = tmp_path / f"out.{suffix}"
    out.write_bytes(b"precious")
    with pytest.raises(error), open_reader(clip) as reader, open_writer(out, reader, X264) as writer:
        for frame in reader:
            if frame.index == after:
                raise error
            writer.write(frame)
    assert out.read_bytes() == b"precious"
    assert files(tmp_path) == ["in.mp4", f"out.{suffix}"]


def test_abort_is_final_and_may_be_called_again(tmp_path: Path, clip: Path) -> None:
    reader = open_reader(clip)
    writer = open_writer(tmp_path / "out.mp4", reader, X264)
    frames = iter(reader)
    writer.write(next(frames))
    assert files(tmp_path) == ["in.mp4", "out.mp4.mien"]
    writer.abort()
    writer.abort()
    writer.close()
    assert files(tmp_path) == ["in.mp4"]
    with pytest.raises(OutputError, match="already closed"):
        writer.write(next(frames))


def test_closing_twice_is_closing_once(tmp_path: Path, clip: Path) -> None:
    reader = open_reader(clip)
    writer = open_writer(tmp_path / "out.mp4", reader, X264)
    for frame in reader:
        writer.write(frame)
    writer.close()
    writer.close()
    assert len(times(tmp_path / "out.mp4")) == 12


def test_no_frame_is_an_error_and_no_file(tmp_path: Path, clip: Path) -> None:
    with pytest.raises(OutputError, match="no frame was given"), open_writer(tmp_path / "o.mp4", open_reader(clip)):
        pass
    assert files(tmp_path) == ["in.mp4"]


def test_a_failing_encoder_is_an_output_error(tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mien.media.segments as module

    def fail(self: object, packets: object) -> None:
        raise av.error.OSError(28, "No space left on device")

    monkeypatch.setattr(module.SegmentWriter, "_keep", fail)
    reader = open_reader(clip)
    text = r"out\.mp4: cannot be written \(No space left on device\); check the disk"
    with pytest.raises(OutputError, match=text), open_writer(tmp_path / "out.mp4", reader, X264) as writer:
        for frame in reader:
            writer.write(frame)
    assert files(tmp_path) == ["in.mp4"]


FULL = """
import resource, signal, sys
from mien.errors import OutputError
from mien.media import open_reader, open_writer
from mien.options import SwapOptions
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    with open_reader(sys.argv[1]) as r, open_writer(sys.argv[2], r, SwapOptions(crf=1, encoder_threads=1)) as w:
        for f in r:
            w.write(f)
except OutputError as error:
    print(error)
"""


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_full_disk_is_one_clear_error(tmp_path: Path, clip: Path, suffix: str, python: tuple[str, ...]) -> None:
    out = tmp_path / f"out.{suffix}"
    done = subprocess.run([*python, "-c", FULL, str(clip), str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}: cannot be written (File too large); check the disk's space and permissions\n"
    assert files(tmp_path) == ["in.mp4"]


def test_outputs_that_cannot_be_are_told_before_the_work(tmp_path: Path, clip: Path) -> None:
    reader = open_reader(clip)
    (tmp_path / "folder.mp4").mkdir()
    for name, text in (
        ("no/out.mp4", "does not exist"),
        ("folder.mp4", "is a folder"),
        ("x" * 260 + ".mp4", "too long"),
    ):
        with pytest.raises(OutputError, match=text):
            open_writer(tmp_path / name, reader, X264)
    with pytest.raises(OptionsError, match=r"cannot be written as '\.txt'"):
        open_writer(tmp_path / "out.txt", reader, X264)
    with pytest.raises(OptionsError, match=r"out\.jpg"):
        open_writer(tmp_path / "out.jpg", reader, X264)


def test_a_photo_is_no_frame_of_a_video(tmp_path: Path, clip: Path) -> None:
    photo: Frame = ImageFrame(np.zeros((8, 8, 3), np.uint8))
    writer = open_writer(tmp_path / "out.mp4", open_reader(clip), X264)
    with pytest.raises(OptionsError, match="a photo cannot be"):
        writer.write(photo)


@pytest.mark.parametrize(
    ("options", "suffix", "text"),
    [
        ({"encoder": "nothing"}, "mp4", "no video encoder 'nothing'"),
        ({"encoder": "aac"}, "mp4", "no video encoder 'aac'"),
        ({"encoder": "libx264"}, "webm", "webm cannot hold what libx264 makes; use .mkv"),
        ({"preset": "warp"}, "mp4", "no preset 'warp'; use one of placebo"),
        ({"preset": "warp"}, "webm", "no preset 'warp'"),
        ({"pixel_format": "rgb24"}, "mp4", "no pixel format 'rgb24'; use auto or one of yuv420p"),
        ({"pixel_format": "bogus"}, "mp4", "no pixel format 'bogus'"),
    ],
)
def test_options_that_do_not_fit_are_told_before_the_work(
    tmp_path: Path, clip: Path, options: dict[str, str], suffix: str, text: str
) -> None:
    with pytest.raises(OptionsError, match=text):
        open_writer(tmp_path / f"out.{suffix}", open_reader(clip), SwapOptions(**options))
    assert files(tmp_path) == ["in.mp4"]


@pytest.mark.parametrize(
    ("muxer", "options", "source", "expected"),
    [
        ("mp4", {}, "yuv420p", ("libx264", "yuv420p", {"crf": "17", "preset": "medium"})),
        (
            "mov",
            {"crf": 23, "preset": "fast"},
            "yuv422p10le",
            ("libx264", "yuv422p10le", {"crf": "23", "preset": "fast"}),
        ),
        (
            "matroska",
            {"encoder": "libx265"},
            "yuv444p12le",
            ("libx265", "yuv444p12le", {"crf": "17", "preset": "medium"}),
        ),
        ("mp4", {}, "yuv420p12le", ("libx264", "yuv420p10le", {"crf": "17", "preset": "medium"})),
        ("mp4", {}, "gbrp", ("libx264", "yuv444p", {"crf": "17", "preset": "medium"})),
        ("mp4", {"pixel_format": "yuv420p"}, "yuv444p", ("libx264", "yuv420p", {"crf": "17", "preset": "medium"})),
        (
            "webm",
            {},
            "yuva420p",
            ("libvpx-vp9", "yuva420p", {"crf": "17", "cpu-used": "2", "deadline": "good", "row-mt": "1"}),
        ),
        ("matroska", {"encoder": "ffv1"}, "yuv420p10le", ("ffv1", "yuv420p10le", {"level": "3", "slicecrc": "1"})),
        ("mp4", {"encoder": "libsvtav1"}, "yuv420p", ("libsvtav1", "yuv420p", {"crf": "17", "preset": "6"})),
    ],
)
def test_the_plan(muxer: str, options: dict[str, str], source: str, expected: tuple[str, str, dict[str, str]]) -> None:
    plan = plan_encoder(muxer, SwapOptions(**options), source, 640, 480)
    told = {key: value for key, value in plan.options.items() if not key.startswith("x26")}
    assert (plan.name, plan.pixel_format, told) == expected
    kept = expected[1] == source or options.get("pixel_format")
    assert (plan.note is None) is bool(kept)


@pytest.mark.parametrize(
    ("width", "height", "chosen"), [(641, 359, "yuv444p"), (640, 359, "yuv422p"), (640, 360, "yuv420p")]
)
def test_x264_gets_a_chroma_grid_that_divides_the_size(width: int, height: int, chosen: str) -> None:
    assert plan_encoder("mp4", SwapOptions(), "yuv420p", width, height).pixel_format == chosen


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1", "mpeg4", "prores_ks", "ffv1"])
def test_encoders_by_name(tmp_path: Path, clip: Path, encoder: str) -> None:
    out = tmp_path / "out.mkv"
    reader = open_reader(clip)
    with open_writer(out, reader, SwapOptions(encoder=encoder, preset="ultrafast", encoder_threads=2)) as writer:
        for frame in reader:
            writer.write(frame)
    assert len(times(out)) == 12


def test_crf_and_threads_reach_the_encoder(tmp_path: Path, clip: Path) -> None:
    sizes = {}
    for crf in (5, 40):
        out = tmp_path / f"{crf}.mp4"
        reader = open_reader(clip)
        with open_writer(out, reader, SwapOptions(crf=crf, encoder_threads=3)) as writer:
            assert isinstance(writer, VideoWriter)
            for frame in reader:
                writer.write(frame)
                assert writer._segment is not None
                context = writer._segment._encoder
                assert (context.thread_count, context.thread_type.name) == (3, "FRAME")
        sizes[crf] = out.stat().st_size
    assert sizes[5] > 2 * sizes[40]
    assert b"threads=3" in (tmp_path / "5.mp4").read_bytes()


def test_mp4_can_be_played_while_it_loads(tmp_path: Path, clip: Path) -> None:
    reader = open_reader(clip)
    with open_writer(tmp_path / "out.mp4", reader, X264) as writer:
        for frame in reader:
            writer.write(frame)
    data = (tmp_path / "out.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


LONG = """
import re, sys
from mien.media import open_reader, open_writer
from mien.options import SwapOptions
options = SwapOptions(encoder_threads=1, preset="ultrafast")
with open_reader(sys.argv[1]) as reader, open_writer(sys.argv[2], reader, options) as writer:
    for frame in reader:
        writer.write(frame)
# Not getrusage: its peak begins with that of the process which started this one.
print(re.search("VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_clip(tmp_path: Path) -> None:
    """Sound of megabytes beside a small picture: ten times the clip, the same memory."""
    peaks = []
    for count in (100, 1000):
        source = make_clip(
            tmp_path / f"{count}.mov", width=32, height=32, pts=range(count), audio="pcm_s16le", tracks=("a", "b")
        )
        command = [sys.executable, "-c", LONG, str(source), str(tmp_path / "out.mov")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] <= 1.1 * peaks[0], peaks
