"""CrossFace: small networks that take ArcFace's embeddings to those of the embedder a swapper was trained with."""

from __future__ import annotations

from pathlib import Path

from mien.runtime.session import Where
from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network

URL = "https://huggingface.co/facefusion/models-3.4.0/resolve/main"


def _card(name: str, sha256: str = "") -> ModelCard:
    urls = (f"{URL}/{name}.onnx",) if sha256 else ()
    return ModelCard(
        name=name,
        task="converter",
        licence="LicenseRef-OpenRAIL-MS: free, with rules of use",
        commercial=True,
        origin="https://github.com/facefusion/facefusion-labs; in https://huggingface.co/facefusion/models-3.4.0",
        weights=Weights(f"{name}.onnx", sha256, 22083800, urls, bundled=False),
    )


class CrossFace:
    """Converter of embeddings of 512 dimensions."""

    card: ModelCard
    embedder = "arcface_w600k_r50"

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [("n", 512)], [("n", 512)])

    def __call__(self, embeddings: FloatArray) -> FloatArray:
        """N×512, not normalised → N×512, not normalised."""
        (converted,) = self._network(embeddings)
        return converted


@register(_card("crossface_ghost"))
class CrossFaceGhost(CrossFace):
    """For GHOST."""


@register(_card("crossface_simswap", "6452a261ec30cc30afdbe4a426d82c3b10a476f2df794e3494071c02574e6829"))
class CrossFaceSimSwap(CrossFace):
    """For SimSwap."""


@register(_card("crossface_hififace", "dfb75f960cb8ef1967a82838e64963b9ff621c4af3e22f9fda48ad958dddec9a"))
class CrossFaceHifiFace(CrossFace):
    """For HifiFace."""
