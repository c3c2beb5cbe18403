"""Photos to exported network: `python -m training.swapgan DIR TEACHER.onnx WORK [--steps N]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

WEIGHTS = Path(__file__).parents[2] / "src" / "mien" / "weights" / "swapgan.onnx"


def main() -> None:
    """Run the three steps, each in its own process, since each sets its own threads."""
    parser = argparse.ArgumentParser(description="Train the blending network from photos to the exported file.")
    parser.add_argument("data", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", default="12000")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    faces = args.work / "faces.npz"
    if not faces.exists():
        _run("faces", "--data", str(args.data), "--out", str(faces))
    _run(
        "train", "--faces", str(faces), "--teacher", str(args.teacher), "--work", str(args.work), "--steps", args.steps
    )
    _run("export", str(args.work / "last.pt"), str(WEIGHTS))


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", f"training.swapgan.{module}", *arguments], check=True)


if __name__ == "__main__":
    main()
