"""RestoreFormer++: restores faces with a dictionary of good ones.

Wang et al., "RestoreFormer++: Towards Real-World Blind Face Restoration from Undegraded Key-Value Pairs", 2023.
"""

from __future__ import annotations

from mien.zoo.cards import ModelCard, Weights
from mien.zoo.enhancers.restorer import Restorer
from mien.zoo.registry import register


@register(
    ModelCard(
        name="restoreformer_plus_plus",
        task="enhancer",
        licence="Apache-2.0",
        commercial=True,
        origin="https://github.com/wzhouxiff/RestoreFormerPlusPlus",
        weights=Weights(
            "restoreformer_plus_plus.onnx",
            "f4db5a89902b6a2d452446f5721245a6f7185f699b6aec7b77285adb4d504337",
            294264812,
            ("https://huggingface.co/CountFloyd/deepfake/resolve/main/restoreformer_plus_plus.onnx",),
            bundled=False,
        ),
    )
)
class RestoreFormerPlusPlus(Restorer):
    """Keeps the person well, and skin's texture."""
