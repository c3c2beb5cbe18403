"""RetinaFace with priors: anchor-based detectors with 5 points.

Deng et al., "RetinaFace: Single-stage Dense Face Localisation in the Wild", 2019; weights by biubug6 (MIT).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.anchors import check_cells, corners, detections, face_of_two, fit, from_priors, minus_mean
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

STRIDES = (8, 16, 32)


class RetinaFace:
    """Detector; finds upright faces from about 10 px.

    Inputs may be free or fixed to one size. *conf* may be logits or probabilities; see `anchors.face_of_two`.
    """

    card: ModelCard
    priors: ClassVar[tuple[tuple[int, int], ...]] = ((16, 32), (64, 128), (256, 512))
    """Sides in pixels of the two square priors of each cell, by stride."""

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        outputs = [("n", None, width) for width in (4, 2, 10)]
        self._network = Network(self.card, where, file, [("n", 3, None, None)], outputs)

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        """Faces in one H×W×3 RGB uint8 image of any size, best first, in its pixels."""
        fitted = fit(image, self._network)
        outputs = self._network(minus_mean(fitted.image))
        count = sum(2 * -(-fitted.size[0] // s) * -(-fitted.size[1] // s) for s in STRIDES)
        check_cells(self.card.name, [output.shape[1] for output in outputs], [count] * 3)
        found = decode([output[0] for output in outputs], fitted.size, self.priors, min_score)
        return detections(self.card.name, *found, fitted.scale)


def decode(
    outputs: Sequence[FloatArray], size: tuple[int, int], priors: Sequence[tuple[int, int]], min_score: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(K, 4) boxes, (K,) scores and (K, 5, 2) points of all priors that reach `min_score`.

    `outputs`: loc, conf, landm, each priors×C, for an input of width × height pixels.
    """
    loc, conf, landm = outputs
    scores = face_of_two(conf)
    hits = np.flatnonzero(scores >= min_score)
    grids = [corners(size, stride, 2) + stride / 2 for stride in STRIDES]
    sides = [np.tile(np.array(pair, np.float32), len(grid) // 2) for pair, grid in zip(priors, grids, strict=True)]
    centres, sizes = np.concatenate(grids)[hits], np.concatenate(sides)[hits, None]
    boxes, points = from_priors(loc[hits], landm[hits], centres.astype(np.float32), sizes)
    return boxes, scores[hits], points


@register(
    ModelCard(
        name="retinaface_mnet025",
        task="detector",
        licence="MIT",
        commercial=True,
        origin="https://github.com/biubug6/Face-Detector-1MB-with-landmark",
        weights=Weights(
            "retinaface_mnet025.onnx", "7f8e2191b9ac22876aa8ad1592a47c867b4871582c3c4d5922eed1cb98db94e2", 1751137
        ),
    )
)
class RetinaFaceMnet025(RetinaFace):
    """The small one: MobileNet 0.25, one of the two detectors that ship."""

    priors = ((10, 20), (32, 64), (128, 256))
    calibration: ClassVar[tuple[tuple[float, float], ...]] = (
        (0.0, 0.0), (0.2, 0.1), (0.3, 0.2), (0.75, 0.5), (0.84, 0.6), (0.88, 0.7), (0.93, 0.8), (0.995, 0.9),
        (1.0, 0.92),
    )  # fmt: skip
    """Its own scores and YuNet's, at which both find as many of 183 plain, blurred, dark and noisy faces, or make as
    many mistakes. The last one is what YuNet gives to turned faces too, so that none of these counts as upright."""


@register(
    ModelCard(
        name="retinaface_resnet50",
        task="detector",
        licence="MIT",
        commercial=True,
        origin="https://github.com/biubug6/Pytorch_Retinaface",
        weights=Weights("retinaface_resnet50.onnx", bundled=False),
    )
)
class RetinaFaceResNet50(RetinaFace):
    """The large one: ResNet-50, trained on WIDER FACE."""
