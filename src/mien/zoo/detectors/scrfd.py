"""SCRFD, and the RetinaFace with its outputs: anchor-based detectors with 5 points from InsightFace's packs.

Guo et al., "Sample and Computation Redistribution for Efficient Face Detection", 2021. The weights are for
non-commercial research, by the README of InsightFace's Python package; its code is MIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.anchors import check_cells, corners, detections, fit
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

STRIDES = (8, 16, 32)
ANCHORS = 2
"""Anchors per cell; both lie at its top left corner."""
ROWS = (1, 4, 10)
"""Values per anchor: score, distances to the box's sides, offsets of the points."""


class SCRFD:
    """Detector; finds upright faces of about 10 px and more in its input.

    Inputs may be free or fixed to one size. Scores come through the graph's own sigmoid.
    """

    card: ModelCard
    order: ClassVar[Literal["RGB", "BGR"]] = "RGB"
    """Channels as InsightFace feeds them; FaceFusion feeds BGR to the same files."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        flat = [(None, width) for width in ROWS for _ in STRIDES]
        batched = [("n", None, width) for width in ROWS for _ in STRIDES]
        self._network = Network(self.card, where, file, [("n", 3, None, None)], flat, or_outputs=batched)

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        """Faces in one H×W×3 RGB uint8 image of any size, best first, in its pixels."""
        fitted = fit(image, self._network)
        pixels = fitted.image if self.order == "RGB" else fitted.image[:, :, ::-1]
        outputs = self._network(np.ascontiguousarray(((pixels - np.float32(127.5)) / 128).transpose(2, 0, 1)[None]))
        rows = [output.reshape(-1, output.shape[-1]) for output in outputs]
        cells = [ANCHORS * -(-fitted.size[0] // s) * -(-fitted.size[1] // s) for s in STRIDES] * len(ROWS)
        check_cells(self.card.name, [len(part) for part in rows], cells)
        return detections(self.card.name, *decode(rows, fitted.size, min_score), fitted.scale)


def decode(
    outputs: Sequence[FloatArray], size: tuple[int, int], min_score: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(K, 4) boxes, (K,) scores and (K, 5, 2) points of all anchors that reach `min_score`.

    `outputs`: scores, boxes, points at strides 8, 16, 32, each anchors×C, for an input of width × height pixels.
    """
    found: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for level, stride in enumerate(STRIDES):
        scores, sides, points = (outputs[level + 3 * kind] for kind in range(3))
        hits = np.flatnonzero(scores[:, 0] >= min_score)
        anchors = corners(size, stride, ANCHORS)[hits]
        far = sides[hits] * stride
        boxes = np.concatenate([anchors - far[:, :2], anchors + far[:, 2:]], 1)
        found.append((boxes, scores[hits, 0], anchors[:, None] + points[hits].reshape(-1, 5, 2) * stride))
    boxes, scores, points = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return boxes, scores, points


def _card(name: str, weights: Weights) -> ModelCard:
    return ModelCard(
        name=name,
        task="detector",
        licence="LicenseRef-InsightFace-non-commercial-research",
        commercial=False,
        origin="https://github.com/deepinsight/insightface/tree/master/python-package",
        weights=weights,
    )


@register(
    _card(
        "scrfd_500m",
        Weights(
            "det_500m.onnx",
            "5e4447f50245bbd7966bd6c0fa52938c61474a04ec7def48753668a9d8b4ea3a",
            2524817,
            ("https://github.com/yakhyo/uniface/releases/download/weights/scrfd_500m_kps.onnx",),
            bundled=False,
        ),
    )
)
class SCRFD500M(SCRFD):
    """The smallest one, of the packs buffalo_s and buffalo_sc."""


@register(
    _card(
        "scrfd_2.5g",
        Weights(
            "scrfd_2.5g_bnkps.onnx",
            "bc24bb349491481c3ca793cf89306723162c280cb284c5a5e49df3760bf5c2ce",
            urls=("https://github.com/visomaster/visomaster-assets/releases/download/v0.1.0/scrfd_2.5g_bnkps.onnx",),
            bundled=False,
        ),
    )
)
class SCRFD2G(SCRFD):
    """The middle one, of the pack buffalo_m."""


@register(
    _card(
        "scrfd_10g",
        Weights(
            "det_10g.onnx",
            "5838f7fe053675b1c7a08b633df49e7af5495cee0493c7dcf6697200b85b5b91",
            16923827,
            ("https://github.com/yakhyo/uniface/releases/download/weights/scrfd_10g_kps.onnx",),
            bundled=False,
        ),
    )
)
class SCRFD10G(SCRFD):
    """The largest one, of the packs buffalo_l and antelopev2."""


@register(_card("retinaface_10g", Weights("retinaface_10g.onnx", bundled=False)))
class RetinaFace10G(SCRFD):
    """What FaceFusion calls RetinaFace: the outputs and the decoding are SCRFD's."""
