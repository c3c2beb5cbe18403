"""The quality benchmark tells what an evaluation found."""

from __future__ import annotations

import pytest

from benchmarks import quality
from mien.evaluate.report import EvalReport, Row, summarise


@pytest.fixture
def report() -> EvalReport:
    """Three swaps of strangers, one of them without a result, and two of one person."""
    rows = [
        _swap("a", "b", 0.6, 0.2, 0.5, 0.3, 1.0),
        _swap("b", "c", 0.7, 0.1, 0.2, 0.4, 3.0),
        Row("swap", "x/c.jpg", "x/a.jpg", "x/c", "x/a", {}, {"result": 0.0}),
        _same("d", 30.0, 0.88),
        _same("e", 34.0, 0.92),
    ]
    return summarise(rows, ["own", "other"], {}, ["x/f.jpg: no face was found"])


def _swap(a: str, b: str, own: float, own_target: float, other: float, other_target: float, pose: float) -> Row:
    values = {
        "result": 1.0,
        "own.source": own, "own.target": own_target, "own.nearer": float(own > own_target),
        "other.source": other, "other.target": other_target, "other.nearer": float(other > other_target),
        "expression": 0.1 * pose, "expression_before": 0.5, "pose": pose,
    }  # fmt: skip
    return Row("swap", f"x/{a}.jpg", f"x/{b}.jpg", f"x/{a}", f"x/{b}", {}, values)


def _same(name: str, psnr: float, ssim: float) -> Row:
    return Row("same", f"{name}_neutral.jpg", f"{name}_smiling.jpg", name, name, {}, {"psnr": psnr, "ssim": ssim})


def test_strangers(report: EvalReport) -> None:
    assert quality.strangers(report) == {
        "pairs": 3,
        "results": 0.6667,
        "nearer to the source (own)": 1.0,
        "cosine to source, to target (own)": [0.65, 0.15],
        "nearer to the source (independent)": 0.5,
        "cosine to source, to target (independent)": [0.35, 0.35],
        "blendshape ratio": 0.4,
        "pose difference mean, median, p95 (degrees)": [2.0, 2.0, 2.9],
        "no result": ["c -> a"],
        "not nearer": ["b -> c"],
        "left out": ["x/f.jpg: no face was found"],
    }


def test_same_person(report: EvalReport) -> None:
    assert quality.same_person(report) == {
        "swaps": 2,
        "PSNR mean, least (dB)": [32.0, 30.0],
        "SSIM mean, least": [0.9, 0.88],
    }
