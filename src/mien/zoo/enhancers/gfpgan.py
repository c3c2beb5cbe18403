"""GFPGAN: restores faces with a StyleGAN prior.

Wang et al., "Towards Real-World Blind Face Restoration with Generative Facial Prior", 2021.
"""

from __future__ import annotations

from mien.zoo.cards import ModelCard, Weights
from mien.zoo.enhancers.restorer import Restorer
from mien.zoo.registry import register

ORIGIN = "https://github.com/TencentARC/GFPGAN; converted, in https://huggingface.co/facefusion/models-3.0.0"


@register(
    ModelCard(
        name="gfpgan_1.2",
        task="enhancer",
        licence="Apache-2.0",
        commercial=True,
        origin=ORIGIN,
        weights=Weights("gfpgan_1.2.onnx", bundled=False),
    )
)
class Gfpgan12(Restorer):
    """Version 1.2: sharp, with make-up."""


@register(
    ModelCard(
        name="gfpgan_1.3",
        task="enhancer",
        licence="Apache-2.0",
        commercial=True,
        origin=ORIGIN,
        weights=Weights("gfpgan_1.3.onnx", bundled=False),
    )
)
class Gfpgan13(Restorer):
    """Version 1.3: more natural than 1.2."""


@register(
    ModelCard(
        name="gfpgan_1.4",
        task="enhancer",
        licence="Apache-2.0",
        commercial=True,
        origin=ORIGIN,
        weights=Weights(
            "gfpgan_1.4.onnx",
            "accc4757b26bdb89b32b4d3500d4f79c9dff97c1dd7c7104bf9dcb95e3311385",
            340299087,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/gfpgan_1.4.onnx",),
            bundled=False,
        ),
    )
)
class Gfpgan14(Restorer):
    """Version 1.4: keeps the person better than 1.3."""
