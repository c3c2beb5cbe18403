"""The journal of a long output: what it is made from, and which segments of it are closed."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mien.errors import OutputError
from mien.media.work import sync_folder

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """One closed segment."""

    number: int
    sha256: str
    """Of its file of packets."""
    last_frame: int
    """Index in the clip of its last frame."""
    source_pts: int
    """That frame's time as it was read, in ticks."""
    last_pts: int
    """That frame's time as it was written, in ticks."""
    lag: int
    """Ticks by which its packets' presentation lags behind their order (see `segments.decode_times`)."""
    moved: int
    """Frames of the whole clip, up to its end, whose time was moved on."""
    setup: Mapping[str, Any]
    """The encoder's; the same for all segments."""
    state: str
    """sha256 of what the caller keeps of the frames up to its end."""
    notes: Sequence[str]
    """What the encoder cannot keep, in words."""


class Journal:
    """A file of JSON lines: a header, then a line for each closed segment, on the disk before `append` returns."""

    def __init__(self, path: Path, segments: Sequence[Segment]) -> None:
        self.path, self.segments = path, list(segments)

    @classmethod
    def create(cls, path: Path, header: Mapping[str, Any]) -> Journal:
        """Begin a journal. What the header tells is what a later run must have in common with this one."""
        _write(path, "wb", [{"format": FORMAT, **header}])
        sync_folder(path.parent)
        return cls(path, [])

    @classmethod
    def load(cls, path: Path, output: Path, header: Mapping[str, Any]) -> Journal:
        """Open the journal of an interrupted run; a line that was cut off is forgotten.

        Raises:
            OutputError: it is not of the run that the header describes, or not a journal.
        """
        lines = _lines(path)
        if not lines:
            raise OutputError(f"{output}: {path} is not a whole journal; run again without --resume to start anew")
        _check(lines[0], {"format": FORMAT, **header}, output)
        segments: list[Segment] = []
        for line in lines[1:]:
            try:
                segment = Segment(**line)
            except TypeError:
                break
            if segment.number != len(segments):
                break
            segments.append(segment)
        journal = cls(path, segments)
        journal.forget(len(segments))  # Else the next line would follow half of the one that was cut off.
        return journal

    def append(self, segment: Segment) -> None:
        """Note a closed segment."""
        self.segments.append(segment)
        _write(self.path, "ab", [asdict(segment)])

    def forget(self, number: int) -> None:
        """Keep only the segments before `number`."""
        header = _lines(self.path)[0]
        del self.segments[number:]
        fresh = self.path.with_suffix(".new")
        _write(fresh, "wb", [header, *map(asdict, self.segments)])
        os.replace(fresh, self.path)
        sync_folder(self.path.parent)


def _write(path: Path, mode: Literal["ab", "wb"], values: Sequence[Mapping[str, Any]]) -> None:
    with path.open(mode) as file:
        for value in values:
            file.write(json.dumps({**value, "check": _check_sum(value)}).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _check_sum(value: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(value).encode())


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines up to the first that is none."""
    found = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            value = json.loads(line)
        except ValueError:
            break
        if not isinstance(value, dict) or value.pop("check", None) != _check_sum(value):
            break
        found.append(value)
    return found


def _check(found: Mapping[str, Any], wanted: Mapping[str, Any], output: Path) -> None:
    differing = [
        f"{name} was {found.get(name, 'unknown')} and is {wanted.get(name, 'unknown')}"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    ]
    if differing:
        raise OutputError(
            f"{output}: the interrupted run was another one ({'; '.join(differing[:3])}); "
            "repeat it as it was, or run without --resume to start anew"
        )
