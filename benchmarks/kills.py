"""Kills runs at random moments, resumes them, and compares the outputs with that of a run nobody disturbed.

`python -m benchmarks.kills --folder DIR --kills 50`. Two in three moments are drawn evenly over the time of a run, the
rest over the changes in the work folder: a file that appears or goes, so that closing segments, joining them and
moving the output into place are hit too. One in three signals is Ctrl-C's, the others cannot be caught. One in three
resumed runs is killed as well. All is kept in DIR/state.json: stop it at will, and run it again to go on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import av
import numpy as np

TIMEOUT = 1800.0
"""Seconds after which a run counts as hung."""
STOPPING = 60.0
"""Seconds that a run may take to end after Ctrl-C."""
_POLL = 0.002
_RATE = 25


@dataclass(frozen=True, slots=True)
class Plan:
    """When and how one run is ended."""

    signal: int
    seconds: float | None
    """After its start; None if it is ended at a change of the work folder."""
    change: int
    """Number of that change."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What came of one run that was ended, once or twice, and resumed."""

    number: int
    plans: Sequence[Plan]
    left: Sequence[str]
    """Names in the work folder after each kill, the last first to be resumed."""
    failure: str
    """Empty if the output is that of the undisturbed run."""


class Bench:
    """The folder with target, reference output and state.

    Args:
        command: arguments of `mien swap` that all runs share, beside target and output.
    """

    def __init__(self, folder: Path, target: Path, command: Sequence[str], suffix: str = ".mp4") -> None:
        self.folder, self.target, self.command = folder, target, list(command)
        self.output = folder / f"out{suffix}"
        self.work = self.output.with_name(f"{self.output.name}.mien")

    def reference(self) -> dict[str, Any]:
        """Run undisturbed: hash of the output, seconds, changes of the work folder."""
        self.clear()
        started = time.monotonic()
        process = self._start(resume=False)
        changes = self._watch(process, None)
        seconds = time.monotonic() - started
        if process.returncode or not self.output.exists():
            raise SystemExit(f"the undisturbed run failed: {self._told()}")
        return {"sha256": _digest(self.output), "seconds": round(seconds, 2), "changes": changes}

    def kill(self, number: int, plans: Sequence[Plan], sha256: str) -> Kill:
        """Run, end it as planned, resume to the end and compare."""
        self.clear()
        left: list[str] = []
        failure = ""
        for resume, plan in enumerate(plans):
            process = self._start(resume=bool(resume))
            finished = self._end(process, plan)
            failure = failure or self._ended(process, plan, finished)
            left.append(" ".join(sorted(_names(self.work))) or "nothing")
        failure = failure or self._resumed(sha256)
        if failure and self.work.exists():
            shutil.copytree(self.work, self.folder / f"failed-{number}", dirs_exist_ok=True)
        return Kill(number, plans, left, failure)

    def clear(self) -> None:
        """Remove output and work."""
        self.output.unlink(missing_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)

    def _start(self, *, resume: bool) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mien", "swap", *self.command]
        command += ["-t", str(self.target), "-o", str(self.output), "--quiet", *(["--resume"] if resume else [])]
        with self._log.open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _end(self, process: subprocess.Popen[bytes], plan: Plan) -> bool:
        """True if it had finished by itself."""
        if plan.seconds is None:
            self._watch(process, plan.change)
        else:
            with suppress(subprocess.TimeoutExpired):
                process.wait(plan.seconds)
        if process.poll() is not None:
            return True
        process.send_signal(plan.signal)
        try:
            process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return False

    def _watch(self, process: subprocess.Popen[bytes], until: int | None) -> int:
        """Wait for the end, or for a number of changes in the work folder; how many there were."""
        names, count, ends = _names(self.work), 0, time.monotonic() + TIMEOUT
        while process.poll() is None and time.monotonic() < ends:
            if (now := _names(self.work)) != names:
                names, count = now, count + 1
                if count == until:
                    return count
            time.sleep(_POLL)
        if process.poll() is None:
            process.kill()
            process.wait()
        return count

    def _ended(self, process: subprocess.Popen[bytes], plan: Plan, finished: bool) -> str:
        """What is wrong right after the signal."""
        if finished:
            return f"ended with {process.returncode} before the signal: {self._told()}" if process.returncode else ""
        if plan.signal == signal.SIGINT and process.returncode not in (130, 0, -signal.SIGINT):
            return f"Ctrl-C ended it with {process.returncode}: {self._told()}"
        if plan.signal == signal.SIGINT and process.returncode == 130 and len(self._told().splitlines()) != 1:
            return f"Ctrl-C: not one line: {self._told()}"
        return ""

    def _resumed(self, sha256: str) -> str:
        """What is wrong after resuming to the end."""
        process = self._start(resume=True)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "the resumed run hung"
        if process.returncode:
            return f"the resumed run ended with {process.returncode}: {self._told()}"
        if _digest(self.output) != sha256:
            return "the output differs"
        return f"left over: {' '.join(_names(self.work))}" if self.work.exists() else ""

    @property
    def _log(self) -> Path:
        return self.folder / "log.txt"

    def _told(self) -> str:
        return self._log.read_text(errors="replace").strip()


