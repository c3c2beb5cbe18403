"""Clips and pairs of a set laid out as FaceForensics++."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mien.color import as_bytes
from mien.errors import InputError
from mien.evaluate.protocols.common import DOCS, read_lines
from mien.media import IMAGE_EXTENSIONS, VIDEO_EXTENSIONS, open_reader
from mien.types import ByteArray

ORIGINALS = "original_sequences"
MANIPULATED = "manipulated_sequences"
COMPRESSIONS = ("c23", "raw", "c40")
"""In the order in which they are looked for: papers use c23."""
KINDS = ("videos", "images")
SPLITS = ("splits/test.json", "dataset/splits/test.json", "test.json")
_PAIR = re.compile(r"([A-Za-z0-9-]+)_([A-Za-z0-9-]+)")


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """A clip, and the clip whose person is put into it."""

    target: str
    source: str

    @property
    def name(self) -> str:
        """As in file names."""
        return f"{self.target}_{self.source}"


def pairs_of(folder: Path, method: str = "") -> list[Pair]:
    """The pairs of a set: of `pairs.txt`, else of the test split, else those that others have swapped.

    Args:
        method: take only pairs that this one has swapped.

    Raises:
        InputError: there are none, or a list is something else.
    """
    listed = _listed(folder)
    swapped = sorted({pair for path in _clips(folder / MANIPULATED, method or "*") for pair in _pair(path.stem)})
    if method and not swapped:
        raise InputError(f"{folder}: {MANIPULATED}/{method} has no clips named TARGET_SOURCE; see {DOCS}")
    pairs = [pair for pair in listed if pair in swapped] if method and listed else listed or swapped
    if not pairs:
        raise InputError(f"{folder}: no pairs, looked for pairs.txt, {SPLITS[0]} and {MANIPULATED}; see {DOCS}")
    return pairs


def clip_of(folder: Path, name: str, method: str = "") -> Path:
    """The video, or the folder of frames, of an original or of a pair that a method has swapped.

    Raises:
        InputError: there is none.
    """
    home = folder / MANIPULATED if method else folder / ORIGINALS
    found = [path for path in _clips(home, method or "*") if path.stem == name]
    if not found:
        raise InputError(f"{home}: the clip {name} is missing, looked for it as {_layout(method)}; see {DOCS}")
    return found[0]


def sampled(path: Path, count: int) -> list[ByteArray]:
    """(H, W, 3) RGB uint8 frames at the middles of `count` equal parts of a clip; all frames where it has fewer.

    Raises:
        MediaError: it cannot be read.
    """
    if path.is_dir():
        photos = sorted(each for each in path.iterdir() if each.suffix.lower() in IMAGE_EXTENSIONS)
        return [frame for i in places(len(photos), count) for frame in _frames(photos[i])]
    with open_reader(path) as reader:
        length = reader.frame_count or 0
    if not length:
        length = sum(1 for _ in _frames(path))
    wanted = places(length, count)
    return [frame for i, frame in enumerate(_frames(path, wanted[-1] + 1)) if i in wanted]


def places(length: int, count: int) -> list[int]:
    """Indices of the middles of `count` equal parts of `length` frames."""
    if length <= count:
        return list(range(length))
    return [(2 * i + 1) * length // (2 * count) for i in range(count)]


def _frames(path: Path, most: int | None = None) -> Iterator[ByteArray]:
    with open_reader(path) as reader:
        for index, frame in enumerate(reader):
            if index == most:
                return
            yield as_bytes(frame.read(frame.box))


def _clips(home: Path, part: str) -> list[Path]:
    """Videos and folders of frames, the preferred compression first."""
    found = [
        path
        for compression in COMPRESSIONS
        for kind in KINDS
        for path in sorted(home.glob(f"{part}/{compression}/{kind}/*"))
    ]
    return [path for path in found if path.is_dir() or path.suffix.lower() in VIDEO_EXTENSIONS]


def _listed(folder: Path) -> list[Pair]:
    if (path := folder / "pairs.txt").exists():
        names = [line.strip() for line in read_lines(path)]
        wrong = next((name for name in names if not _pair(Path(name).stem)), None)
        if wrong is not None:
            raise InputError(f"{path}: {wrong!r} is not TARGET_SOURCE, such as 000_003; write a pair a line")
        return [pair for name in names for pair in _pair(Path(name).stem)]
    split = next((folder / name for name in SPLITS if (folder / name).exists()), None)
    if split is None:
        return []
    try:
        both = [(str(a), str(b)) for a, b in json.loads(split.read_text("utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{split}: is no list of pairs ({error}); take it from the set's own repository") from error
    return [pair for a, b in both for pair in (Pair(a, b), Pair(b, a))]


def _pair(name: str) -> list[Pair]:
    """The pair that a clip's name tells, if it is one."""
    told = _PAIR.fullmatch(name)
    return [Pair(told[1], told[2])] if told else []


def _layout(method: str) -> str:
    home = method or "youtube"
    return f"{home}/{'|'.join(COMPRESSIONS)}/{'|'.join(KINDS)}/NAME"
