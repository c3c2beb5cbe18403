"""`mien swap`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mien.cli.files import write_json
from mien.cli.flags import Debug, check, options_from
from mien.cli.progress import bar
from mien.errors import OutputError
from mien.options import SwapOptions

if TYPE_CHECKING:
    from mien import Report


@options_from(SwapOptions)
def swap(
    *,
    source: Annotated[list[Path], Parameter(name=("--source", "-s"), help="Photo of the face to put in; repeatable.")],
    target: Annotated[Path, Parameter(name=("--target", "-t"), help="Photo or video to change.")],
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="File to write; its ending chooses the format.")],
    report: Annotated[Path | None, Parameter(help="Write what was done to this JSON file.")] = None,
    profile: Annotated[Path | None, Parameter(help="Write what each step did when to this JSON file.")] = None,
    quiet: Annotated[bool, Parameter(help="Print nothing but failures.", show_default=False)] = False,
    debug: Debug = False,
    **options: Any,
) -> int:
    """Swap a face into a photo or a video.

    Several -s photos are one person, fused. Every face of the target is swapped.
    """
    check(SwapOptions, options)
    from mien import swap as run

    others = {target, output, *source}
    if report is not None:
        _check_report("report", report, others)
    if profile is not None:
        _check_report("profile", profile, others if report is None else {*others, report})

    with bar(quiet=quiet) as progress, _resumable(output):
        result = run(source, target, output, progress=progress, profile=profile, **options)
    if report is not None:
        write_json(report, result.to_dict())
    if not quiet:
        print(_summary(output, result))
    return 0


@contextmanager
def _resumable(output: Path) -> Iterator[None]:
    """Tell who interrupts a run how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        from mien.media.work import work_path

        folder = work_path(output)
        if not folder.is_dir():
            raise
        raise KeyboardInterrupt(
            f"interrupted; the same command with --resume goes on ({folder} holds the work)"
        ) from None


def _check_report(what: str, path: Path, others: set[Path]) -> None:
    """Find out before a long run that its report or profile could not be written.

    Raises:
        OutputError: no such folder, or it would overwrite another file of this run.
    """
    from mien.media.atomic import check_output

    check_output(path)
    if path.resolve() in {other.resolve() for other in others}:
        raise OutputError(f"{path}: the {what} would overwrite a file of this run; choose another name")


def _summary(output: Path, report: Report) -> str:
    """What was done, on one line, and a line for each thing that the output could not keep."""
    people = "1 face" if len(report.faces) == 1 else f"{len(report.faces)} faces"
    done = f"{people} swapped in {report.frames_with_faces} of {report.frames} frames, {report.seconds:.1f} s"
    doubtful = sum(face.doubtful for face in report.faces)
    warning = f", {doubtful} doubtful (little like the source)" if doubtful else ""
    return "\n".join([f"{output}: {done}{warning}", *(f"note: {note}" for note in report.notes)])
