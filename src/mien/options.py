"""One options model per task: library keywords = CLI flags = HTTP schema = form.

Every field has a *scope*: `request` (anyone may set it), `operator` (whoever runs the machine) or
`local` (only the command line and the library, since it names paths or raw encoder settings).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

DEVICES = (
    "auto, cpu, cuda, tensorrt, openvino, coreml, directml, rocm or migraphx, some of them by number as in cuda:0,1"
)
DEVICE = r"^(auto|cpu|coreml|(cuda|tensorrt|openvino|directml|rocm|migraphx)(:[0-9]{1,3}(,[0-9]{1,3})*)?)$"
Scope = Literal["request", "operator", "local"]
Fusion = Literal["swapgan", "classic"]


def is_device(text: str) -> bool:
    """Whether this names a device, and none twice."""
    numbers = text.partition(":")[2].split(",")
    return re.fullmatch(DEVICE, text) is not None and len(set(numbers)) == len(numbers)


def _check_device(text: str) -> str:
    if not is_device(text):
        raise PydanticCustomError("device", "choose {devices}", {"devices": DEVICES})  # a pattern tells nobody much
    return text


Device = Annotated[str, AfterValidator(_check_device), WithJsonSchema({"type": "string", "pattern": DEVICE})]
"""Where networks run; `runtime.devices` tells what each part means."""

TRIM = r"^$|^[0-9:.]*-[0-9:.]*$"
RATE = r"^$|^[0-9]+(\.[0-9]+)?$|^[0-9]+/[0-9]+$"
SCALE = r"^$|^[0-9]+x[0-9]*$|^x[0-9]+$"


def _field(default: Any, scope: Scope, text: str, **limits: Any) -> Any:
    return Field(default, description=text, json_schema_extra={"scope": scope}, **limits)


class AnalyzeOptions(BaseModel):
    """How faces are found and described."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: Device = _field("auto", "operator", f"Where networks run: {DEVICES}. One that is not there is an error.")
    detector: str = _field("yunet", "request", "Face detectors, joined by +.")
    robust: Literal["auto", "on", "off"] = _field(
        "auto",
        "request",
        "Search again on restored pictures and with a second detector: auto where nothing is found, on always.",
    )
    landmarker: str = _field("mesh478", "request", "Landmark model.")
    embedder: str = _field("mobilefacenet", "request", "Identity embedder.")
    min_score: float = _field(0.6, "request", "Detector score below which a face is ignored.", ge=0, le=1)
    min_face: int = _field(20, "request", "Smallest face side in pixels.", ge=8, le=4096)
    detect_size: int = _field(
        0, "request", "Longest side, in pixels, of the image the detector sees; 0 chooses by content.", ge=0, le=8192
    )
    trim: Annotated[str, Field(pattern=TRIM)] = _field(
        "", "request", "Part to work on, START-END in seconds or H:M:S; either may be left out."
    )
    max_seconds: float = _field(0.0, "request", "Work on at most this many seconds; 0 on all.", ge=0, le=1e6)
    fps: Annotated[str, Field(pattern=RATE)] = _field(
        "",
        "request",
        "Frames per second of the output, such as 25 or 30000/1001; empty keeps every frame and its time.",
    )
    scale: Annotated[str, Field(pattern=SCALE)] = _field(
        "", "request", "Size of the output, WIDTHxHEIGHT; one may be left out to keep the shape."
    )
    max_pixels: int = _field(
        200_000_000, "operator", "Frames of more pixels are not opened.", ge=1024, le=2_000_000_000
    )
    max_duration: float = _field(86_400.0, "operator", "Targets of more seconds are not opened.", ge=1, le=1e7)
    max_fps: int = _field(1000, "operator", "Targets of more frames per second are not opened.", ge=1, le=100_000)
    max_streams: int = _field(64, "operator", "Targets of more tracks are not opened.", ge=1, le=10_000)
    model_timeout: float = _field(
        300.0, "operator", "Seconds after which a step that does not end counts as hung.", ge=0.1, le=86_400
    )
    fallback: Literal["none", "cpu"] = _field(
        "none", "operator", "Where a network goes on when its device has no memory left even for one face."
    )
    precision: Literal["auto", "fp32", "fp16"] = _field(
        "auto",
        "operator",
        "Precision of networks on a GPU: auto computes large ones in half where that passes a test against full.",
    )
    memory_limit: int = _field(
        0,
        "operator",
        "Megabytes that the process may take when it loads a network, else those not in use are closed; 0: no limit.",
        ge=0,
        le=10_000_000,
    )


class SwapOptions(AnalyzeOptions):
    """How a face is swapped and how the result is written."""

    swapper: str = _field("texture", "request", "Swap model.")
    pixel_boost: int = _field(
        0,
        "request",
        "Side of the square that a face is swapped in over the model's own; 0 chooses by the face.",
        ge=0,
        le=4,
    )
    masker: str = _field("occluder", "request", "Models that find what covers a target's face, joined by +.")
    source_masker: str = _field(
        "skin_hair+occluder", "request", "Models that find what covers a source's face, joined by +."
    )
    fusion: Fusion = _field(
        "swapgan",
        "request",
        "How the texture swapper blends: swapgan by its network, classic by arithmetic alone.",
    )
    shape: float = _field(
        1.0, "request", "0 keeps the target's shape of the face, 1 takes the source's (texture swapper).", ge=0, le=1
    )
    skin_tone: float = _field(0.0, "request", "0 keeps the target's skin tone, 1 takes the source's.", ge=0, le=1)
    min_similarity: float = _field(
        0.3, "request", "Similarity to the source below which a swapped face is reported as doubtful.", ge=-1, le=1
    )
    encoder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")] = _field(
        "auto", "local", "Video encoder by its FFmpeg name; auto chooses by the output's container."
    )
    crf: int = _field(17, "request", "Constant rate factor: lower is better and larger.", ge=0, le=63)
    preset: str = _field("medium", "request", "Encoder speed preset.")
    pixel_format: str = _field("auto", "local", "Encoder pixel format; auto keeps the target's where it can.")
    encoder_threads: int = _field(4, "local", "Encoder threads; fixed, since the bytes depend on it.", ge=1, le=64)
    image_quality: int = _field(95, "request", "JPEG and WebP quality of the output.", ge=1, le=100)
    resume: bool = _field(False, "local", "Go on with the interrupted run whose work lies in OUTPUT.mien.")
    segment_frames: int = _field(
        250, "local", "Frames between two points from which an interrupted video can go on.", ge=1, le=100_000
    )
    batch_frames: int = _field(
        0, "operator", "Frames whose faces are swapped as one batch; 0 measures what the device gains.", ge=0, le=32
    )
    queue_size: int = _field(4, "operator", "Frames that may wait between two stages.", ge=1, le=64)
