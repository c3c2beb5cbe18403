"""Several detectors as one: `yunet+retinaface_mnet025` finds what any of them finds, each face once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mien.types import ByteArray, Detection
from mien.zoo.cards import ModelCard
from mien.zoo.contracts import Detector
from mien.zoo.nms import nms
from mien.zoo.registry import Zoo


def load_detector(zoo: Zoo, names: str) -> Detector:
    """The detector of that name, or a `Cascade` of several, joined by +.

    Raises:
        OptionsError, ModelError, DeviceError: see `Zoo.load`.
    """
    parts: list[Detector] = list(dict.fromkeys(zoo.load("detector", name) for name in names.split("+")))
    return parts[0] if len(parts) == 1 else Cascade(parts)


class Cascade:
    """The union of several detectors, merged by NMS over all.

    Scores are put on YuNet's scale by each family's `calibration`, pairs of its own score and YuNet's for an equal
    share of faces found and of mistakes; families without one keep theirs. Hits whose keypoints are guessed (S3FD)
    never hide one that saw them.
    """

    card: ModelCard

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = tuple(detectors)
        self.card = replace(detectors[0].card, name="+".join(detector.card.name for detector in detectors))

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]:
        """Faces in one H×W×3 RGB uint8 image, those with keypoints of their own first, then best first."""
        return merged([hit for detector in self._detectors for hit in calibrated(detector, image, min_score)])


def calibrated(detector: Detector, image: ByteArray, min_score: float) -> list[Detection]:
    """What one detector finds, its scores and `min_score` on YuNet's scale."""
    knots: Sequence[tuple[float, float]] = getattr(detector, "calibration", ())
    if not knots:
        return detector(image, min_score)
    own, common = zip(*knots, strict=True)
    hits = detector(image, float(np.interp(min_score, common, own)))
    scored = [replace(hit, score=float(np.interp(hit.score, own, common))) for hit in hits]
    return [hit for hit in scored if hit.score >= min_score]


def merged(hits: Sequence[Detection]) -> list[Detection]:
    """Each face once: of hits that overlap, one with keypoints of its own, and of those the best."""
    if not hits:
        return []
    ranks = np.array([hit.score - hit.guessed for hit in hits], np.float32)
    return [hits[i] for i in nms(np.stack([hit.bbox for hit in hits]), ranks)]
