"""Faults: damaged files, dying encoders, broken models, full devices. Right, or one clear error and nothing left."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import mien
from mien.errors import DeviceError, MienError, ModelError, OutputError, PipelineError
from mien.runtime.session import Runtime
from mien.types import Patch
from mien.zoo.cards import Task
from mien.zoo.registry import Zoo
from tests.corpus.broken import BrokenZoo, SmallDevice, flipped, spoiled
from tests.corpus.conftest import SOURCE, Bench
from tests.corpus.film import film, stream_out
from tests.corpus.look import assert_untouched, audio_packets, digest, look, tree

INTRA = {"g": "1", "crf": "8", "preset": "ultrafast"}


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("kind", ["mkv", "ts", "fragmented mp4"])
def test_a_truncated_clip_gives_the_frames_that_are_there(
    bench: Bench, tmp_path: Path, kind: str, share: float
) -> None:
    suffix = kind.split()[-1]
    whole = tmp_path / f"whole.{suffix}"
    if kind == "fragmented mp4":
        stream_out(whole, "mp4", pts=range(30), options={"g": "5"}, audio=("aac",))
    else:
        film(whole, pts=range(30), options={"g": "5"}, audio=("aac",))
    target = tmp_path / f"in.{suffix}"
    target.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])
    before = [shot.number for shot in look(whole).shots]
    after = look(bench.swap(target))
    count = len(after.shots)
    assert 30 * share - 10 < count < 30
    assert after.numbers[: count - 1] == before[: count - 1]  # the last one may be cut


def test_a_truncated_mp4_gives_what_is_there_and_says_what_is_missing(bench: Bench, tmp_path: Path) -> None:
    whole = tmp_path / "whole.mp4"
    film(whole, pts=range(30), options={"g": "5"}, muxer_options={"movflags": "faststart"})
    target = tmp_path / "in.mp4"
    target.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.6)])
    after = look(bench.swap(target))
    count = len(after.shots)
    assert 8 < count < 28
    assert after.numbers[: count - 1] == list(range(count - 1))
    assert bench.report.notes, "a clip of 30 frames became shorter without a word"


def test_an_mp4_without_its_index_is_an_error(bench: Bench, tmp_path: Path) -> None:
    whole = film(tmp_path / "whole.mp4", pts=range(30))
    target = tmp_path / "in.mp4"
    target.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.6)])
    bench.fails(target, "in.mp4")


@pytest.mark.parametrize("kind", ["mp4", "mkv", "ts", "webm", "avi"])
def test_flipped_bits_give_a_whole_clip_or_an_error(bench: Bench, tmp_path: Path, kind: str) -> None:
    codec = {"webm": "libvpx-vp9", "avi": "mjpeg"}.get(kind, "libx264")
    extra: dict[str, Any] = {"pixel_format": "yuvj420p"} if codec == "mjpeg" else {}
    options = {"deadline": "realtime", "cpu-used": "8"} if kind == "webm" else {}
    whole = film(tmp_path / f"whole.{kind}", pts=range(8), codec=codec, options=options, **extra)
    times = look(whole).times
    for seed in range(3):
        target = tmp_path / f"{seed}.{kind}"
        target.write_bytes(flipped(whole.read_bytes(), seed, flips=(2, 12, 60)[seed], spare=16))
        output = bench.folder / f"{seed}.mkv"
        ended = bench.command("swap", "-s", SOURCE, "-t", target, "-o", output, "--encoder", "ffv1", "--quiet")
        assert ended.code in (0, 1), ended
        if ended.code:
            assert ended.err.count("\n") == 1
            assert "unexpected" not in ended.err
            assert not output.exists()
        else:
            assert ended.err == ""
            made = look(output, numbers=False)
            assert 1 <= len(made.shots) <= len(times)
            assert made.times == sorted(set(made.times))
    assert all(name.endswith(".mkv") for name in tree(bench.folder))


@pytest.mark.parametrize("codec", ["png", "libx264"])
def test_damaged_frames_are_left_out_and_counted_and_the_rest_keeps_its_time(
    bench: Bench, tmp_path: Path, codec: str
) -> None:
    how: dict[str, Any] = (
        {"codec": "png", "pixel_format": "rgb24", "options": {}} if codec == "png" else {"options": INTRA}
    )
    suffix = "mov" if codec == "png" else "mkv"
    whole = film(tmp_path / f"whole.{suffix}", pts=range(16), audio=("aac",), **how)
    target = spoiled(whole, tmp_path / f"in.{suffix}", lambda index: index % 4 == 2)
    made = bench.swap(target, pixel_format="auto")
    after = look(made)
    good = [number for number in range(16) if number % 4 != 2]
    assert after.numbers == good
    assert [float(t) for t in after.times] == pytest.approx([number / 25 for number in good], abs=0.0011)
    assert any(re.search(r"\b4\b.*damaged", note) for note in bench.report.notes), bench.report.notes
    assert [data for _, data in audio_packets(made)] == [data for _, data in audio_packets(target)]
    assert bench.report.frames == 12


def test_a_decoder_that_floods_its_log_is_not_heard(bench: Bench, tmp_path: Path) -> None:
    """Noise in most packets of a long stream makes FFmpeg print thousands of lines."""
    whole = film(
        tmp_path / "whole.mkv", pts=range(300), options=INTRA, draw=lambda n: np.full((64, 64, 3), n % 256, np.uint8)
    )
    noise = spoiled(whole, tmp_path / "noise.mkv", lambda index: True)
    started = time.monotonic()
    error = bench.fails(noise, "noise.mkv")
    assert len(error) < 500
    assert time.monotonic() - started < 30
    film(tmp_path / "good.mkv", pts=range(40), options=INTRA)
    target = spoiled(tmp_path / "good.mkv", tmp_path / "half.mkv", lambda index: index >= 4 and index % 2 == 1)
    ended = bench.command("swap", "-s", SOURCE, "-t", target, "-o", bench.folder / "out.mp4")
    assert ended.code == 0
    assert ended.err == ""
    assert len(ended.out) < 1000
    assert "18" in ended.out
    assert "damaged" in ended.out


class DyingEncoder:
    """Dies at its fourth frame, as x264 does when a driver or a disk goes."""

    def __init__(self, context: Any) -> None:
        self._context, self._count = context, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def encode(self, frame: Any = None) -> Any:
        self._count += 1
        if self._count == 4:
            raise av.error.ExternalError(-542398533, "Generic error in an external library")
        return self._context.encode(frame)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_an_encoder_that_dies_is_one_error_and_leaves_nothing(
    bench: Bench, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mien.media.segments import EncoderSetup

    opened = EncoderSetup.opened
    monkeypatch.setattr(EncoderSetup, "opened", lambda setup: DyingEncoder(opened(setup)))
    target = film(tmp_path / "in.mp4", pts=range(8), audio=("aac",))
    bench.fails(target, name, "external library", name=name)


def test_an_encoder_that_cannot_be_opened_is_told_before_the_work(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(4))
    bench.fails(target, "no_such", name="out.mp4", code=2, flags=("--encoder", "no_such"))
    bench.fails(target, "webm", name="out.webm", code=2, flags=("--encoder", "libx264"))
    assert bench.command("swap", "-s", SOURCE, "-t", target, "-o", bench.folder / "out.mp4", "--encoder",
                         "h264_nvenc").code in (1, 2)  # fmt: skip
    assert tree(bench.folder) == []


def refuses(bench: Bench, target: Path, zoo: Zoo, kinds: type[MienError], *words: str, **options: Any) -> str:
    """Swap by the library: that error, with these words in one line, and nothing left."""
    output = bench.folder / "out.mkv"
    with pytest.raises(kinds) as caught:
        mien.swap(bench.person, target, output, zoo=zoo, encoder="ffv1", **options)
    text = str(caught.value)
    for word in words:
        assert word in text
    assert "\n" not in text.strip()
    assert tree(bench.folder) == []
    return text


def boom(model: Any, calls: int, args: tuple[Any, ...]) -> Any:
    if calls >= 2:
        raise RuntimeError("boom\nin two lines")
    return model(*args)


TASKS: list[Task] = ["detector", "landmarker", "embedder", "masker", "swapper"]


@pytest.mark.parametrize("task", TASKS)
def test_a_model_that_raises_is_one_error(
    bench: Bench, tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = film(tmp_path / "in.mp4", pts=range(8))
    zoo = BrokenZoo(bench.zoo, task, boom)
    monkeypatch.setattr("mien.api.Zoo.of", lambda options: zoo)
    ended = bench.command("swap", "-s", SOURCE, "-t", target, "-o", bench.folder / "out.mkv")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1
    assert "boom" in ended.err
    assert tree(bench.folder) == []


def patches(change: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[Any, int, tuple[Any, ...]], Any]:
    """A swapper whose third answer is spoiled."""

    def act(model: Any, calls: int, args: tuple[Any, ...]) -> Any:
        made = model(*args)
        return [Patch(change(np.array(p.rgb)), p.mask) for p in made] if calls >= 2 else made

    return act


def holed(value: float) -> Callable[[np.ndarray[Any, Any]], Any]:
    def change(rgb: np.ndarray[Any, Any]) -> Any:
        rgb[rgb.shape[0] // 2, rgb.shape[1] // 2] = value
        return rgb

    return change


SPOILED = {
    "NaN": holed(float("nan")),
    "infinity": holed(float("inf")),
    "another size": lambda rgb: rgb[:-1],
    "another type": lambda rgb: (rgb * 255).astype(np.int64),
    "two channels": lambda rgb: rgb[..., :2],
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_swapper_that_breaks_its_word_is_one_error(bench: Bench, tmp_path: Path, kind: str) -> None:
    target = film(tmp_path / "in.mp4", pts=range(6))
    refuses(bench, target, BrokenZoo(bench.zoo, "swapper", patches(SPOILED[kind])), ModelError)


def test_a_swapper_that_gives_too_few_faces_is_one_error(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(4))
    refuses(bench, target, BrokenZoo(bench.zoo, "swapper", lambda model, calls, args: model(*args)[:-1]), ModelError)


@pytest.mark.parametrize("network", ["yunet", "mesh478", "mobilefacenet", "occluder"])
def test_a_network_that_gives_nan_is_one_error(bench: Bench, tmp_path: Path, network: str) -> None:
    target = film(tmp_path / "in.mp4", pts=range(18))  # the detector looks at every sixth
    refuses(bench, target, device_zoo(SmallDevice(nan=network)), ModelError, network)


@pytest.mark.parametrize("task", ["landmarker", "masker", "swapper"])
def test_a_model_that_hangs_ends_the_run(bench: Bench, tmp_path: Path, task: Task) -> None:
    target = film(tmp_path / "in.mp4", pts=range(6))

    def hang(model: Any, calls: int, args: tuple[Any, ...]) -> Any:
        if calls >= 2:
            zoo.cancelled.wait(60)
            raise RuntimeError("was cancelled")
        return model(*args)

    zoo = BrokenZoo(bench.zoo, task, hang)
    started = time.monotonic()
    refuses(bench, target, zoo, PipelineError, "model-timeout", model_timeout=1.5)
    assert time.monotonic() - started < 20
    assert zoo.cancelled.is_set()


def test_a_slow_model_is_not_hung(bench: Bench, tmp_path: Path) -> None:
    def slow(model: Any, calls: int, args: tuple[Any, ...]) -> Any:
        time.sleep(0.3)
        return model(*args)

    target = film(tmp_path / "in.mp4", pts=range(6))
    report = mien.swap(bench.person, target, bench.folder / "out.mkv", zoo=BrokenZoo(bench.zoo, "swapper", slow),
                       encoder="ffv1", model_timeout=5.0)  # fmt: skip
    assert report.frames == 6
    assert look(bench.folder / "out.mkv").numbers == list(range(6))


@pytest.mark.parametrize("damage", ["cut", "one bit", "text", "missing"])
def test_corrupt_weights_are_one_error_that_names_the_file(
    bench: Bench, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mien.zoo.cards as cards

    folder = tmp_path / "mien"
    shutil.copytree(cards.Weights("x", "", 0).path.parent, folder / "weights")
    file = folder / "weights" / "mesh478.onnx"
    if damage == "missing":
        file.unlink()
    else:
        data = file.read_bytes()
        bit = bytearray(data)
        bit[len(bit) // 2] ^= 1
        file.write_bytes({"cut": data[: len(data) // 2], "one bit": bytes(bit), "text": b"not a network"}[damage])
    monkeypatch.setattr(cards, "files", lambda package: folder)
    monkeypatch.setattr("mien.api.Zoo.of", lambda options: Zoo(options.device))
    target = film(tmp_path / "in.mp4", pts=range(2))
    bench.fails(target, "mesh478.onnx", flags=("--device", "cpu"))


def device_zoo(device: SmallDevice, fallback: Any = "none") -> Zoo:
    zoo = Zoo("cpu")
    zoo._runtime = Runtime("cpu", fallback, device.open)
    return zoo


def test_a_device_with_too_little_memory_for_a_batch_does_it_in_parts(bench: Bench, tmp_path: Path) -> None:
    """The same pixels as with enough memory, and the report says what happened."""
    from PIL import Image

    from tests.corpus.crowd import grid

    Image.fromarray(grid(6, side=96)[0]).save(tmp_path / "in.png")
    wanted = bench.swap(tmp_path / "in.png", "wanted.png")
    device = SmallDevice(room=1)
    report = mien.swap(bench.person, tmp_path / "in.png", bench.folder / "out.png", zoo=device_zoo(device))
    assert device.refused > 0
    with Image.open(wanted) as a, Image.open(bench.folder / "out.png") as b:
        off = np.abs(np.asarray(a).astype(int) - np.asarray(b))
    assert off.max() <= 2
    assert off.mean() < 0.01
    assert any("out of memory" in note for note in report.notes), report.notes


def test_a_device_without_memory_for_one_face_is_one_error(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(3))
    refuses(bench, target, device_zoo(SmallDevice(room=0)), DeviceError, "out of memory")


def test_no_memory_left_in_the_process_is_one_error(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(model: Any, calls: int, args: tuple[Any, ...]) -> Any:
        raise MemoryError

    zoo = BrokenZoo(bench.zoo, "swapper", full)
    monkeypatch.setattr("mien.api.Zoo.of", lambda options: zoo)
    error = bench.fails(film(tmp_path / "in.mp4", pts=range(3)), name="out.mkv")
    assert "memory" in error


def test_a_target_that_changes_while_it_is_read_is_one_error(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mkv", pts=range(12))
    shorter = film(tmp_path / "shorter.mkv", pts=range(5))

    def replace_target(progress: mien.Progress) -> None:
        if progress.phase == "analyze" and progress.done == 12:
            shutil.copy(shorter, tmp_path / "new.mkv")
            (tmp_path / "new.mkv").replace(target)

    with pytest.raises(MienError, match=r"in\.mkv"):
        mien.swap(bench.person, target, bench.folder / "out.mkv", zoo=bench.zoo, progress=replace_target)
    assert tree(bench.folder) == []


def test_a_size_that_changes_in_the_middle_is_right_or_an_error(bench: Bench, tmp_path: Path) -> None:
    """Two clips of two sizes, one after the other in a transport stream."""
    from functools import partial

    from tests.corpus.scene import scene

    first = film(tmp_path / "1.ts", pts=range(10), codec="mpeg2video", options={"b": "4000000"})
    second = film(tmp_path / "2.ts", pts=range(10, 20), codec="mpeg2video", options={"b": "4000000"},
                  draw=partial(scene, width=480, height=360))  # fmt: skip
    target = tmp_path / "in.ts"
    target.write_bytes(first.read_bytes() + second.read_bytes())
    ended = bench.command("swap", "-s", SOURCE, "-t", target, "-o", bench.folder / "out.mkv", "--encoder", "ffv1")
    assert ended.code in (0, 1), ended
    if ended.code:
        assert "in.ts" in ended.err
        assert "unexpected" not in ended.err
        assert tree(bench.folder) == []
    else:
        made = look(bench.folder / "out.mkv", numbers=False)
        assert (made.width, made.height) == (320, 240)
        assert len(made.shots) >= 18
        assert "note" in ended.out


def test_the_target_is_never_touched(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(4), audio=("aac",))
    before, stat = digest(target), target.stat()
    made = bench.swap(target)
    assert digest(target) == before
    assert target.stat().st_mtime_ns == stat.st_mtime_ns
    assert_untouched(look(target), look(made))
    assert tree(tmp_path) == ["in.mp4", "out", "out/out.mkv"]


def test_an_output_error_is_an_oserror_for_those_who_catch_that(bench: Bench, tmp_path: Path) -> None:
    target = film(tmp_path / "in.mp4", pts=range(2))
    with pytest.raises(OSError, match=r"none/out\.mkv") as caught:
        mien.swap(bench.person, target, bench.folder / "none" / "out.mkv", zoo=bench.zoo)
    assert isinstance(caught.value, OutputError)
