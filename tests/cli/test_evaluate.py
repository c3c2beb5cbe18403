from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mien.evaluate.report import Row, summarise

from .conftest import Mien


def write_report(folder: Path, gain: float) -> Path:
    """A report of 12 made-up swaps."""
    rows = [
        Row("swap", f"{i}.jpg", f"t{i}.jpg", f"p{i}", f"q{i}", {}, {"one.source": 0.5 + 0.01 * i + gain})
        for i in range(12)
    ]
    folder.mkdir()
    path = folder / "report.json"
    path.write_text(json.dumps(summarise(rows, ["one"], {"seed": 0}).to_dict()))
    return path


def test_two_reports_are_compared_without_a_swap(mien: Mien, tmp_path: Path) -> None:
    write_report(tmp_path / "new", 0.05)
    old = write_report(tmp_path / "old", 0.0)
    result = mien("eval", "--output", tmp_path / "new", "--compare", old)
    assert (result.code, result.err) == (0, "")
    assert "| cosine to the source, one | 0.605 | 0.555 | +0.050 (+0.050 to +0.050) | 12 | better |" in result.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "mien: --output is missing; name a folder for the report"),
        (["--output", "x"], "mien: --data is missing; pass a folder of photos"),
        (["--data", "x"], "mien: --output is missing"),
        (["x", "--output", "y"], "mien: x: a folder goes with --protocol"),
        (["--data", "x", "--output", "y", "--pairs", "0"], "mien: --pairs 0: input should be greater than or equal"),
        (["--data", "x", "--output", "y", "--limit", "3"], "mien: --limit does not go with an evaluation"),
        (["x", "--protocol", "lfw", "--pairs", "3"], "mien: --pairs does not go with --protocol"),
        (["x", "--protocol", "lfw", "--data", "y"], "mien: --data does not go with --protocol"),
        (["--protocol", "lfw"], "mien: --protocol lfw: name the folder of your copy"),
        (["x", "--protocol", "nothing"], "mien: no protocol is called 'nothing'"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(mien: Mien, arguments: list[str], line: str) -> None:
    result = mien("eval", *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(line)
    assert result.err.count("\n") == 1


def test_a_folder_that_is_not_there_is_one_line(mien: Mien, tmp_path: Path) -> None:
    result = mien("eval", "--data", tmp_path / "none", "--output", tmp_path / "out")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"mien: {tmp_path}/none: cannot be read")


def test_its_help_imports_nothing_heavy(python: tuple[str, ...]) -> None:
    script = (
        "import sys; from mien.cli.main import main; main(['eval', '--help']); "
        "print(*sorted({'cv2', 'av', 'onnx', 'onnxruntime', 'PIL', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    run = subprocess.run([*python, "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.strip()) == (0, "")
    assert "--same-person" in run.stdout and "--fps" in run.stdout
