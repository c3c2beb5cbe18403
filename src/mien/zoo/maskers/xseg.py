"""XSeg: DeepFaceLab's segmenter of the visible face, in three trainings by FaceFusion."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

ORIGIN = "https://github.com/iperov/DeepFaceLab; trained anew, in https://huggingface.co/facefusion"


class XSeg:
    """Masker of what covers a face; only the pixels inside the mesh's outline mean something."""

    card: ModelCard
    size = 256
    margin = 1.3
    classes: tuple[str, ...] = ("occluder",)

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 256, 256, 3)], [("n", 256, 256, 1)])

    def __call__(self, crops: ByteArray) -> FloatArray:
        """N×256×256×3 RGB uint8 → N×256×256×1 probabilities of being covered."""
        (visible,) = self._network(crops[..., ::-1] * np.float32(1 / 255))
        return 1 - np.clip(visible, 0, 1)


@register(
    ModelCard(
        name="xseg_1",
        task="masker",
        licence="GPL-3.0-only",
        commercial=True,
        origin=ORIGIN,
        weights=Weights(
            "xseg_1.onnx",
            "c4d1498b8a03b5fe2a3a5d2ef2a0402ab03bd51edaf5b2d8d5fb764702a97dd3",
            70324286,
            ("https://huggingface.co/facefusion/models-3.1.0/resolve/main/xseg_1.onnx",),
            bundled=False,
        ),
    )
)
class XSeg1(XSeg):
    """First training: cuts out glasses, beards and open mouths too."""


@register(
    ModelCard(
        name="xseg_2",
        task="masker",
        licence="GPL-3.0-only",
        commercial=True,
        origin=ORIGIN,
        weights=Weights(
            "xseg_2.onnx",
            "cd9a0879eaf43841d765472cf1f8c330dbf9dcb03da0eace93e95f3bcc399042",
            70324286,
            ("https://huggingface.co/facefusion/models-3.1.0/resolve/main/xseg_2.onnx",),
            bundled=False,
        ),
    )
)
class XSeg2(XSeg):
    """Second training."""


@register(
    ModelCard(
        name="xseg_3",
        task="masker",
        licence="GPL-3.0-only",
        commercial=True,
        origin=ORIGIN,
        weights=Weights(
            "xseg_3.onnx",
            "48ccd7e8541e159a5a754ec9e62df2f12065f7df8f9af842c1750342c6533559",
            70327709,
            ("https://huggingface.co/facefusion/models-3.2.0/resolve/main/xseg_3.onnx",),
            bundled=False,
        ),
    )
)
class XSeg3(XSeg):
    """Third training: takes beards, open mouths and lenses for face."""
