"""SimSwap: swappers on crops of 256 × 256, and of 512 × 512 in a training that its authors call unofficial.

Chen et al., "SimSwap: An Efficient Framework For High Fidelity Face Swapping", 2020. Their embedder is another ArcFace,
which crossface_simswap stands in for.
"""

from __future__ import annotations

from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import SourceNeeds
from mien.zoo.registry import register
from mien.zoo.swappers._template import ARCFACE, TemplateSwapper
from mien.zoo.tensors import IMAGENET_MEAN, IMAGENET_STD

ORIGIN = "https://github.com/neuralchen/SimSwap; in https://huggingface.co/facefusion/models-3.0.0"


class SimSwap(TemplateSwapper):
    """Swapper whose output is 0–1."""

    template = "arcface_112_v1"
    needs = SourceNeeds(ARCFACE, "crossface_simswap")


@register(
    ModelCard(
        name="simswap_256",
        task="swapper",
        licence="CC-BY-NC-4.0",
        commercial=False,
        origin=ORIGIN,
        weights=Weights("simswap_256.onnx", size=220368724, bundled=False),
    )
)
class SimSwap256(SimSwap):
    """Of 256 × 256."""

    mean, std = IMAGENET_MEAN, IMAGENET_STD


@register(
    ModelCard(
        name="simswap_unofficial_512",
        task="swapper",
        licence="CC-BY-NC-4.0",
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "simswap_unofficial_512.onnx",
            "fe805d1ce7d9e66322e2a8811f593a821e7d92f9ff861dd233794bdb2bb7a586",
            239249034,
            (
                "https://github.com/facefusion/facefusion-assets/releases/download/models-3.0.0/"
                "simswap_unofficial_512.onnx",
            ),
            bundled=False,
        ),
    )
)
class SimSwapUnofficial512(SimSwap):
    """Of 512 × 512."""

    size = 512
