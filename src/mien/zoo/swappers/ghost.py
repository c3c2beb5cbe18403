"""GHOST: swappers on crops of 256 × 256 with U-Nets of one, two and three blocks.

Groshev et al., "GHOST: A New Face Swap Approach for Image and Video Domains", 2022. The files are FaceFusion's exports;
their embedder is another ArcFace, which crossface_ghost stands in for.
"""

from __future__ import annotations

from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import Source, SourceNeeds
from mien.zoo.registry import register
from mien.zoo.swappers._template import ARCFACE, HALF, TemplateSwapper


def _card(name: str, size: int = 0) -> ModelCard:
    return ModelCard(
        name=name,
        task="swapper",
        licence="Apache-2.0",
        commercial=True,
        origin="https://github.com/ai-forever/ghost; in https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights(f"{name}.onnx", size=size, bundled=False),
    )


class Ghost(TemplateSwapper):
    """Swapper of 256 × 256."""

    template = "arcface_112_v1"
    needs = SourceNeeds(ARCFACE, "crossface_ghost")
    mean = std = HALF
    signed = True

    def _latent(self, source: Source) -> FloatArray:
        return self._embedding(source)  # its network was trained on embeddings of their own length


@register(_card("ghost_1_256", 514902950))
class Ghost1(Ghost):
    """One block: the fastest."""


@register(_card("ghost_2_256"))
class Ghost2(Ghost):
    """Two blocks."""


@register(_card("ghost_3_256"))
class Ghost3(Ghost):
    """Three blocks: the largest."""
