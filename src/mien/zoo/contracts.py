"""What each kind of model promises. Models are callables on batches of crops and never see frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from mien.errors import ModelError
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


def check_patches(name: str, patches: Sequence[Patch], crops: Sequence[Image]) -> None:
    """Refuse what a swapper gave when it cannot be pasted over its crops.

    Raises:
        ModelError: another number, size or type of patches, or values that are not finite; names the model.
    """
    if len(patches) != len(crops):
        raise ModelError(f"{name}: {len(patches)} patches for {len(crops)} crops; report this with the model's name")
    for patch, crop in zip(patches, crops, strict=True):
        if patch.rgb.shape != crop.shape or patch.mask.shape != crop.shape[:2]:
            found, wanted = ("×".join(map(str, shape)) for shape in (patch.rgb.shape, crop.shape))
            raise ModelError(f"{name}: a patch of {found} for a crop of {wanted}; report this with the model's name")
        if patch.rgb.dtype != np.float32 or patch.mask.dtype != np.float32:
            found = f"{patch.rgb.dtype} and {patch.mask.dtype}"
            raise ModelError(f"{name}: a patch of {found}, not float32; report this with the model's name")
        if not (np.isfinite(patch.rgb).all() and np.isfinite(patch.mask).all()):
            raise ModelError(f"{name}: the model gave values that are not finite; verify the file and the device")
