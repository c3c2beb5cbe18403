"""mien swaps faces in photos and videos, touching only the face.

    import mien

    report = mien.swap("source.jpg", "target.mp4", "output.mp4")

Names are imported when they are first used, so `import mien` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mien.errors import (
    DeviceError,
    DownloadError,
    GeometryError,
    InputError,
    MediaError,
    MienError,
    ModelError,
    NoFaceError,
    OptionsError,
    OutputError,
    PipelineError,
    RefusedError,
)

if TYPE_CHECKING:
    from mien.analysis import Analysis
    from mien.api import analyze, cosine_similarity, swap
    from mien.identity import Identity
    from mien.options import AnalyzeOptions, SwapOptions
    from mien.pipeline import Pipeline
    from mien.report import FaceReport, Progress, Report
    from mien.tracking import Track
    from mien.types import Face
    from mien.zoo.registry import Zoo

__all__ = [
    "Analysis",
    "AnalyzeOptions",
    "DeviceError",
    "DownloadError",
    "Face",
    "FaceReport",
    "GeometryError",
    "Identity",
    "InputError",
    "MediaError",
    "MienError",
    "ModelError",
    "NoFaceError",
    "OptionsError",
    "OutputError",
    "Pipeline",
    "PipelineError",
    "Progress",
    "RefusedError",
    "Report",
    "SwapOptions",
    "Track",
    "Zoo",
    "analyze",
    "cosine_similarity",
    "swap",
]


def __getattr__(name: str) -> Any:
    homes = {
        "mien.analysis": ("Analysis",),
        "mien.api": ("analyze", "cosine_similarity", "swap"),
        "mien.identity": ("Identity",),
        "mien.options": ("AnalyzeOptions", "SwapOptions"),
        "mien.pipeline": ("Pipeline",),
        "mien.report": ("FaceReport", "Progress", "Report"),
        "mien.tracking": ("Track",),
        "mien.types": ("Face",),
        "mien.zoo.registry": ("Zoo",),
    }
    for module, names in homes.items():
        if name in names:
            from importlib import import_module

            return globals().setdefault(name, getattr(import_module(module), name))
    raise AttributeError(f"module 'mien' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
