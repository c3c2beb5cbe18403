"""HifiFace, in a training that is not its authors': a swapper on crops of 256 × 256.

Wang et al., "HifiFace: 3D Shape and Semantic Prior Guided High Fidelity Face Swapping", 2021; weights of ReHiFace-S.
"""

from __future__ import annotations

from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import SourceNeeds
from mien.zoo.registry import register
from mien.zoo.swappers._template import ARCFACE, HALF, TemplateSwapper


@register(
    ModelCard(
        name="hififace_unofficial_256",
        task="swapper",
        licence="LicenseRef-none: its authors state no licence",
        commercial=False,
        origin="https://github.com/GuijiAI/ReHiFace-S; in https://huggingface.co/facefusion/models-3.1.0",
        weights=Weights(
            "hififace_unofficial_256.onnx",
            "9de9751617976195114d7f067b9b6cf933748363355cf473cab2da57a739c2ef",
            203784742,
            ("https://huggingface.co/facefusion/models-3.1.0/resolve/main/hififace_unofficial_256.onnx",),
            bundled=False,
        ),
    )
)
class HifiFaceUnofficial256(TemplateSwapper):
    """Swapper of 256 × 256."""

    template = "mtcnn_512"
    needs = SourceNeeds(ARCFACE, "crossface_hififace")
    mean = std = HALF
    signed = True
    masked = None
