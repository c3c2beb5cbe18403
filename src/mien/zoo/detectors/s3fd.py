"""S3FD: an anchor-based detector without points, good at small and covered faces.

Zhang et al., "S³FD: Single Shot Scale-invariant Face Detector", 2017; weights of face-alignment (BSD-3-Clause).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.anchors import check_cells, corners, detections, face_of_two, fit, from_priors, minus_mean
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

STRIDES = (4, 8, 16, 32, 64, 128)
LAYOUT = np.array([(0.266, 0.392), (0.734, 0.392), (0.5, 0.597), (0.293, 0.737), (0.707, 0.737)], np.float32)
"""Where the points of upright faces lie in their boxes: YuNet's mean over 61 portraits, made symmetric."""


@register(
    ModelCard(
        name="s3fd",
        task="detector",
        licence="BSD-3-Clause",
        commercial=True,
        origin="https://github.com/1adrianb/face-alignment",
        weights=Weights("s3fd.onnx", bundled=False),
    )
)
class S3FD:
    """Detector; finds faces from about 10 px, many of them half covered.

    It gives no points. Its detections are marked as `guessed` and have the mean layout of upright faces inside the
    box, so a face that it alone finds must be about upright to be confirmed by a landmarker.
    """

    card: ModelCard

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        outputs = [("n", width, None, None) for _ in STRIDES for width in (2, 4)]
        self._network = Network(self.card, where, file, [("n", 3, None, None)], outputs)

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        """Faces in one H×W×3 RGB uint8 image of any size, best first, in its pixels."""
        fitted = fit(image, self._network, 64)
        outputs = self._network(minus_mean(fitted.image))
        wanted = [math.prod(-(-side // stride) for side in fitted.size) for stride in STRIDES for _ in range(2)]
        found = [output.shape[2] * output.shape[3] for output in outputs]
        # The coarse maps reach beyond the picture where fc6 is padded by 3, as its authors have it.
        check_cells(self.card.name, [*found[:6], *map(min, found[6:], wanted[6:])], wanted)
        boxes, scores = decode([output[0] for output in outputs], min_score)
        points = boxes[:, None, :2] + LAYOUT * (boxes[:, None, 2:] - boxes[:, None, :2])
        return detections(self.card.name, boxes, scores, points, fitted.scale, guessed=True)


def decode(outputs: Sequence[FloatArray], min_score: float) -> tuple[FloatArray, FloatArray]:
    """(K, 4) boxes and (K,) scores of all cells that reach `min_score`.

    `outputs`: pairs of 2×h×w background and face, logits or probabilities, and 4×h×w offsets, at strides 4 to 128.
    """
    found: list[tuple[FloatArray, FloatArray]] = []
    for level, stride in enumerate(STRIDES):
        rows, columns = outputs[2 * level].shape[1:]
        pairs, offsets = (output.reshape(len(output), -1).T for output in outputs[2 * level : 2 * level + 2])
        scores = face_of_two(pairs)
        hits = np.flatnonzero(scores >= min_score)
        centres = (corners((columns * stride, rows * stride), stride)[hits] + stride / 2).astype(np.float32)
        sides = np.full((len(hits), 1), 4 * stride, np.float32)
        boxes, _ = from_priors(offsets[hits], np.zeros((len(hits), 10), np.float32), centres, sides)
        found.append((boxes, scores[hits]))
    boxes, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return boxes, scores
