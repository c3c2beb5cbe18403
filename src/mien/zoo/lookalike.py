"""Which family a file fits: by its sha256, else by the shapes of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from mien.errors import MienError, ModelError
from mien.runtime.graph import open_graph
from mien.runtime.session import Runtime
from mien.zoo.cards import ModelCard, Task
from mien.zoo.probe import probe
from mien.zoo.registry import registry, sessions

MOST = 3
"""Names that are told of those that fit."""
LIMIT = 300.0
"""Seconds after which a file counts as hung, as `--model-timeout` has it."""
_R = TypeVar("_R")


def check_family(task: Task, name: str, file: Path, called: str, *, run: bool = True) -> None:
    """Load a file on the CPU as this family, and run it once.

    Args:
        called: what errors call the file.
        run: without it only the shapes are checked.

    Raises:
        ModelError: it does not fit, which tells why, and what it looks like instead; or it does not come to an end.
    """
    family = registry()[task, name]
    try:
        model = _in_time(lambda: family(Runtime("cpu"), file))
    except TimeoutError as error:
        raise ModelError(f"{called}: was not open after {LIMIT:g} seconds; take another file") from error
    except MienError as error:
        reason = _reason(error, file, called)
        likely = lookalikes(file, task)
        if likely is None:
            raise ModelError(f"{called}: {reason}; fetch it again, or export it anew") from error
        advice = f"it looks like {_either(likely)}; add it --as {likely[0]}" if likely else "it fits no family of mien"
        raise ModelError(f"{called}: is not {name}: {reason}; {advice}") from error
    if run:
        try:
            _in_time(lambda: probe(task, model))
        except TimeoutError as error:
            for session in sessions(model):
                session.cancel()
            raise ModelError(
                f"{called}: has the shapes of {name}, but a test run gave nothing in {LIMIT:g} seconds; take another "
                "file, or pass --no-run if it is only slow here"
            ) from error
        except ModelError as error:
            raise ModelError(
                f"{called}: has the shapes of {name}, but a test run failed: {_reason(error, file, called)}; "
                "take another file"
            ) from error


def _in_time(work: Callable[[], _R]) -> _R:
    """What it gives; it may hang for ever in ONNX Runtime, so it is left to a thread that nobody need wait for.

    Raises:
        TimeoutError: it is not done in time.
    """
    results: list[_R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again by whoever waits
            errors.append(error)

    thread = Thread(target=run, name="mien-trial", daemon=True)
    thread.start()
    thread.join(LIMIT)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]


def known(sha256: str) -> ModelCard | None:
    """The registered model whose file has this hash."""
    cards: list[ModelCard] = [family.card for family in registry().values()]
    return next((card for card in cards if card.weights is not None and card.weights.sha256 == sha256), None)


def lookalikes(file: Path, task: Task) -> tuple[str, ...] | None:
    """Names of the families that take a file of these shapes: those of `task`, else those of all others.

    None for a file that ONNX Runtime cannot open.
    """
    try:
        graph = open_graph(file, "cpu", 0)
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        return None
    runtime = Runtime("cpu", opener=lambda *_: graph)
    families = sorted(registry().items())
    for own in (True, False):
        found = tuple(
            name for (each, name), family in families if (each == task) == own and _takes(family, runtime, file)
        )
        if found:
            return found
    return ()


def _takes(family: Any, runtime: Runtime, file: Path) -> bool:
    if family.card.weights is None:
        return False
    try:
        family(runtime, file)
    except (MienError, LookupError, ValueError, TypeError, AttributeError):
        return False  # whatever it looked for in the file is not there
    return True


def _either(names: tuple[str, ...]) -> str:
    shown = names[:MOST] if len(names) <= MOST else (*names[:MOST], "others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _reason(error: MienError, file: Path, called: str) -> str:
    """What was wrong, without the file's name before it and the advice behind it."""
    text = str(error).removeprefix(f"{file}: ").replace(str(file), called)
    return text.rpartition("; ")[0] or text
