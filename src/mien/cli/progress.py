"""A progress bar on stderr, where stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Event(Protocol):
    """What a run reports while it works."""

    @property
    def phase(self) -> str:
        """What is being done."""

    @property
    def done(self) -> int:
        """Frames done in this phase."""

    @property
    def total(self) -> int | None:
        """Frames of this phase, where known."""

    @property
    def fps(self) -> float:
        """Frames per second so far."""


@contextmanager
def bar(*, quiet: bool) -> Iterator[Callable[[Event], None] | None]:
    """A callback that draws one line for each phase; None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[fps]:.1f} fps"),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        tasks: dict[str, TaskID] = {}

        def show(event: Event) -> None:
            if event.phase not in tasks:
                tasks[event.phase] = display.add_task(event.phase, total=event.total, fps=0.0)
            display.update(tasks[event.phase], completed=event.done, total=event.total, fps=event.fps)

        yield show


@contextmanager
def byte_bar(name: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A callback that draws how many of `total` bytes are there; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task(name, total=total or None)
        yield lambda done: display.update(task, completed=done)


@contextmanager
def part_bar() -> Iterator[Callable[[float, str], None] | None]:
    """A callback that draws what part of the work is done, 0 to 1, and what goes on; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:>10}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task("", total=1.0)
        yield lambda part, text: display.update(task, completed=part, description=text)
