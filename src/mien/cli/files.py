"""JSON to a file or to standard output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def print_json(value: Any) -> None:
    """Print `value` as JSON on standard output."""
    print(json.dumps(value, indent=2))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, all of it or nothing.

    Raises:
        OutputError: the file cannot be written.
    """
    from mien.media.atomic import atomic_output

    text = json.dumps(value, indent=2) + "\n"
    if path.exists() and not path.is_file():  # a pipe or a device can't be replaced
        path.write_text(text)
        return
    with atomic_output(path) as partial:
        partial.write_text(text)
