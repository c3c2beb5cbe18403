"""Peak memory with an encoder far slower than all before it: `python -m benchmarks.slow_encoder`.

A clip of 1920 × 1080 with a face in one second of ten is swapped, and the thread that encodes waits after each frame
as a slow encoder would, so that decoding could run ahead. Each length runs in a process of its own; the peaks of a long
and a short clip are compared (goal: at most 1.2). The clip has 5 frames a second and little detail, so that ten minutes
of it (3000 frames) end in about fifteen minutes on one core; the wait of 0.15 s is more than any stage before it takes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

import mien
from mien.media import open_reader
from mien.types import ByteArray

RATE = 5
SIZE = (1920, 1080)
_FACE_EVERY, _FACE_FOR = 50, 5
"""Frames."""


def make_clip(photo: Path, path: Path, seconds: float, size: tuple[int, int] = SIZE) -> None:
    """Write the clip: a grey field that a band moves over, with the photo in it now and then."""
    width, height = size
    face = _scaled(photo, height // 2)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=RATE, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(round(seconds * RATE)):
            pixels = np.full((height, width, 3), 110, np.uint8)
            pixels[:, 8 * index % width :][:, :64] = (150, 130, 90)
            if index % _FACE_EVERY < _FACE_FOR:
                pixels[height // 4 :][: face.shape[0], width // 4 :][:, : face.shape[1]] = face
            frame = av.VideoFrame.from_ndarray(pixels, "rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = index, Fraction(1, RATE)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def _scaled(photo: Path, height: int) -> ByteArray:
    with open_reader(photo) as reader:
        frame = next(iter(reader))
        return np.asarray(frame.thumbnail(height))


def swap_slowly(source: Path, target: Path, output: Path, wait: float) -> mien.Report:
    """Swap with a wait after each written frame, in the thread that encodes: to all before it, a slower encoder."""

    def slow_down(progress: mien.Progress) -> None:
        if progress.phase == "render":
            time.sleep(wait)

    return mien.swap(source, target, output, progress=slow_down, device="cpu")


def main() -> int:
    """Compare two lengths, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=Path("examples/source.jpg"), help="photo of the source's face")
    parser.add_argument("--face", type=Path, default=Path("examples/target.jpg"), help="photo shown in the clip")
    parser.add_argument("--seconds", type=float, nargs=2, default=(20.0, 600.0), help="the two lengths (20 600)")
    parser.add_argument("--wait", type=float, default=0.15, help="seconds that each frame waits in the encoder (0.15)")
    parser.add_argument("--child", type=Path, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        target, output = args.child
        report = swap_slowly(args.source, target, output, args.wait)
        print(report.frames, report.peak_memory_mb)
        return 0
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for seconds in args.seconds:
            clip = Path(folder, f"{seconds:g}.mp4")
            make_clip(args.face, clip, seconds)
            command = [sys.executable, "-m", "benchmarks.slow_encoder", "--source", str(args.source)]
            command += ["--wait", str(args.wait), "--child", str(clip), str(Path(folder, "out.mp4"))]
            started = time.monotonic()
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            peaks.append(float(told[1]))
            took = time.monotonic() - started
            print(f"{seconds:g} s: {told[0]} frames, peak {peaks[-1]:.1f} MB, {took:.0f} s", flush=True)
    ratio = peaks[1] / peaks[0]
    print(f"ratio {ratio:.3f}, goal at most 1.2")
    return 0 if ratio <= 1.2 else 1


if __name__ == "__main__":
    sys.exit(main())
