"""YOLOv8-face and YOLOv5-face: one-stage detectors with 5 points, whose graphs decode their boxes themselves.

Qi et al., "YOLO5Face: Why Reinventing a Face Detector", 2021; YOLOv8-face is derronqi's, on Ultralytics' YOLOv8 (whose
own code is AGPL-3.0). Both give their weights under the GPL: whoever passes on a file passes on its terms.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.anchors import centred, check_cells, detections, fit
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

STRIDES = (8, 16, 32)


class YoloFace:
    """What both versions share: RGB 0–1 in, one row per anchor out, in the input's pixels."""

    card: ModelCard
    order: ClassVar[Literal["RGB", "BGR"]] = "RGB"
    per_cell: ClassVar[int]
    """Anchors per cell."""
    shape: ClassVar[tuple[int | str | None, ...]]
    """The output."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 3, None, None)], [self.shape])

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        """Faces in one H×W×3 RGB uint8 image of any size, best first, in its pixels."""
        fitted = fit(image, self._network)
        pixels = fitted.image if self.order == "RGB" else fitted.image[:, :, ::-1]
        rows = self._rows(
            self._network(np.ascontiguousarray((pixels / np.float32(255)).transpose(2, 0, 1)[None]))[0][0]
        )
        count = sum(self.per_cell * -(-fitted.size[0] // s) * -(-fitted.size[1] // s) for s in STRIDES)
        check_cells(self.card.name, [len(rows)], [count])
        scores = self._scores(rows)
        hits = np.flatnonzero(scores >= min_score)
        boxes, points = centred(rows[hits]), self._points(rows[hits])
        return detections(self.card.name, boxes, scores[hits], points, fitted.scale)

    def _rows(self, output: FloatArray) -> FloatArray:
        return output

    def _scores(self, rows: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _points(self, rows: FloatArray) -> FloatArray:
        raise NotImplementedError


@register(
    ModelCard(
        name="yolov8n_face",
        task="detector",
        licence="GPL-3.0-only",
        commercial=True,
        origin="https://github.com/derronqi/yolov8-face",
        weights=Weights(
            "yoloface_8n.onnx",
            "84d5bb985b0ea75fc851d7454483897b1494c71c211759b4fec3a22ac196d206",
            urls=("https://github.com/visomaster/visomaster-assets/releases/download/v0.1.0/yoloface_8n.onnx",),
            bundled=False,
        ),
    )
)
class YoloV8Face(YoloFace):
    """1×20×anchors: centre, size, score, and x, y, visibility of each point."""

    per_cell = 1
    shape = ("n", 20, None)

    def _rows(self, output: FloatArray) -> FloatArray:
        return output.T

    def _scores(self, rows: FloatArray) -> FloatArray:
        return rows[:, 4]

    def _points(self, rows: FloatArray) -> FloatArray:
        return rows[:, 5:].reshape(-1, 5, 3)[:, :, :2]


@register(
    ModelCard(
        name="yolov5_face",
        task="detector",
        licence="GPL-3.0-only",
        commercial=True,
        origin="https://github.com/deepcam-cn/yolov5-face",
        weights=Weights(
            "yolov5n_face.onnx",
            "eb244a06e36999db732b317c2b30fa113cd6cfc1a397eaf738f2d6f33c01f640",
            11021477,
            ("https://github.com/yakhyo/yolov5-face-onnx-inference/releases/download/weights/yolov5n_face.onnx",),
            bundled=False,
        ),
    )
)
class YoloV5Face(YoloFace):
    """1×anchors×16: centre, size, objectness, x and y of each point, class; the score is objectness · class."""

    per_cell = 3
    shape = ("n", None, 16)

    def _scores(self, rows: FloatArray) -> FloatArray:
        return rows[:, 4] * rows[:, 15]

    def _points(self, rows: FloatArray) -> FloatArray:
        return rows[:, 5:15].reshape(-1, 5, 2)
