"""One set of models, one person and one work bench for all of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mien
from mien.cli.main import main
from mien.identity import Identity
from mien.zoo.registry import Zoo
from tests.corpus.look import tree
from tests.corpus.scene import photo_of

SOURCE = photo_of("female_031")


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Bench:
    """Swaps one person onto targets in a folder of its own, and watches what is left there."""

    folder: Path
    """Holds outputs, and nothing else."""
    zoo: Zoo
    person: Identity
    command: Callable[..., Ended]
    reports: list[mien.Report]

    def swap(self, target: Path, name: str = "out.mkv", **options: Any) -> Path:
        """Swap by the library, losslessly where that is a Matroska file; nothing but the output appears."""
        before = set(tree(self.folder))
        if name.endswith(".mkv"):
            options = {"encoder": "ffv1", "encoder_threads": 2} | options
        else:
            options = {"encoder_threads": 2} | options
        self.reports.append(mien.swap(self.person, target, self.folder / name, zoo=self.zoo, **options))
        assert set(tree(self.folder)) - before == {name}
        return self.folder / name

    @property
    def report(self) -> mien.Report:
        """Of the latest swap."""
        return self.reports[-1]

    def fails(
        self, target: Path | str, *words: str, name: str = "out.mkv", code: int = 1, flags: tuple[str, ...] = ()
    ) -> str:
        """Swap by the command line: one line that holds the words, the exit code, and nothing left in the folder."""
        before = tree(self.folder)
        line = ("swap", "-s", str(SOURCE), "-t", str(target), "-o", str(self.folder / name), *flags)
        ended = self.command(*line)
        assert ended.code == code, ended
        assert ended.out == ""
        assert ended.err.startswith("mien: ")
        assert ended.err.count("\n") == 1, ended.err
        assert "Traceback" not in ended.err
        assert "unexpected" not in ended.err, ended.err
        for word in words:
            assert word in ended.err, ended.err
        assert tree(self.folder) == before
        return ended.err


@pytest.fixture(scope="session")
def person(models: Zoo) -> Identity:
    """Whose face all corpus tests put in."""
    return Identity.from_images([SOURCE], zoo=models)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command line in this process; its output is read at the file descriptors, as a shell sees it."""

    def run(*arguments: object) -> Ended:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ended(code, *capfd.readouterr())

    return run


@pytest.fixture
def bench(
    tmp_path: Path, models: Zoo, person: Identity, command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Bench:
    """A folder for outputs and a way to fill it. Command lines in this process share the loaded models."""
    monkeypatch.setattr("mien.api.Zoo.of", lambda options: models)
    folder = tmp_path / "out"
    folder.mkdir()
    return Bench(folder, models, person, command, [])
