"""One options model per task: library keywords = CLI flags = HTTP schema = form.

Every field has a *scope*: `request` (anyone may set it), `operator` (whoever runs the machine) or
`local` (only the command line and the library, since it names paths or raw encoder settings).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Device = Literal["auto", "cpu", "cuda", "tensorrt"]
Scope = Literal["request", "operator", "local"]


def _field(default: Any, scope: Scope, text: str, **limits: Any) -> Any:
    return Field(default, description=text, json_schema_extra={"scope": scope}, **limits)


class AnalyzeOptions(BaseModel):
    """How faces are found and described."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: Device = _field("auto", "operator", "Where networks run; a device that is not there is an error.")
    detector: str = _field("yunet", "request", "Face detector.")
    landmarker: str = _field("mesh478", "request", "Landmark model.")
    embedder: str = _field("mobilefacenet", "request", "Identity embedder.")
    min_score: float = _field(0.6, "request", "Detector score below which a face is ignored.", ge=0, le=1)
    min_face: int = _field(20, "request", "Smallest face side in pixels.", ge=8, le=4096)
    detect_size: int = _field(
        0, "request", "Longest side, in pixels, of the image the detector sees; 0 chooses by content.", ge=0, le=8192
    )


class SwapOptions(AnalyzeOptions):
    """How a face is swapped and how the result is written."""

    swapper: str = _field("texture", "request", "Swap model.")
    masker: str = _field("occluder", "request", "Models that find what covers a target's face, joined by +.")
    source_masker: str = _field(
        "skin_hair+occluder", "request", "Models that find what covers a source's face, joined by +."
    )
    skin_tone: float = _field(0.0, "request", "0 keeps the target's skin tone, 1 takes the source's.", ge=0, le=1)
    min_similarity: float = _field(
        0.3, "request", "Similarity to the source below which a swapped face is reported as doubtful.", ge=-1, le=1
    )
    encoder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] = _field(
        "auto", "local", "Video encoder by its FFmpeg name; auto chooses by the output's container."
    )
    crf: int = _field(17, "request", "Constant rate factor: lower is better and larger.", ge=0, le=63)
    preset: str = _field("medium", "request", "Encoder speed preset.")
    pixel_format: str = _field("auto", "local", "Encoder pixel format; auto keeps the target's where it can.")
    encoder_threads: int = _field(4, "local", "Encoder threads; fixed, since the bytes depend on it.", ge=1, le=64)
    image_quality: int = _field(95, "request", "JPEG and WebP quality of the output.", ge=1, le=100)
    queue_size: int = _field(4, "operator", "Frames that may wait between two stages.", ge=1, le=64)
