"""What `benchmarks.gpu` measures with: memory, rates, clips, verdicts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import av
import cv2
import numpy as np

SAMPLE = 0.1
"""Seconds between two looks at memory and load."""


class Meter(Protocol):
    """Where memory and load are read."""

    @property
    def used(self) -> int | None:
        """Bytes in use."""

    @property
    def load(self) -> int | None:
        """Percent."""


class ProcessMeter:
    """This process's memory in place of a GPU's, for dry runs."""

    @property
    def used(self) -> int | None:
        """Bytes."""
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return None

    @property
    def load(self) -> int | None:
        """Not known."""
        return None


class Watch:
    """Looks at a meter from a thread while it is entered."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._stop = meter, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.times: list[float] = []
        self.used: list[int] = []
        self.loads: list[int] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            used, load = self._meter.used, self._meter.load
            if used is not None:
                self.times.append(time.perf_counter())
                self.used.append(used)
            if load is not None:
                self.loads.append(load)
            if self._stop.wait(SAMPLE):
                return

    @property
    def peak(self) -> int | None:
        """Most bytes that were in use."""
        return max(self.used, default=None)

    @property
    def load(self) -> float | None:
        """Mean percent."""
        return float(np.mean(self.loads)) if self.loads else None

    @property
    def growth(self) -> float | None:
        """MB an hour: the slope of a straight line through all looks, extrapolated."""
        if len(self.used) < 3:
            return None
        hours = (np.array(self.times) - self.times[0]) / 3600
        return float(np.polyfit(hours, np.array(self.used) / 1e6, 1)[0])


def rate(call: Callable[[], object], items: int, seconds: float) -> float:
    """Items a second of a call that handles so many, once it is warm."""
    for _ in range(2):
        call()
    started, runs = time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - started < seconds:
        call()
        runs += 1
    return items * runs / (time.perf_counter() - started)


