"""`mien bench`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json, check, options_from
from mien.options import SwapOptions

if TYPE_CHECKING:
    from mien.bench import Bench


@options_from(SwapOptions)
def bench(
    file: Annotated[Path | None, Parameter(help="Photo or video to swap; an example unless given.")] = None,
    /,
    *,
    source: Annotated[
        Path | None, Parameter(name=("--source", "-s"), help="Photo of the face to put in; an example unless given.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
    **options: Any,
) -> int:
    """Measure how fast this machine is: each model, a short swap, and the limit that decoding and encoding set."""
    check(SwapOptions, options)
    from mien.bench import bench as run

    measured = run(file, source, SwapOptions(**options))
    if json:
        print_json(measured.to_dict())
    else:
        print("\n".join(_lines(measured)))
    return 0


def _lines(measured: Bench) -> Iterator[str]:
    machine = dict(measured.machine)
    yield f"{machine.pop('processor')}, cores {machine.pop('cores')}, {machine.pop('system')}"
    yield ", ".join(f"{name} {value}" for name, value in machine.items())
    yield ""
    yield f"{'model':<24}{'task':<12}{'device':<12}{'ms':>10}"
    for model in measured.models:
        yield f"{model.name:<24}{model.task:<12}{model.device:<12}{model.ms:>10.2f}"
    yield ""
    yield f"{measured.file}: {measured.width}×{measured.height}, frames {measured.frames}"
    yield f"{'swap':<24}{measured.fps:>10.1f} frames a second"
    yield f"{'limit':<24}{measured.limit_fps:>10.1f} frames a second, decoding and encoding alone"
    yield f"{'ratio':<24}{measured.ratio:>10.2f}"
    if measured.peak_memory_mb is not None:
        yield f"{'peak memory':<24}{measured.peak_memory_mb:>10.0f} MB"
    yield ""
    yield f"{'stage':<24}{'busy ms a frame':>16}"
    for name, milliseconds in measured.stages.items():
        yield f"{name:<24}{milliseconds:>16.2f}"
