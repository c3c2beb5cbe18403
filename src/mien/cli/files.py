"""JSON to a file or to standard output."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def print_json(value: Any) -> None:
    """Print `value` as JSON on standard output."""
    print(json.dumps(value, indent=2))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, all of it or nothing."""
    text = json.dumps(value, indent=2) + "\n"
    if path.exists() and not path.is_file():  # a pipe or a device can't be replaced
        path.write_text(text)
        return
    with tempfile.TemporaryDirectory(prefix=".mien-", dir=path.absolute().parent) as scratch:
        # Written inside a folder of its own, so that the file gets the permissions of any new file.
        partial = Path(scratch) / "report.json"
        partial.write_text(text)
        os.replace(partial, path)