def rate_of_many(calls: Sequence[Callable[[], object]], items: int, seconds: float) -> float:
    """Items a second of several calls at the same time, each from a thread of its own."""
    for call in calls:
        call()
    counts = [0] * len(calls)
    begin, end = threading.Barrier(len(calls) + 1), [0.0]

    def work(place: int) -> None:
        begin.wait()
        while time.perf_counter() < end[0] or counts[place] < 2:
            calls[place]()
            counts[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    end[0] = started + seconds
    begin.wait()
    for thread in threads:
        thread.join()
    return items * sum(counts) / (time.perf_counter() - started)


def write_clip(photo: Path, path: Path, width: int, height: int, frames: int) -> None:
    """A clip of a photo that moves over a grey ground, its height half of the picture's, at 30 frames a second."""
    image = cv2.imread(str(photo))
    assert image is not None, photo
    side = height // 2
    small = cv2.resize(image, (max(2, image.shape[1] * side // image.shape[0]), side), interpolation=cv2.INTER_AREA)
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(frames):
            canvas = np.full((height, width, 3), 110, np.uint8)
            x = round((width - small.shape[1]) * (0.5 + 0.3 * np.sin(index / 20)))
            y = round((height - side) * (0.5 + 0.2 * np.cos(index / 15)))
            canvas[y : y + side, x : x + small.shape[1]] = small
            frame = av.VideoFrame.from_ndarray(canvas, format="bgr24").reformat(format="yuv420p")
            frame.pts = index
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal, what was found, and whether it was reached; None where it was not measured."""

    goal: str
    found: str
    passed: bool | None

    @property
    def word(self) -> str:
        """In a word."""
        return "not measured" if self.passed is None else "pass" if self.passed else "FAIL"


@dataclass(slots=True)
class Results:
    """Everything that was measured, for the report."""

    machine: str
    rates: dict[str, dict[int, float]] = field(default_factory=dict)
    """Faces a second by batch, by what was run."""
    others: dict[str, dict[int, float]] = field(default_factory=dict)
    """The same of other networks."""
    streams: dict[int, float] = field(default_factory=dict)
    """Faces a second by number of sessions at the same time."""
    memory: list[int] = field(default_factory=list)
    """Bytes that each further instance of the swap network takes."""
    together: int | None = None
    """Bytes that all of them take, with what CUDA takes for itself."""
    fps: dict[str, float] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    """Milliseconds of one frame alone, median."""
    loads: dict[str, float] = field(default_factory=dict)
    """Percent of the time in which the GPU was at work."""
    peaks: dict[str, int] = field(default_factory=dict)
    """Most bytes of device memory in use."""
    growth: float | None = None
    growth_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def verdicts(results: Results) -> list[Verdict]:
    """The goals, each with what was found."""
    slow = {name: value for name, value in results.latency.items() if value > 80}
    shown = ", ".join(f"{name} {value:.1f} ms" for name, value in results.latency.items())
    made = [
        Verdict("a frame alone takes 20–80 ms end to end, or less", shown or "-", not slow if results.latency else None)
    ]
    for name in ("720p", "1080p"):
        fps = results.fps.get(name)
        made.append(
            Verdict(f"{name} ≥ 30 frames/s", "-" if fps is None else f"{fps:.1f}", None if fps is None else fps >= 30)
        )
    made += [_batches(results.rates), *_memory(results.memory, results.together)]
    growth = results.growth
    made.append(
        Verdict(
            "device memory grows < 5 MB/h",
            "-" if growth is None else f"{growth:+.1f} MB/h, extrapolated from {results.growth_seconds:.0f} s",
            None if growth is None else growth < 5,
        )
    )
    return made


def _batches(rates: Mapping[str, Mapping[int, float]]) -> Verdict:
    """Of the fastest way, every batch from 4 on against 1."""
    goal = "batches of 4–16 are faster per face than 1"
    whole = {name: found for name, found in rates.items() if 1 in found and any(size >= 4 for size in found)}
    if not whole:
        return Verdict(goal, "-", None)
    name = max(whole, key=lambda each: max(whole[each].values()))
    found = whole[name]
    large = {size: rate for size, rate in found.items() if size >= 4}
    shown = ", ".join(f"{size}: {rate:.1f}" for size, rate in found.items())
    return Verdict(goal, f"{name}, faces/s by batch: {shown}", all(rate > found[1] for rate in large.values()))


def _memory(memory: Sequence[int], together: int | None) -> list[Verdict]:
    each = ", ".join(f"{size / 1e9:.2f} GB" for size in memory) or "-"
    whole = "-" if together is None else f"{together / 1e9:.2f} GB for {len(memory)}"
    fits = together <= 24e9 if together is not None and len(memory) == 3 else None
    return [
        Verdict("the swap network takes ≤ 3 GB per instance", each, max(memory) <= 3e9 if memory else None),
        Verdict("2–3 instances fit into 24 GB", whole, fits),
    ]


def report(results: Results, judged: Sequence[Verdict], seconds: float) -> str:
    """All of it as Markdown."""
    lines = [
        "# GPU",
        "",
        f"{results.machine}.",
        f"Measured in {seconds:.0f} s by `python -m benchmarks.gpu` with the networks of `benchmarks.standins`: sizes,",
        "structures and costs of the public files, random weights.",
        "",
        "| goal | measured | |",
        "|---|---|---|",
        *(f"| {each.goal} | {each.found} | {each.word} |" for each in judged),
        "",
    ]
    lines += _table("faces/s of the swap network by batch", results.rates)
    lines += _table("items/s of other networks by batch, through files as they are prepared", results.others)
    if results.streams:
        lines += _table("faces/s of several sessions at the same time, batch 4", {"sessions": results.streams})
    if results.fps:
        lines += [
            "| video, one face | frames/s | one frame alone | GPU at work | peak device memory |",
            "|---|---|---|---|---|",
        ]
        for name, fps in results.fps.items():
            load, peak = results.loads.get(name), results.peaks.get(name)
            cells = [
                f"{fps:.1f}",
                f"{results.latency[name]:.1f} ms" if name in results.latency else "-",
                "-" if load is None else f"{load:.0f} %",
                "-" if peak is None else f"{peak / 1e9:.2f} GB",
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    lines += [f"- {note}" for note in results.notes]
    return "\n".join(lines).rstrip() + "\n"


def _table(title: str, rows: Mapping[str, Mapping[int, float]]) -> list[str]:
    sizes = sorted({size for row in rows.values() for size in row})
    if not sizes:
        return []
    lines = [f"| {title} | {' | '.join(map(str, sizes))} |", "|---|" + "---|" * len(sizes)]
    for name, row in rows.items():
        cells = [f"{row[size]:.1f}" if size in row else "-" for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]
