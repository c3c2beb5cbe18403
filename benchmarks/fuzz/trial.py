"""One case, run with the real library, and its judgement."""

from __future__ import annotations

import json
import re
import threading
import time
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import av
from PIL import Image

import mien
from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.seeds import JOURNAL_OUTPUT, JOURNAL_TARGET
from mien.media import IMAGE_EXTENSIONS, probe

Verdict = Literal["ok", "unexpected", "unclear", "ruined", "left over", "chatter", "crash", "hang", "growth"]
_CRASH_LIKE = re.compile(
    r"Traceback|unexpected|object has no attribute|NoneType|object at 0x|\[Errno|avcodec_|av_\w+\(|returned -?\d"
    r"|0 retries|not subscriptable|positional argument|broadcast|out of bounds|check the disk"
)
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended."""

    verdict: Verdict
    result: str
    """`success`, or the name of the error."""
    text: str = ""
    """The error's text, or what is wrong."""
    cpu: float = 0.0
    """Seconds."""


class Flaw(Exception):
    """What must not happen: verdict and text."""

    def __init__(self, verdict: Verdict, text: str) -> None:
        super().__init__(text)
        self.verdict: Verdict = verdict


class Bench:
    """What all cases of a process share: models, a person, an undamaged photo.

    Args:
        seeds: folder of `make_seeds`.
    """

    def __init__(self, seeds: Path) -> None:
        self.zoo = mien.Zoo("cpu")
        self.person = mien.Identity.load(seeds / "person.npz")
        self.seeds, self.clean = seeds, seeds / "clean.png"

    def run(self, case: Case, data: bytes, folder: Path, stderr: Path) -> Outcome:
        """Run a case in a folder of its own, which must be empty.

        Args:
            stderr: the file that this process's standard error goes to.
        """
        started, told = time.process_time(), stderr.stat().st_size
        path = folder / case.file
        path.write_bytes(data)
        result, text = "success", ""
        verdict: Verdict = "ok"
        made = {case.file}
        try:
            with _crashes():
                try:
                    self._act(case, path, folder / case.output)
                except mien.MienError as error:
                    result, text = type(error).__name__, str(error)
                    judge_text(text, folder)
            if result == "success" and case.role != "analysis":
                made.add(case.output)
            if case.role == "journal":
                made.add(JOURNAL_TARGET)
                # Work that another run can use, or that is not mien's, stays, and the error tells what to do about it.
                if "--resume" in text or f"{case.output}.mien" in text:
                    made.add(f"{case.output}.mien")
            _judge_folder(folder, made)
            _judge_chatter(stderr, told)
        except Flaw as flaw:
            verdict, text = flaw.verdict, f"{flaw} ({text})" if text and text not in str(flaw) else str(flaw)
        finally:
            for left in folder.iterdir():
                remove(left)
        return Outcome(verdict, result, text, round(time.process_time() - started, 3))

    def _act(self, case: Case, path: Path, output: Path) -> None:
        if case.role == "analysis":
            with mien.Analysis.load(path) as analysis:
                json.dumps(analysis.to_dict())
        elif case.role == "identity":
            person = mien.Identity.load(path)
            self._swap(case, person, self.clean, output)
        elif case.role == "journal":
            self._resume(case, path, output)
        elif case.role == "source":
            probe(path)
            self._swap(case, path, self.clean, output)
        else:
            probe(path)
            self._swap(case, self.person, path, output)

    def _resume(self, case: Case, path: Path, output: Path) -> None:
        target = path.with_name(JOURNAL_TARGET)
        target.write_bytes((self.seeds / JOURNAL_TARGET).read_bytes())
        work = output.with_name(f"{output.name}.mien")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(work)
        self._swap(case, self.person, target, output)
        if output.read_bytes() != (self.seeds / JOURNAL_OUTPUT).read_bytes():
            raise Flaw("ruined", "the output differs from that of a run without an interruption")

    def _swap(self, case: Case, source: Path | mien.Identity, target: Path, output: Path) -> None:
        report = mien.swap(source, target, output, zoo=self.zoo, **case.options)
        info = probe(target)
        scale = case.options.get("scale")
        width, height = (int(side) for side in scale.split("x")) if scale else (info.width, info.height)
        judge_output(output, report, (width, height))


def judge_text(text: str, folder: Path) -> None:
    """An error is one short line that names the file and reads like no crash.

    Raises:
        Flaw: it is not.
    """
    if "\n" in text.strip() or len(text) > _LONGEST:
        raise Flaw("unclear", f"more than one short line: {text[:_LONGEST]!r}")
    if str(folder) not in text:
        raise Flaw("unclear", f"names no file: {text}")
    if found := _CRASH_LIKE.search(text):
        raise Flaw("unclear", f"reads like a crash ({found[0]!r}): {text}")


def judge_output(output: Path, report: mien.Report, size: tuple[int, int]) -> None:
    """The output decodes without an error, with the frames reported and this size, stored upright or turned.

    Raises:
        Flaw: it does not.
    """
    try:
        frames, found = _photo(output) if output.suffix in IMAGE_EXTENSIONS else _video(output)
    except (av.error.FFmpegError, OSError, ValueError, SyntaxError) as error:
        raise Flaw("ruined", f"the output does not decode: {error!r}") from error
    if frames != report.frames:
        raise Flaw("ruined", f"the output holds {frames} frames, {report.frames} were reported")
    if found not in (size, size[::-1]):
        raise Flaw("ruined", f"the output is {found[0]}×{found[1]}, not {size[0]}×{size[1]}")


def _photo(path: Path) -> tuple[int, tuple[int, int]]:
    if path.suffix == ".heic":
        from pillow_heif import register_heif_opener

        register_heif_opener()
    with Image.open(path) as image:
        count = getattr(image, "n_frames", 1)
        for i in range(count):
            image.seek(i)
            image.load()
        return count, image.size


def _video(path: Path) -> tuple[int, tuple[int, int]]:
    """Frames and size as stored; every packet is read, and times go up."""
    last, count, size = None, 0, (0, 0)
    with av.open(str(path)) as container:
        for packet in container.demux():
            if not isinstance(packet.stream, av.VideoStream):
                continue
            for frame in packet.decode():
                if not isinstance(frame, av.VideoFrame):
                    continue
                if last is not None and frame.pts is not None and frame.pts <= last:
                    raise ValueError(f"time {frame.pts} after {last}")
                last, count, size = frame.pts, count + 1, (frame.width, frame.height)
    return count, size


@contextmanager
def _crashes() -> Iterator[None]:
    threads = threading.active_count()
    try:
        yield
    except Flaw:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise Flaw("unexpected", f"{type(error).__name__}: {error} at {place}") from error
    if threading.active_count() > threads:
        raise Flaw("left over", f"threads: {', '.join(t.name for t in threading.enumerate())}")


def _judge_folder(folder: Path, expected: set[str]) -> None:
    there = {path.name for path in folder.iterdir()}
    if there != expected:
        raise Flaw("left over", f"in the folder: {', '.join(sorted(there))}; expected: {', '.join(sorted(expected))}")


def _judge_chatter(stderr: Path, told: int) -> None:
    with stderr.open("rb") as file:
        file.seek(told)
        if text := file.read(100_000).decode(errors="replace"):
            lines = dict.fromkeys(line.strip() for line in text.splitlines())
            raise Flaw("chatter", " | ".join(lines)[:_LONGEST])


def remove(path: Path) -> None:
    if path.is_dir():
        for inner in path.iterdir():
            remove(inner)
        path.rmdir()
    else:
        path.unlink()
