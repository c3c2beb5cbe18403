"""YuNet: a tiny one-stage detector with 5 points.

Wu et al., "YuNet: A Tiny Millisecond-level Face Detector", 2023; weights from libfacedetection.train.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from mien.errors import ModelError
from mien.runtime.session import Where
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.anchors import detections, fit
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

STRIDES = (8, 16, 32)


@register(
    ModelCard(
        name="yunet",
        task="detector",
        licence="Apache-2.0",
        commercial=True,
        origin="https://github.com/ShiqiYu/libfacedetection.train",
        weights=Weights("yunet_n.onnx", "104ee26c71d5c270ce79a6b3dced91c91013260d29a6bf18f9296c5b8c4c2b12", 322906),
    )
)
class YuNet:
    """Detector; finds upright faces of about 10 px and more in the image it is given."""

    card: ModelCard
    sides: ClassVar[tuple[str | None, str | None]] = ("h", "w")
    """Height and width of the input; None may be fixed."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        count = "cells" if all(self.sides) else None
        outputs = [("n", count, width) for width in (1, 1, 4, 10) for _ in STRIDES]
        self._network = Network(self.card, where, file, [("n", 3, *self.sides)], outputs)

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        """Faces in one H×W×3 RGB uint8 image, best first, in its pixels."""
        fitted = fit(image, self._network)
        width, height = fitted.size
        outputs = self._network(fitted.image[None, :, :, ::-1].transpose(0, 3, 1, 2).astype(np.float32, order="C"))
        cells = [(height // stride) * (width // stride) for stride in STRIDES] * 4
        if any(output.shape[:2] != (1, count) for output, count in zip(outputs, cells, strict=True)):
            found = ", ".join(str(output.shape[1]) for output in outputs)
            raise ModelError(f"{self.card.name}: gave {found} cells, not {cells}; this file is not YuNet")
        boxes, scores, points = decode(outputs, width, height, min_score)
        return detections(self.card.name, boxes, scores, points, fitted.scale)


@register(
    ModelCard(
        name="yunet_2023mar",
        task="detector",
        licence="MIT",
        commercial=True,
        origin="https://github.com/opencv/opencv_zoo/tree/main/models/face_detection_yunet",
        weights=Weights(
            "face_detection_yunet_2023mar.onnx",
            "8f2383e4dd3cfbb4553ea8718107fc0423210dc964f9f4280604804ed2552fa4",
            232589,
            ("https://huggingface.co/opencv/face_detection_yunet/resolve/main/face_detection_yunet_2023mar.onnx",),
            bundled=False,
        ),
    )
)
class YuNet2023Mar(YuNet):
    """The one of OpenCV's zoo, whose input is fixed to 640 × 640 in some exports."""

    sides = (None, None)


def decode(
    outputs: Sequence[FloatArray], width: int, height: int, min_score: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(K, 4) boxes, (K,) scores and (K, 5, 2) points of all cells that reach `min_score`.

    `outputs`: cls, obj, bbox, kps at strides 8, 16, 32, each 1×cells×C, for a width × height input.
    """
    found: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for level, stride in enumerate(STRIDES):
        cls, obj, box, kps = (outputs[level + 3 * kind][0] for kind in range(4))
        score = np.sqrt(np.clip(cls[:, 0], 0, 1) * np.clip(obj[:, 0], 0, 1))
        cells = np.flatnonzero(score >= min_score)
        origin = np.stack([cells % (width // stride), cells // (width // stride)], 1).astype(np.float32)
        centre, half = (origin + box[cells, :2]) * stride, _exp(box[cells, 2:]) * (stride / 2)
        points = (origin[:, None] + kps[cells].reshape(-1, 5, 2)) * stride
        found.append((np.concatenate([centre - half, centre + half], 1), score[cells], points))
    boxes, scores, points = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return boxes, scores, points


def _exp(values: FloatArray) -> FloatArray:
    """Infinite, without a warning, where a network gave nonsense: its caller looks."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(values), np.float32)
