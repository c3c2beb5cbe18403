"""DFM: DeepFaceLive's swappers, each trained on one person with DeepFaceLab, so that none takes a source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from mien.errors import ModelError
from mien.runtime.session import Where
from mien.types import Face, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import Source, SourceNeeds
from mien.zoo.registry import register
from mien.zoo.swappers._template import TemplateSwapper, join, uncovered
from mien.zoo.tensors import Network

MORPH = 1.0
"""How much of the trained person shows, in files that can mix both; all of it."""
RIM = 0.025
"""Width of the masks' soft border, as a share of the crop."""


@register(
    ModelCard(
        name="dfm",
        task="swapper",
        licence="LicenseRef-own: as whoever trained the file says",
        commercial=False,
        origin="https://github.com/iperov/DeepFaceLive; a file of your own",
        weights=Weights("model.dfm", bundled=False),
    )
)
class Dfm(TemplateSwapper):
    """Swapper of one person; the size is the file's, and so are the masks."""

    template = "dfl_whole_face"
    needs = SourceNeeds()

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        image, mask = ("n", None, None, 3), ("n", None, None, 1)
        inputs = {"in_face:0": image}
        optional = {"morph_value:0": (1,)}
        self._network = Network(self.card, where, file, inputs, [mask, image, mask], optional=optional)
        (face,) = (tensor for tensor in self._network.inputs if tensor.name == "in_face:0")
        height, width = face.shape[1:3]
        if not isinstance(height, int) or height != width:
            raise ModelError(
                f"{self.card.name}: expected a square in_face but found {height}×{width}; this file is no DFM"
            )
        self.size = height

    def _render(self, tiles: FloatArray, source: Source) -> FloatArray:
        """RGB, and both masks' smaller as a fourth channel."""
        morph = [np.array([MORPH], np.float32)] if self._network.has("morph_value:0") else []
        target, face, trained = self._network(np.ascontiguousarray(tiles[..., ::-1]), *morph)
        if not target.shape[:3] == face.shape[:3] == trained.shape[:3] == tiles.shape[:3]:
            raise ModelError(
                f"{self.card.name}: gave a face and masks of other sizes than its input; this file is no DFM"
            )
        return np.asarray(
            np.clip(np.concatenate([face[..., ::-1], np.minimum(target, trained)], axis=3), 0, 1), np.float32
        )

    def _mask(self, tiles: FloatArray, face: Face, masks: Mapping[str, FloatArray] | None) -> FloatArray:
        own = join(tiles[..., 3:])[..., 0]
        sigma = max(0.7, RIM * len(own))
        # Drawn inward by as much as it is softened, so that none of the crop's own background shows.
        inner = cv2.erode(
            own, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3)), iterations=max(1, round(sigma / 2))
        )
        soft = cv2.GaussianBlur(inner, (0, 0), sigma)
        return np.asarray(np.clip(soft, 0, 1) * uncovered(masks, len(own)), np.float32)
