"""What can be chosen for a public protocol, beside what can be chosen for a swap."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from mien.options import SwapOptions


def _field(default: Any, text: str, **limits: Any) -> Any:
    return Field(default, description=text, json_schema_extra={"scope": "local"}, **limits)


class ProtocolOptions(SwapOptions):
    """How a protocol is run; models are those of the options of a swap."""

    limit: int = _field(0, "Take only so many photos (widerface, wflw), pairs of a fold (lfw) or clips; 0 all.", ge=0)
    search: bool = _field(False, "widerface: judge the whole search for faces, not the detector alone.")
    points: str = _field("", "wflw: landmarker of 98 points, given the annotated boxes; by default the mesh's points.")
    judge: str = _field("", "ffpp: embedder that compares faces; by default the one of --embedder.")
    frames_per_clip: int = _field(10, "ffpp: frames of each clip, evenly spread.", ge=1, le=1000)
    method: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$")] = _field(
        "", "ffpp: judge the clips of manipulated_sequences/METHOD instead of swapping."
    )
