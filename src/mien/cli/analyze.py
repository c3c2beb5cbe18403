"""`mien analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json, check, options_from
from mien.cli.progress import bar
from mien.options import AnalyzeOptions

if TYPE_CHECKING:
    from mien import Analysis


@options_from(AnalyzeOptions)
def analyze(
    file: Annotated[Path, Parameter(help="Photo or video to look at.")],
    /,
    *,
    json: Json = False,
    debug: Debug = False,
    **options: Any,
) -> int:
    """Find and describe the faces of a photo or a video. No face is no failure."""
    check(AnalyzeOptions, options)
    from mien import analyze as run

    with bar(quiet=False) as progress:
        analysis = run(file, progress=progress, **options)
    with analysis:
        if json:
            print_json(analysis.to_dict())
        else:
            print("\n".join(_lines(file, analysis)))
    return 0


def _lines(file: Path, analysis: Analysis) -> list[str]:
    found = analysis.to_dict(faces=False)
    size = f"{found['width']}×{found['height']}"
    lines = [f"{file}: {size}, frames {found['frame_count']}, faces {found['face_count']}, cuts {len(found['cuts'])}"]
    for track in found["tracks"]:
        box = ", ".join(f"{value:.0f}" for value in track["bbox"])
        frames = f"frames {track['first']} to {track['last']}"
        lines.append(f"track {track['track']}: {frames}, faces {track['faces']}, first at {box}")
    return lines
