"""The jobs of `benchmarks.soak`, and what is measured between them."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import mien
from benchmarks.fuzz import cases, trial
from benchmarks.fuzz.seeds import make_seeds
from mien.media import open_reader
from mien.options import SwapOptions

Job: TypeAlias = Callable[[], Path | None]
"""Gives the output, whose bytes must be the same in each cycle."""
_DIE_WITH_PARENT = 1
_RANDOM = 4
_PHOTOS = (
    ("plain.jpg", ".jpg"), ("tagged.jpg", ".png"), ("deep.png", ".tiff"), ("alpha.png", ".webp"),
    ("plain.heic", ".jpg"), ("plain.avif", ".avif"), ("cmyk.jpg", ".heic"),
)  # fmt: skip
_CLIPS = (
    ("h264.mp4", ".mp4"), ("prores.mov", ".mov"), ("ffv1.mkv", ".mkv"), ("vp8.webm", ".webm"), ("hevc.mp4", ".mkv"),
    ("h264.ts", ".mp4"), ("moving.gif", ".mp4"),
)  # fmt: skip


class Cancelled(Exception):
    """What a callback of ours raises to end a run."""


class Jobs:
    """All jobs, in a folder of their own, with one set of models.

    Args:
        hashes: of outputs by job, filled in as they are first made.
    """

    def __init__(self, folder: Path, hashes: dict[str, str]) -> None:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        self._seeds, self._work, self._hashes = folder / "seeds", folder / "work", hashes
        self._temporary = folder / "tmp"
        for made in (self._work, self._temporary):
            made.mkdir(parents=True, exist_ok=True)
            _empty(made)
        tempfile.tempdir = str(self._temporary)
        make_seeds(self._seeds)
        self._bench = trial.Bench(self._seeds)
        self._zoo, self._person = self._bench.zoo, self._bench.person

    def cycle(self, number: int) -> Iterator[tuple[str, Job]]:
        """Name and call of each job."""
        for name, suffix in (*_PHOTOS, *_CLIPS):
            yield f"swap {name} to {suffix}", partial(self._swap, name, suffix)
        yield "identity", self._identity
        yield "analysis", self._analysis
        for phase in ("analyze", "render"):
            yield f"cancel in {phase}", partial(self._cancel, phase)
        yield "close early", self._close
        yield "resume", self._resume
        for name in ("nothing", "empty.mp4", "text.mp4", "cut.mp4", "cut.jpg", "no-face.png"):
            yield f"refuse {name}", partial(self._refuse, name)
        for place in range(_RANDOM):
            yield "damaged file", partial(self._damaged, f"9:{number * _RANDOM + place}")

    def run(self, name: str, job: Job) -> str:
        """What went wrong; empty if nothing did."""
        try:
            output = job()
            if output is None:
                digest = ""
            else:
                digest = hashlib.sha256(output.read_bytes()).hexdigest()
                output.unlink()
            left = [path.name for folder in (self._work, self._temporary) for path in folder.iterdir()]
            if left:
                return f"left over: {', '.join(left)}"
            if self._hashes.setdefault(name, digest) != digest:
                return "other bytes than in the first cycle"
        except Exception as error:  # each failure is noted, and the run goes on
            return f"{type(error).__name__}: {error}"
        finally:
            _empty(self._work)
        return ""

    def _swap(self, name: str, suffix: str) -> Path:
        output = self._work / f"out{suffix}"
        mien.swap(self._person, self._seeds / name, output, zoo=self._zoo, preset="ultrafast")
        return output

    def _identity(self) -> Path:
        output = self._work / "person.npz"
        made = mien.Identity.from_images([self._seeds / "plain.png", self._seeds / "plain.jpg"], zoo=self._zoo)
        made.save(output)
        if mien.cosine_similarity(mien.Identity.load(output), made) < 0.999:
            raise ValueError("the loaded identity is another one")
        return output

    def _analysis(self) -> Path:
        output = self._work / "clip.analysis"
        with mien.analyze(self._seeds / "h264.mp4", zoo=self._zoo) as analysis:
            analysis.save(output)
            told = analysis.to_dict()
        with mien.Analysis.load(output) as loaded:
            if loaded.to_dict() != told:
                raise ValueError("the loaded analysis is another one")
        return output

    def _cancel(self, phase: str) -> None:
        def stop(progress: mien.Progress) -> None:
            if progress.phase == phase and progress.done == 2:
                raise Cancelled

        try:
            mien.swap(
                self._person, self._seeds / "h264.mp4", self._work / "out.mp4", zoo=self._zoo, progress=stop
            )  # fmt: skip
        except Cancelled:
            return
        raise ValueError("the run was not cancelled")

    def _close(self) -> None:
        pipeline = mien.Pipeline(SwapOptions(), self._zoo, self._person.data)
        with open_reader(self._seeds / "h264.mp4") as reader, closing(pipeline.run(reader)) as run:
            next(run)

    def _resume(self) -> Path:
        output = self._work / "out.mp4"
        options: dict[str, Any] = {"segment_frames": 1, "preset": "ultrafast"}

        def interrupt(progress: mien.Progress) -> None:
            if progress.phase == "render" and progress.done == 3:
                raise KeyboardInterrupt

        try:
            mien.swap(
                self._person, self._seeds / "h264.mp4", output, zoo=self._zoo, progress=interrupt, **options
            )  # fmt: skip
        except KeyboardInterrupt:
            mien.swap(self._person, self._seeds / "h264.mp4", output, zoo=self._zoo, resume=True, **options)
            return output
        raise ValueError("the run was not interrupted")

    def _refuse(self, name: str) -> None:
        made = {
            "empty.mp4": b"",
            "text.mp4": b"This is no video.\n" * 50,
            "cut.mp4": (self._seeds / "h264.mp4").read_bytes()[:2000],
            "cut.jpg": (self._seeds / "plain.jpg").read_bytes()[:1500],
        }
        path = self._work / name
        if name in made:
            path.write_bytes(made[name])
        elif name == "no-face.png":
            from PIL import Image

            Image.new("RGB", (96, 96), (90, 120, 60)).save(path)
        try:
            mien.swap(self._person, path, self._work / f"out{path.suffix or '.mp4'}", zoo=self._zoo)
        except mien.MienError as error:
            trial.judge_text(str(error), self._work)
            path.unlink(missing_ok=True)
            return
        raise ValueError("it was accepted")

    def _damaged(self, name: str) -> None:
        case = cases.case(name)
        data = cases.damaged(case, self._seeds)
        outcome = self._bench.run(case, data, self._work, Path(os.readlink("/proc/self/fd/2")))
        if outcome.verdict != "ok":
            raise ValueError(f"{name} {outcome.verdict}: {outcome.text}")


def measure() -> dict[str, float]:
    """Resident MB, open files and threads, with nothing in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    rss = pages * os.sysconf("SC_PAGESIZE") / 1e6
    return {"rss": round(rss, 2), "handles": len(os.listdir("/proc/self/fd")), "threads": threading.active_count()}


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        trial.remove(path)
