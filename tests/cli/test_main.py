from __future__ import annotations

import os
import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from mien.cli.failures import describe
from mien.cli.main import COMMANDS
from mien.errors import DeviceError, NoFaceError, OptionsError, RefusedError

from .conftest import Mien

HEAVY = ("cv2", "av", "onnxruntime", "PIL", "numpy")


@pytest.mark.parametrize("arguments", [["--help"], ["swap", "--help"], ["models", "list", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str], python: tuple[str, ...]) -> None:
    script = (
        "import sys; from mien.cli.main import main; code = main(sys.argv[1:]); "
        f"print(*sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    run = subprocess.run([*python, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.strip()) == (0, "")


def test_help_lists_the_commands(mien: Mien) -> None:
    result = mien("--help")
    assert result.code == 0
    for name, text in COMMANDS.items():
        assert any(name in line and text in line for line in result.out.splitlines())


def test_version(mien: Mien) -> None:
    assert mien("--version").out.strip() == version("mien")


def test_module_is_the_command(python: tuple[str, ...]) -> None:
    run = subprocess.run([*python, "-m", "mien", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == version("mien")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["swpa"], 'mien: Unknown command "swpa". Did you mean "swap"?'),
        (["swap"], 'mien: Command "swap" parameter --source requires an argument.'),
        (["swap", "-s", "-t", "b", "-o", "c"], 'mien: Command "swap" parameter -s requires an argument.'),
        (["swap", "-s", "a", "-t", "b", "-o"], 'mien: Command "swap" parameter -o requires an argument.'),
        (["swap", "-s", "a", "-t", "b", "-o", "c", "--crf", "70"], "mien: --crf 70: input should be less than or"),
        (["swap", "-s", "a", "-t", "b", "-o", "c", "--crf", "x"], "mien: Invalid value for --crf: unable to convert"),
        (["swap", "-s", "a", "-t", "b", "-o", "c", "--min-score", "nan"], "mien: --min-score nan: "),
        (["swap", "-s", "a", "-t", "b", "-o", "c", "--device", "npu"], "mien: --device npu: choose auto, cpu, cuda, "),
        (["swap", "-s", "a", "-t", "b", "-o", "c", "--encoder", "a b"], "mien: --encoder a b: string should match"),
        (["swap", "-s", "a", "-t", "b", "-o", "c", "--sharpen"], "mien: Unknown option: --sharpen. Did you mean"),
        (["compare", "a"], 'mien: Command "compare" parameter B requires an argument.'),
        (["analyze", "a", "--crf", "17"], "mien: Unknown option: --crf."),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(mien: Mien, arguments: list[str], line: str) -> None:
    result = mien(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(line)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted; no output was written"),
        (NoFaceError("a.jpg: no face; try --min-score"), 1, "a.jpg: no face; try --min-score"),
        (OptionsError("no detector is called 'x'"), 2, "no detector is called 'x'"),
        (RefusedError("refused at frame 3"), 3, "refused at frame 3"),
        (DeviceError("two\nlines"), 1, "two lines"),
        (FileNotFoundError(2, "No such file or directory", "a\nb.mp4"), 1, "a b.mp4: No such file or directory"),
        (MemoryError(), 1, "out of memory; try a smaller target or a lower --queue-size"),
        (ZeroDivisionError("by [b]0[/b]"), 1, "unexpected ZeroDivisionError: by [b]0[/b]; --debug shows the traceback"),
        (CycloptsError(msg="bad"), 2, "bad (`mien --help` lists what there is)"),
    ],
)
def test_every_failure_has_a_line_and_an_exit_code(error: BaseException, code: int, line: str) -> None:
    assert describe(error) == (code, line)


def test_debug_shows_the_traceback_and_then_the_line(mien: Mien) -> None:
    lines = mien("swap", "-s", "a", "-t", "b", "-o", "c", "--crf", "70", "--debug").err.splitlines()
    assert lines[0].startswith("Traceback") or any(line.startswith("Traceback") for line in lines)
    assert lines[-1] == "mien: --crf 70: input should be less than or equal to 63"


def test_a_closed_pipe_is_one_line(python: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [*python, "-m", "mien", "models", "list"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (1, "mien: standard output was closed before everything was written\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_one_line(python: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [*python, "-m", "mien", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (run.returncode, run.stderr) == (1, "mien: No space left on device\n")


def test_signal_handlers_are_put_back(mien: Mien) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    mien("models", "list")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
