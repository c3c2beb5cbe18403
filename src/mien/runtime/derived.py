"""What was made of models and kept in the cache folder: found again, to go with the model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mien.runtime import batching, convert
from mien.runtime.engines import ORDER
from mien.runtime.kept import key_of, read_json, sha256_of

PREPARED, ENGINES = "prepared", "engines"
"""Folders within mien's cache folder."""
LEVELS = (0, 1)
"""Of half precision, see `convert.converted`."""


def derived(cache: Path, sha256: str) -> tuple[Path, ...]:
    """Files and folders that were made of the model with this content, by the rules of this version or older ones.

    Args:
        cache: mien's cache folder.
    """
    prepared, engines = cache / PREPARED, cache / ENGINES
    batches, halves = set(_batches(cache, sha256)), set(_halves(cache, sha256))
    models = [path for path in (*batches, *halves) if path.is_file()]
    contents = {sha256, *map(sha256_of, models)}
    names = {path.name for path in halves}
    notes = [path.with_suffix(".json") for path in batches]
    notes += [path for path in prepared.glob("half/*.json") if (read_json(path) or {}).get("file") in names]
    built = [path.parent for path in engines.glob(f"*/{ORDER}") if (read_json(path) or {}).get("sha256") in contents]
    locks = [path.with_name(f"{path.name}.lock") for path in (*batches, *notes)]
    return tuple(path for path in (*models, *notes, *built, *locks) if path.exists())


def forget(cache: Path, sha256: str) -> None:
    """Delete what `derived` finds, as far as it can be deleted; what is needed after all is made again."""
    for path in derived(cache, sha256):
        _delete(path)


def clean(cache: Path) -> int:
    """Delete all that was made of any model, as far as it can be deleted; what is needed is made again.

    Returns:
        Bytes that were freed.
    """
    before = _size(cache)
    for name in (PREPARED, ENGINES):
        _delete(cache / name)
    return before - _size(cache)


def _batches(cache: Path, sha256: str) -> Iterator[Path]:
    """Where versions with a free batch may lie."""
    for rules in range(1, batching.RULES + 1):
        for folder in (PREPARED, ENGINES):
            yield cache / folder / "batch" / f"{key_of(sha256, 'free batch', rules)}.onnx"


def _halves(cache: Path, sha256: str) -> Iterator[Path]:
    """Where versions in half precision may lie, of the model or of its version with a free batch."""
    for source in (sha256, *(f"{sha256} freed {rules}" for rules in range(1, batching.RULES + 1))):
        for rules in range(1, convert.RULES + 1):
            for level in LEVELS:
                yield cache / PREPARED / "half" / f"{key_of(source, rules, level)}.onnx"


def _size(cache: Path) -> int:
    files = (path for name in (PREPARED, ENGINES) for path in (cache / name).rglob("*"))
    return sum(path.stat().st_size for path in files if path.is_file())


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()
