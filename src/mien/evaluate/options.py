"""What is evaluated: the options of a swap, and how many of them are judged."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mien.options import SwapOptions


def _field(default: Any, text: str, **limits: Any) -> Any:
    return Field(default, description=text, json_schema_extra={"scope": "local"}, **limits)


class EvalOptions(SwapOptions):
    """How swaps are evaluated; the swaps themselves are made by the options of a swap."""

    part: str = _field("", "Swap only people whose `part` in the table is this, such as held-out; empty: all.")
    sources: str = _field("", "Folders that sources and the gallery are taken from, joined by +; empty: all.")
    targets: str = _field("", "Folders that targets are taken from, joined by +; empty: all.")
    pairs: int = _field(100, "Swaps of one person onto another.", ge=1, le=100_000)
    same_person: int = _field(
        20, "Swaps of a person's photo onto another photo of theirs; 0 leaves this out.", ge=0, le=100_000
    )
    cycles: int = _field(20, "People swapped to another and back; 0 leaves this out.", ge=0, le=100_000)
    clip_swaps: int = _field(1, "Sources put on each clip of `clips`; 0 leaves clips out.", ge=0, le=1000)
    clip_frames: int = _field(48, "Frames of a clip that are looked at.", ge=3, le=10_000)
    landmarks: int = _field(
        200, "Photos with hand-placed points that landmarks are compared with; 0 leaves this out.", ge=0, le=100_000
    )
    seed: int = _field(0, "Chooses the pairs and the resampling.", ge=0, le=1_000_000)
    examples: int = _field(5, "Best, typical and worst swaps on a sheet.", ge=1, le=20)

    def swap_options(self) -> SwapOptions:
        """The options of the swaps."""
        return SwapOptions(**{name: getattr(self, name) for name in SwapOptions.model_fields})
