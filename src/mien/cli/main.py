"""Dispatch and exit codes: 0 done, 1 failed, 2 usage, 3 refused, 130 interrupted."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from types import FrameType

from cyclopts import App, Parameter

from mien.cli.arguments import shield
from mien.cli.failures import describe

COMMANDS = {
    "swap": "Swap a face into a photo or a video.",
    "analyze": "Find and describe the faces of a photo or a video.",
    "compare": "Say how similar the faces of two photos are.",
    "eval": "Measure how good swaps are.",
    "bench": "Measure how fast this machine is.",
    "models": "Show, fetch, add and check models.",
    "doctor": "Check this installation and this machine.",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    tokens = shield(sys.argv[1:] if argv is None else argv)
    os.environ.setdefault("SVT_LOG", "1")  # Else the AV1 encoder tells its settings on standard error.
    _print_any_name()
    try:
        with _interruptible():
            code = _app()(tokens) or 0
            print(end="", flush=True)
            return int(code)
    except BaseException as error:  # the one boundary: whatever fails becomes one line and an exit code
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        _drop_output()
        if "--debug" in tokens:
            traceback.print_exception(error)
        code, line = describe(error)
        print(f"mien: {line}", file=sys.stderr)
        return code


def _app() -> App:
    app = App(
        name="mien",
        help="Swap faces in photos and videos, touching only the face.",
        version=lambda: version("mien"),
        default_parameter=Parameter(negative=(), json_list=False, json_dict=False),
        help_format="plaintext",
        exit_on_error=False,
        print_error=False,
        verbose=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for name, text in COMMANDS.items():
        home = "evaluate" if name == "eval" else name  # no name of a builtin
        app.command(f"mien.cli.{home}:{home}", name=name, help=text)
    return app


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM cleans up as Ctrl-C does; a second signal of either kind ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_any_name() -> None:
    """File names may hold bytes that are no text; printing one must not fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """After a full disk or a closed pipe, what is still buffered would fail again at exit."""
    try:
        print(end="", flush=True)
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
