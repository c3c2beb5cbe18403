"""A command line, run inside the test's process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mien.cli.main import main


@dataclass(frozen=True, slots=True)
class Result:
    """What a command line gave."""

    code: int
    out: str
    err: str


Mien = Callable[..., Result]


@pytest.fixture
def mien(capfd: pytest.CaptureFixture[str]) -> Mien:
    """`mien(*arguments)` runs the command; its output is read at the file descriptors, as a shell sees it."""

    def run(*arguments: object) -> Result:
        code = main([str(argument) for argument in arguments])
        return Result(code, *capfd.readouterr())

    return run
