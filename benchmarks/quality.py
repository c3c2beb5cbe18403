"""Quality of the default swap, as numbers: `python -m benchmarks.quality --data DIR --evaluator FILE.onnx`.

`mien eval` over pairs of the portraits and hard cases, everybody taking part, and over neutral and smiling photos of
one person: the figures that `benchmarks/README.md` sets goals for. `mien eval` itself tells more, and of held-out
people.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from mien.evaluate import EvalReport, evaluate
from mien.evaluate.report import Row

FOLDERS = "portraits+hard"
"""Folders that people are swapped of."""
LONDON = 62
"""People with two photos, at most; each is swapped both ways."""


def strangers(report: EvalReport) -> dict[str, object]:
    """Swaps between different people."""
    rows = [row for row in report.rows if row.kind == "swap"]
    found = {name: round(value.mean, 4) for name, value in report.summary.items()}
    pose = _column(rows, "pose")
    own, *others = report.judges
    told: dict[str, object] = {"pairs": len(rows), "results": found["results"]}
    for kind, judge in (("own", own), *(("independent", name) for name in others)):
        told[f"nearer to the source ({kind})"] = found[f"nearer.{judge}"]
        told[f"cosine to source, to target ({kind})"] = [found[f"identity.{judge}"], found[f"target.{judge}"]]
    return {
        **told,
        "blendshape ratio": found["expression"],
        "pose difference mean, median, p95 (degrees)": [
            round(float(value), 3) for value in (pose.mean(), np.median(pose), np.percentile(pose, 95))
        ],
        "no result": [_name(row) for row in rows if not row.values["result"]],
        "not nearer": [_name(row) for row in rows if row.values.get(f"{(*others, own)[0]}.nearer") == 0],
        "left out": list(report.skipped),
    }


def same_person(report: EvalReport) -> dict[str, object]:
    """Neutral on smiling and back, against the untouched target."""
    rows = [row for row in report.rows if row.kind == "same"]
    psnr, ssim = (_column(rows, name) for name in ("psnr", "ssim"))
    return {
        "swaps": len(rows),
        "PSNR mean, least (dB)": [round(float(psnr.mean()), 2), round(float(psnr.min()), 2)],
        "SSIM mean, least": [round(float(ssim.mean()), 4), round(float(ssim.min()), 4)],
    }


def _column(rows: list[Row], name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([row.values[name] for row in rows if name in row.values], np.float64)


def _name(row: Row) -> str:
    return f"{Path(row.source).stem} -> {Path(row.target).stem}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with portraits/, hard/ and london/")
    parser.add_argument("--evaluator", type=Path, required=True, help="ONNX embedder that the swapper does not use")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-same", action="store_true")
    args = parser.parse_args()
    report = evaluate(
        args.data, evaluators=[args.evaluator], sources=FOLDERS, targets=FOLDERS, pairs=args.pairs, seed=args.seed,
        same_person=0 if args.skip_same else 2 * LONDON, cycles=0, clip_swaps=0,
    )  # fmt: skip
    result = {"strangers": strangers(report)}
    if not args.skip_same:
        result["same person"] = same_person(report)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