def plan_kill(seed: int, number: int, seconds: float, changes: int) -> list[Plan]:
    """How the run of this number is ended, once or twice.

    Args:
        seconds, changes: of an undisturbed run.
    """
    rng = Random(f"mien kills {seed} {number}")
    plans = []
    for _ in range(1 + (rng.random() < 1 / 3)):
        number_of = signal.SIGINT if rng.random() < 1 / 3 else signal.SIGKILL
        if changes and rng.random() < 1 / 3:
            plans.append(Plan(number_of, None, rng.randint(1, changes)))
        else:
            plans.append(Plan(number_of, round(rng.uniform(0, seconds), 3), 0))
    return plans


def run_kills(bench: Bench, count: int, seed: int = 1) -> list[Kill]:
    """End and resume so many runs, those of an earlier call with the same folder included."""
    path = bench.folder / "state.json"
    settings = {"command": bench.command, "output": bench.output.name, "target": _digest(bench.target), "seed": seed}
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if state.get("settings") != settings:
        state = {"settings": settings, "kills": [], "reference": bench.reference()}
        _save(path, state)
    told = state["reference"]
    print(f"undisturbed: {told['seconds']} s, {told['changes']} changes of the work folder", flush=True)
    for number in range(len(state["kills"]), count):
        plans = plan_kill(seed, number, told["seconds"], told["changes"])
        kill = bench.kill(number, plans, told["sha256"])
        state["kills"].append(asdict(kill))
        _save(path, state)
        print(describe(kill), flush=True)
    bench.clear()
    return [Kill(**kill | {"plans": [Plan(**p) for p in kill["plans"]]}) for kill in state["kills"]]


def describe(kill: Kill) -> str:
    """One line."""
    parts = []
    for plan, left in zip(kill.plans, kill.left, strict=True):
        moment = f"at change {plan.change}" if plan.seconds is None else f"after {plan.seconds:.2f} s"
        parts.append(f"{signal.Signals(plan.signal).name} {moment} (left: {left})")
    return f"{kill.number}: {', then '.join(parts)}: {kill.failure or 'equal'}"


def build(clip: Path, path: Path, seconds: float, width: int) -> None:
    """Write the clip to and fro at this width, H.264 at 25 frames a second, with a tone as its sound."""
    with av.open(str(clip)) as source:
        height = source.streams.video[0].height * width // source.streams.video[0].width // 2 * 2
        frames = [f.reformat(width, height, "yuv420p") for f in source.decode(video=0)]
    count, period = round(seconds * _RATE), max(1, 2 * len(frames) - 2)
    with av.open(str(path), "w", container_options={"fflags": "+bitexact"}) as output:
        video = output.add_stream("libx264", rate=_RATE, options={"preset": "veryfast"})
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        sound = output.add_stream("aac", rate=48000, layout="mono")
        wave = 0.2 * np.sin(np.arange(int(48000 * seconds)) / 20).astype(np.float32)
        for begin in range(0, len(wave) - 1023, 1024):
            part = av.AudioFrame.from_ndarray(wave[None, begin : begin + 1024], "fltp", "mono")
            part.sample_rate, part.pts, part.time_base = 48000, begin, Fraction(1, 48000)
            output.mux(sound.encode(part))
        output.mux(sound.encode(None))
        for index in range(count):
            place = index % period
            picture = av.VideoFrame.from_ndarray(frames[min(place, period - place)].to_ndarray(), format="yuv420p")
            picture.pts, picture.time_base = index, Fraction(1, _RATE)
            output.mux(video.encode(picture))
        output.mux(video.encode(None))


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _save(path: Path, state: dict[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1))
    os.replace(fresh, path)


def main() -> int:
    """Kill runs as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where to work and keep the state")
    parser.add_argument("--kills", type=int, default=50, help="how many runs to kill and resume in all (50)")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments (1)")
    parser.add_argument("--source", type=Path, default=Path("examples/source.jpg"), help="photo of the face")
    parser.add_argument("--clip", type=Path, default=Path("examples/clip.mp4"), help="clip to make the target of")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the target (20)")
    parser.add_argument("--width", type=int, default=320, help="of the target, pixels (320)")
    parser.add_argument("--segment-frames", type=int, default=50, help="frames between two resume points (50)")
    parser.add_argument("--suffix", default=".mp4", help="container of the output (.mp4)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    target = args.folder / f"target-{args.seconds:g}-{args.width}.mp4"
    if not target.exists():
        build(args.clip, target, args.seconds, args.width)
    command = ["-s", str(args.source), "--segment-frames", str(args.segment_frames)]
    bench = Bench(args.folder, target, command, args.suffix)
    kills = run_kills(bench, args.kills, args.seed)
    failed = [kill for kill in kills if kill.failure]
    for kill in failed:
        print(describe(kill))
    print(f"{len(kills) - len(failed)} of {len(kills)} outputs are equal to the undisturbed run's")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
