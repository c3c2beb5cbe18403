"""The default swapper: the source's own texture, rendered on the target's mesh at the target's resolution.

Mesh → UV map → texture → blend → eyes and mouth. Blending is done by a network that predicts smooth maps (`swapgan`),
or by arithmetic alone (`classic`). Runs at any size, since everything but the texture itself is a smooth map made on a
small grid and scaled up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mien import classic, fusion
from mien.chart import mouth
from mien.classic import Blended
from mien.color import as_float
from mien.eyes import put_eyes
from mien.fusion import INPUTS, OUTPUTS, SIDE, View
from mien.identity_data import IdentityData
from mien.reshaping import Reshaped, reshaped
from mien.runtime.session import Where
from mien.shape import transfer_strength
from mien.types import Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import Source, SourceNeeds, Style
from mien.zoo.registry import register
from mien.zoo.tensors import Network

CHANNELS = (3, 3, 1, 1, 1, 1)
MAPS = (3, 3, 1, 2)


@register(
    ModelCard(
        name="texture",
        task="swapper",
        licence="Apache-2.0",
        commercial=True,
        origin="mien: trained on synthetic faces and consenting volunteers; see training/swapgan",
        weights=Weights("swapgan.onnx", "51ac6f237972a6afc23ba70abda10c4578e11158c0d1596d082567d23d5f6996", 2990618),
    )
)
class TextureSwapper:
    """Swapper; see the module's text."""

    card: ModelCard
    template = None
    size = 0
    margin = 1.3
    needs_mask = True
    needs = SourceNeeds()

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        inputs = {name: ("n", c, SIDE, SIDE) for name, c in zip(INPUTS, CHANNELS, strict=True)}
        self._network = Network(self.card, where, file, inputs, [("n", c, SIDE, SIDE) for c in MAPS])

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, style: Style,
    ) -> list[Patch]:  # fmt: skip
        """Render the identity on each crop; one call of the network for all.

        Raises:
            ModelError: see `Network`.
        """
        who = source.identity
        plain = style.fusion == "classic"
        strengths = [transfer_strength(who.embedding, face.embedding) if plain else 1.0 for face in faces]
        targets = [
            reshaped(as_float(crop), face, mask, who, style.shape * strength)
            for crop, face, mask, strength in zip(crops, faces, masks, strengths, strict=True)
        ]
        if plain:
            blended = [
                classic.blend(target, who, strength, style.skin_tone)
                for target, strength in zip(targets, strengths, strict=True)
            ]
        else:
            blended = self._fused(targets, who, style.skin_tone)
        return [_patch(target, who, each) for target, each in zip(targets, blended, strict=True)]

    def _fused(self, targets: Sequence[Reshaped], who: IdentityData, skin_tone: float) -> list[Blended]:
        if not targets:
            return []
        views = [fusion.view_of(target, who) for target in targets]
        return [
            fusion.blend(target, who, view, maps, skin_tone)
            for target, view, maps in zip(targets, views, self.maps(views), strict=True)
        ]

    def maps(self, views: Sequence[View]) -> list[tuple[FloatArray, ...]]:
        """What the network says of each view: (C, SIDE, SIDE) each, in the order of `fusion.OUTPUTS`."""
        planes = [np.stack(each) for each in zip(*(view.planes() for view in views), strict=True)]
        return list(zip(*self._network(*planes), strict=True))


def _patch(target: Reshaped, identity: IdentityData, blended: Blended) -> Patch:
    """The blend with the target's open mouth and the source's eyes."""
    height, width = target.crop.shape[:2]
    inner = mouth(target.mesh, width, height, 0.006 * target.extent)
    rgb = target.crop + (blended.alpha * (1 - inner))[..., None] * (blended.rgb - target.crop)
    put_eyes(rgb, target.crop, target.mesh, identity, blended.seen)
    changed = blended.alpha > 1 / 512
    if target.moved is not None:
        changed |= target.moved
    return Patch(rgb.astype(np.float32), changed.astype(np.float32))


assert len(OUTPUTS) == len(MAPS)
