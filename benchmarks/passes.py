"""One measured pass in a process of its own: `python -m benchmarks.passes PASS JSON` prints what it cost, as JSON.

`limit` decodes a clip twice and encodes it once with plain PyAV, with the engine's codec settings and thread counts.
`record` and `engine` swap it, the latter with models that cost nothing; `swap` does with the real ones.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import av
from av.video.stream import VideoStream

from mien.media.encoders import plan_encoder
from mien.options import SwapOptions
from mien.report import peak_memory_mb
from mien.stages import Run

Cost = dict[str, Any]
"""`frames`, `seconds`, `cpu` seconds, `peak_mb`, and of a swap `timings`."""


def limit(clip: str, output: str, options: dict[str, Any]) -> Cost:
    """Decode, then decode beside encoding."""
    chosen = SwapOptions(**options)
    frames = sum(1 for _ in _decoded(clip))
    with av.open(clip) as source:
        given = source.streams.video[0]
        plan = plan_encoder("mp4", chosen, "yuv420p", given.width, given.height)
        rate, size = given.average_rate, (given.width, given.height)
    with av.open(output, "w") as out, Run[av.VideoFrame](_decoded(clip), [], queue_size=chosen.queue_size) as run:
        stream = cast(VideoStream, out.add_stream(plan.name, rate=rate, options=dict(plan.options)))
        stream.width, stream.height = size
        stream.pix_fmt = plan.pixel_format
        stream.codec_context.thread_count, stream.codec_context.thread_type = chosen.encoder_threads, "FRAME"
        for frame in run:
            frame.pict_type = 0  # the encoder's own choice
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return {"frames": frames}


def record(clip: str, source: str, output: str, recording: str, size: int, options: dict[str, Any]) -> Cost:
    """Swap once with real models and keep what they gave."""
    from benchmarks.replay import Recorder, Swapper
    from mien import swap

    zoo = Recorder(Swapper(size))
    report = swap(source, clip, output, zoo=zoo, device="cpu", **options)
    zoo.save(Path(recording))
    return {"frames": report.frames, "faces": len(report.faces)}


def engine(clip: str, source: str, output: str, recording: str, size: int, options: dict[str, Any]) -> Cost:
    """Swap with models that cost nothing."""
    from benchmarks.replay import Player
    from mien import swap

    zoo = Player(Path(recording), size)

    def run() -> Cost:
        report = swap(source, clip, output, zoo=zoo, device="cpu", **options)
        return {"frames": report.frames, "faces": len(report.faces), "timings": dict(report.timings)}

    return measured(run)


def swap(clip: str, source: str, output: str, options: dict[str, Any]) -> Cost:
    """Swap with the real models, their loading included."""
    from mien import swap as run

    report = run(source, clip, output, **options)
    return {"frames": report.frames, "faces": len(report.faces), "timings": dict(report.timings)}


def measured(call: Callable[[], Cost]) -> Cost:
    """What a call gives, and what it cost this process; a cost that is told already is kept."""
    before, started = _cpu(), perf_counter()
    told = call()
    cost = {"seconds": perf_counter() - started, "cpu": _cpu() - before, "peak_mb": peak_memory_mb()}
    return cost | told


def _decoded(clip: str) -> Iterator[av.VideoFrame]:
    with av.open(clip) as source:
        stream = source.streams.video[0]
        stream.codec_context.thread_count, stream.codec_context.thread_type = 0, "AUTO"
        yield from source.decode(stream)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


PASSES: dict[str, Callable[..., Cost]] = {"limit": limit, "record": record, "engine": engine, "swap": swap}


def main() -> None:
    """Run one pass."""
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(measured(lambda: PASSES[name](**arguments))))


if __name__ == "__main__":
    main()
