"""A command line, run inside the test's process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import av
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


@pytest.fixture(scope="session")
def clip(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 8 frames of the example clip."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with av.open(str(examples / "clip.mp4")) as source, av.open(str(path), "w") as short:
        stream = short.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height = 512, 512
        for frame in islice(source.decode(video=0), 8):
            short.mux(stream.encode(frame.reformat(format="yuv420p")))
        short.mux(stream.encode())
    return path
