"""UniFace: a swapper on crops of 256 × 256 that takes a picture of the source.

Xu et al., "Designing One Unified Framework for High-Fidelity Face Reenactment and Swapping", 2022.
"""

from __future__ import annotations

from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import Source, SourceNeeds
from mien.zoo.registry import register
from mien.zoo.swappers._template import HALF, TemplateSwapper


@register(
    ModelCard(
        name="uniface_256",
        task="swapper",
        licence="LicenseRef-none: its authors state no licence, and give the weights on request",
        commercial=False,
        origin="https://github.com/xc-csc101/UniFace; in https://huggingface.co/facefusion/models-3.0.0",
        weights=Weights(
            "uniface_256.onnx",
            "eb5ce2af024cddf88ecb93b24e29a6eb44e354aba7d3319e84d29dcd868820f3",
            406964143,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/uniface_256.onnx",),
            bundled=False,
        ),
    )
)
class UniFace256(TemplateSwapper):
    """Swapper whose source is a crop like the target's, but 0–1."""

    template = "ffhq_512"
    needs = SourceNeeds(template="ffhq_512", size=256)
    source_shape = ("n", 3, 256, 256)
    mean = std = HALF
    signed = True

    def _latent(self, source: Source) -> FloatArray:
        return self._photo(source)
