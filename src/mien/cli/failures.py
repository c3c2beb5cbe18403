"""From an exception to one line and an exit code."""

from __future__ import annotations

from cyclopts import CycloptsError

from mien.errors import MienError

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def describe(error: BaseException) -> tuple[int, str]:
    """Exit code and the line that says what is wrong and what to do."""
    code, text = _describe(error)
    return code, " ".join(text.split())


def _describe(error: BaseException) -> tuple[int, str]:
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, str(error) or "interrupted; no output was written"
        case MienError():
            return error.exit_code, str(error)
        case CycloptsError():
            return USAGE, f"{error}{_where_help_is(error)}"
        case MemoryError():
            return FAILED, "out of memory; try a smaller target or a lower --queue-size"
        case BrokenPipeError():
            return FAILED, "standard output was closed before everything was written"
        case OSError() if error.strerror:
            name = f"{error.filename}: " if error.filename else ""
            return FAILED, f"{name}{error.strerror}"
        case _:
            return FAILED, f"unexpected {type(error).__name__}: {error}; --debug shows the traceback"


def _where_help_is(error: CycloptsError) -> str:
    command = " ".join(error.command_chain or ())
    return f" (`mien {command} --help` lists what there is)" if command else " (`mien --help` lists what there is)"
