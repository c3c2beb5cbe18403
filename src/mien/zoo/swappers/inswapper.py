"""inswapper: InsightFace's swapper on crops of 128 × 128.

What it takes is the embedding in a space of its own, reached by a 512 × 512 matrix that lies in the file beside the
graph: InsightFace calls it emap. Reference: `insightface/model_zoo/inswapper.py`, which scales the result to length 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.errors import ModelError
from mien.runtime.session import Where
from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.contracts import Source
from mien.zoo.registry import register
from mien.zoo.swappers._template import TemplateSwapper
from mien.zoo.tensors import unit

LICENCE = "LicenseRef-InsightFace: non-commercial research only"
ORIGIN = "https://github.com/deepinsight/insightface/tree/master/examples/in_swapper"


class InSwapper(TemplateSwapper):
    """Swapper of 128 × 128."""

    template = "arcface_128"
    size = 128

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        super().__init__(where, file)
        assert file is not None  # nothing to open was refused
        self._emap = emap(file, self.card.name)

    def _latent(self, source: Source) -> FloatArray:
        embedding = unit(self.card.name, self._embedding(source))
        return unit(self.card.name, embedding @ self._emap)


def emap(file: Path | bytes, name: str) -> FloatArray:
    """(512, 512) matrix of a file that embeddings are multiplied by: the one of that shape that no node reads.

    Files that were simplified may have dropped it.

    Raises:
        ModelError: none, or several that could be it.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(file) if isinstance(file, bytes) else onnx.load(file)
    used = {value for node in model.graph.node for value in node.input}
    found = [tensor for tensor in model.graph.initializer if list(tensor.dims) == [512, 512]]
    free = [tensor for tensor in found if tensor.name not in used]
    if len(free) != 1:
        where = file if isinstance(file, Path) else name
        many = f"{len(free)} that no node reads ({', '.join(tensor.name for tensor in free)})" if free else "none"
        raise ModelError(
            f"{where}: expected one 512×512 matrix for embeddings (emap) but found {many}; use the file as it was "
            "published, since tools that simplify a graph drop it"
        )
    return np.asarray(numpy_helper.to_array(free[0]), np.float32)


@register(
    ModelCard(
        name="inswapper_128",
        task="swapper",
        licence=LICENCE,
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "inswapper_128.onnx",
            "e4a3f08c753cb72d04e10aa0f7dbe3deebbf39567d4ead6dce08e98aa49e16af",
            554253681,
            (
                "https://github.com/deepinsight/insightface/releases/download/v0.7/inswapper_128.onnx",
                "https://huggingface.co/ezioruan/inswapper_128.onnx/resolve/main/inswapper_128.onnx",
            ),
            bundled=False,
        ),
    )
)
class InSwapper128(InSwapper):
    """As it was published."""


@register(
    ModelCard(
        name="inswapper_128_fp16",
        task="swapper",
        licence=LICENCE,
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "inswapper_128_fp16.onnx",
            "6d51a9278a1f650cffefc18ba53f38bf2769bf4bbff89267822cf72945f8a38b",
            277680638,
            ("https://huggingface.co/hacksider/deep-live-cam/resolve/main/inswapper_128_fp16.onnx",),
            bundled=False,
        ),
    )
)
class InSwapper128Fp16(InSwapper):
    """The same in half precision, with inputs and outputs of float32."""
