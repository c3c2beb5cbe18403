"""What each kind of model promises. Models are callables on batches of crops and never see frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mien.identity_data import IdentityData
from mien.types import ByteArray, Detection, Face, FloatArray, Image, Patch
from mien.zoo.registry import ModelCard


class Detector(Protocol):
    """Finds faces in one RGB uint8 image of any size; results in that image's pixels, best first."""

    card: ModelCard

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]: ...


class Landmarker(Protocol):
    """N×size×size×3 RGB uint8 crops → (N×478×3 points in crop pixels, N presence 0–1)."""

    card: ModelCard
    size: int

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]: ...


class Embedder(Protocol):
    """N×size×size×3 RGB uint8 crops, aligned by `template` → N×D L2-normalised embeddings."""

    card: ModelCard
    template: str
    size: int

    def __call__(self, crops: ByteArray) -> FloatArray: ...


class Masker(Protocol):
    """N×size×size×3 RGB uint8 crops → N×size×size×K probabilities in the order of `classes`."""

    card: ModelCard
    size: int
    margin: float
    """Side of the upright crop over the extent of the mesh."""
    classes: tuple[str, ...]

    def __call__(self, crops: ByteArray) -> FloatArray: ...


class Expression(Protocol):
    """N×478×2+ mesh points in pixels → N×52 blendshape scores named by `names`."""

    card: ModelCard
    names: tuple[str, ...]

    def __call__(self, meshes: FloatArray) -> FloatArray: ...


class Swapper(Protocol):
    """Renders an identity on target crops.

    `template` None: crops are axis-aligned frame boxes at native resolution, any size, `margin` times
    the mesh extent; each face's mesh and keypoints are in its crop's pixels, and `masks` holds the
    maskers' class → H×W probabilities over each crop (any H, W; resize them). Otherwise crops are
    size × size warps by `template`.
    """

    card: ModelCard
    template: str | None
    size: int
    margin: float
    needs_mask: bool

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        identity: IdentityData, skin_tone: float,
    ) -> list[Patch]: ...  # fmt: skip
