"""HyperSwap: FaceFusion's swappers on crops of 256 × 256, in three trainings."""

from __future__ import annotations

from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.swappers._template import HALF, TemplateSwapper

URL = "https://huggingface.co/facefusion/models-3.3.0/resolve/main"


def _card(name: str, sha256: str) -> ModelCard:
    return ModelCard(
        name=name,
        task="swapper",
        licence="LicenseRef-ResearchRAIL-MS: research only, with rules of use",
        commercial=False,
        origin="https://github.com/facefusion/facefusion-labs",
        weights=Weights(f"{name}.onnx", sha256, 402742682, (f"{URL}/{name}.onnx",), bundled=False),
    )


class HyperSwap(TemplateSwapper):
    """Swapper of 256 × 256."""

    template = "arcface_128"
    mean = std = HALF
    signed = masked = True


@register(_card("hyperswap_1a_256", "c0e98a8a03a238f461ed3d2570e426b49f46745ee400854a60dceeb70c246add"))
class HyperSwap1a(HyperSwap):
    """First training."""


@register(_card("hyperswap_1b_256", "5124031789c42f71b9558fb71954ef7aedb6da7ed9fac79293e23c61a792a73e"))
class HyperSwap1b(HyperSwap):
    """Second training."""


@register(_card("hyperswap_1c_256", "5528c2d76fe9986c99d829278987ef9f3a630cb606db7628d02b57b330f406a5"))
class HyperSwap1c(HyperSwap):
    """Third training."""
