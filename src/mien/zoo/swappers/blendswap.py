"""BlendSwap: a swapper on crops of 256 × 256 that takes a picture of the source.

Shiohara et al., "BlendFace: Re-designing Identity Encoders for Face-Swapping", 2023.
"""

from __future__ import annotations

from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import Source, SourceNeeds
from mien.zoo.registry import register
from mien.zoo.swappers._template import TemplateSwapper


@register(
    ModelCard(
        name="blendswap_256",
        task="swapper",
        licence="CC-BY-NC-SA-4.0",
        commercial=False,
        origin="https://github.com/mapooon/BlendFace; in https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights("blendswap_256.onnx", size=1661432957, bundled=False),
    )
)
class BlendSwap256(TemplateSwapper):
    """Swapper whose source is a crop of 112 × 112, and whose output is 0–1."""

    template = "ffhq_512"
    needs = SourceNeeds(template="arcface_112_v2", size=112)
    source_shape = ("n", 3, 112, 112)

    def _latent(self, source: Source) -> FloatArray:
        return self._photo(source)
