"""Paths on the command line: an existing file is a path, whatever characters its name holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

READ_FLAGS = frozenset({"-s", "--source", "-t", "--target"})
WRITE_FLAGS = frozenset({"-o", "--output", "--report", "--profile"})
_SWITCHES = frozenset({"-h", "--help", "--version", "--json", "--quiet", "--debug"})


def shield(tokens: Sequence[str], exists: Callable[[str], bool] = os.path.lexists) -> list[str]:
    """The tokens with `./` before each path that starts with a dash, so that it is not read as a flag.

    A token after one of `WRITE_FLAGS` is the name of a file to come unless it is a flag; any other has to exist.
    """
    shielded: list[str] = []
    before = ""  # the path flag whose value comes next
    for position, token in enumerate(tokens):
        if token == "--":
            return [*shielded, *tokens[position:]]
        is_path = token.startswith("-") and _is_path(before, token, exists)
        shielded.append(f"./{token}" if is_path else token)
        before = token if token in READ_FLAGS | WRITE_FLAGS and not is_path else ""
    return shielded


def _is_path(before: str, token: str, exists: Callable[[str], bool]) -> bool:
    if exists(token):
        return bool(before) or token not in _flags()
    return before in WRITE_FLAGS and token.partition("=")[0] not in _flags()


def _flags() -> frozenset[str]:
    # Not at the top: pydantic is not needed by most command lines.
    from mien.cli.flags import flag
    from mien.options import SwapOptions

    return READ_FLAGS | WRITE_FLAGS | _SWITCHES | {flag(name) for name in SwapOptions.model_fields}
