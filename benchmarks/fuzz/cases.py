"""Cases: which file is damaged how, and what is done with it. All of a case follows from its two numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz.mutate import mutate, mutate_member
from benchmarks.fuzz.seeds import JOURNAL_OPTIONS, all_seeds

_OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "image": (".png", ".jpg", ".webp", ".tiff", ".bmp", ".gif", ".avif", ".heic"),
    "video": (".mp4", ".mov", ".mkv", ".webm", ".mp4", ".mkv", ".gif", ".png", ".webp"),
    "analysis": (".json",),
    "identity": (".png",),
    "journal": (".mp4",),
}
_LIMITS: Mapping[str, Any] = {"preset": "ultrafast", "max_pixels": 4_000_000, "max_duration": 60}
"""What an operator of a service would set, and the fastest encoding."""
_VARIANTS: tuple[Mapping[str, Any], ...] = (
    {"trim": "0.04-"},
    {"fps": "50"},
    {"fps": "10"},
    {"max_seconds": 0.08},
    {"scale": "64x48"},
)


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged file and what is done with it."""

    name: str
    """`SEED:NUMBER`, from which `case` makes it again."""
    role: str
    """What the file is used as: target, source, analysis, identity or journal (the work of an interrupted run)."""
    file: str
    """Name of the damaged file; also of its seed."""
    output: str
    options: Mapping[str, Any]


def case(name: str) -> Case:
    """The case of this name.

    Raises:
        ValueError: the name is not SEED:NUMBER.
    """
    seed, number = (int(part) for part in name.split(":"))
    rng = Random(f"mien {seed} {number}")
    chosen = rng.choice(all_seeds())
    moving = chosen.file_is_animation
    kind = rng.choice(("image", "video")) if moving else chosen.kind
    role = "target" if chosen.kind in ("image", "video") else chosen.kind
    output = "out" + rng.choice(_OUTPUTS[kind])
    options = dict(_LIMITS)
    if role == "target" and chosen.kind == "image" and rng.random() < 0.15:
        role = "source"
        output = "out.png"
    elif chosen.kind == "video" and rng.random() < 0.25:
        options |= rng.choice(_VARIANTS)
    elif role == "journal":
        options = {**JOURNAL_OPTIONS, "resume": True}
    return Case(name, role, chosen.name, output, options)


def damaged(case: Case, seeds: Path) -> bytes:
    """The case's file.

    Args:
        seeds: folder of `make_seeds`.
    """
    rng = Random(f"mien damage {case.name}")
    donor = (seeds / rng.choice(all_seeds()).name).read_bytes()
    data = (seeds / case.file).read_bytes()
    return mutate_member(data, rng, donor, drop=0.1) if case.role == "journal" else mutate(data, rng, donor)


def save(case: Case, data: bytes, folder: Path, findings: Mapping[str, Any]) -> Path:
    """Keep a case with its file and what was found, so that it can be repeated as it was."""
    folder = folder / case.name.replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / case.file).write_bytes(data)
    told = folder / "case.json"
    told.write_text(json.dumps({"case": asdict(case), **findings}, indent=2))
    return told


def load(told: Path) -> tuple[Case, bytes]:
    """A case that `save` kept, and its file."""
    made = Case(**json.loads(told.read_text())["case"])
    return made, (told.parent / made.file).read_bytes()
