"""Peak memory of `mien swap` over clip length: `python -m benchmarks.memory --source PHOTO --clip CLIP`.

The clip is played to and fro until it is long enough, so both lengths hold the same pictures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import av

RATE = 25
LENGTHS = (6, 60)
"""Seconds."""


def lengthen(clip: Path, path: Path, seconds: int) -> None:
    """Write the clip to and fro, H.264, without holding more than one pass of it."""
    with av.open(str(clip)) as source:
        frames = [frame.to_ndarray(format="yuv420p") for frame in source.decode(video=0)]
    period = 2 * len(frames) - 2
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=RATE)
        stream.height, stream.width = frames[0].shape[0] * 2 // 3, frames[0].shape[1]
        stream.pix_fmt = "yuv420p"
        for index in range(seconds * RATE):
            place = index % period
            picture = frames[place if place < len(frames) else period - place]
            frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
            frame.pts = index
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def main() -> None:
    """Swap both lengths, each in a process of its own, and print their peaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=Path("examples/source.jpg"))
    parser.add_argument("--clip", type=Path, default=Path("examples/clip.mp4"))
    args = parser.parse_args()
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        for seconds in LENGTHS:
            target, report = Path(folder, f"{seconds}.mp4"), Path(folder, "report.json")
            lengthen(args.clip, target, seconds)
            command = [sys.executable, "-m", "mien", "swap", "-s", str(args.source), "-t", str(target)]
            command += ["-o", str(Path(folder, "out.mp4")), "--report", str(report), "--quiet"]
            subprocess.run(command, check=True)
            told = json.loads(report.read_text())
            peaks[seconds] = told["peak_memory_mb"]
            print(f"{seconds} s: {told['frames']} frames, peak {peaks[seconds]:.1f} MB, {told['seconds']} s")
    print(f"ratio {peaks[LENGTHS[1]] / peaks[LENGTHS[0]]:.3f}")


if __name__ == "__main__":
    main()
