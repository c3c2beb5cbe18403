"""The engine with models that cost nothing, against plain decoding and encoding: `python -m benchmarks host`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.clips import SOURCE, clip, large_photo
from benchmarks.pairs import Cost, Spread, Table, in_turn, ratios, run_pass

SIZES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"360p": (640, 360), "720p": (1280, 720), "1080p": (1920, 1080), "4K": (3840, 2160)}
)


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of work."""

    name: str
    size: str
    faces: int
    frames: int
    large_source: bool = False
    swapper: int = 0
    """Side of the aligned square that the swapper asks for; 0: boxes at the frame's own resolution."""
    options: Mapping[str, Any] = field(default_factory=dict)


CASES = (
    Case("720p, 1 face", "720p", 1, 150),
    Case("720p, 5 faces", "720p", 5, 150),
    Case("1080p, 1 face", "1080p", 1, 100),
    Case("1080p, 5 faces", "1080p", 5, 100),
    Case("4K, 1 face", "4K", 1, 50),
    Case("4K, 5 faces", "4K", 5, 50),
    Case("1080p, 12 MP source", "1080p", 1, 100, large_source=True),
    Case("1080p, squares of 1,024", "1080p", 1, 100, swapper=256, options={"pixel_boost": 4}),
    Case("1080p, 50 faces", "1080p", 50, 50),
)


def measure(case: Case, folder: Path, rounds: int, frames: int | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """One row: limit and engine in turn, each time in a process of its own."""
    target = clip(folder, SIZES[case.size], case.faces, frames or case.frames)
    output, recording = folder / "out.mp4", folder / "recording"
    chosen = {**options, **case.options}
    swap: dict[str, Any] = {
        "clip": str(target),
        "source": str(large_photo(folder) if case.large_source else SOURCE),
        "output": str(output),
        "recording": str(recording),
        "size": case.swapper,
        "options": chosen,
    }
    recorded = run_pass("record", **swap)

    def limit() -> Cost:
        return run_pass("limit", clip=str(target), output=str(output), options=chosen)

    costs = in_turn({"limit": limit, "engine": lambda: run_pass("engine", **swap)}, rounds)
    return row(case.name, recorded["faces"], costs["limit"], costs["engine"])


def row(name: str, faces: int, limits: list[Cost], engines: list[Cost]) -> dict[str, Any]:
    """The figures of one case. `steady` leaves out what is done once for a source, however long the clip."""
    steady = [{"seconds": cost["seconds"] - cost["timings"].get("identity", 0.0)} for cost in engines]
    return {
        "case": name,
        "faces": faces,
        "limit, fps": Spread.of([cost["frames"] / cost["seconds"] for cost in limits]),
        "engine, fps": Spread.of([cost["frames"] / cost["seconds"] for cost in engines]),
        "ratio": ratios(limits, engines),
        "steady ratio": ratios(limits, steady),
        "limit, CPU ms a frame": Spread.of([1000 * cost["cpu"] / cost["frames"] for cost in limits]),
        "engine, CPU ms a frame": Spread.of([1000 * cost["cpu"] / cost["frames"] for cost in engines]),
        "limit, peak MB": round(max(cost["peak_mb"] for cost in limits)),
        "engine, peak MB": round(max(cost["peak_mb"] for cost in engines)),
        "busy ms a frame": stages(engines),
    }


def stages(costs: list[Cost]) -> str:
    """Busy milliseconds a frame of each stage, in words; of the run in the middle."""
    cost = sorted(costs, key=lambda each: each["seconds"])[len(costs) // 2]
    return ", ".join(f"{name} {1000 * seconds / cost['frames']:.1f}" for name, seconds in cost["timings"].items())


def tables(folder: Path, rounds: int, frames: int | None, only: str, options: Mapping[str, Any]) -> dict[str, Table]:
    """All cases whose names hold `only`."""
    rows = [measure(case, folder, rounds, frames, options) for case in CASES if only in case.name]
    return {"host": rows}
