"""What each kind of model promises. Models are callables on batches of crops and never see frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from mien.errors import ModelError
from mien.identity_data import IdentityData
from mien.options import Fusion
from mien.types import ByteArray, Detection, Face, FloatArray, Image, Patch
from mien.zoo.cards import ModelCard


class Detector(Protocol):
    """Finds faces in one RGB uint8 image of any size; results in that image's pixels, best first."""

    card: ModelCard

    def __call__(self, image: ByteArray, min_score: float) -> list[Detection]: ...


class Landmarker(Protocol):
    """N×size×size×3 RGB uint8 crops → (N×points×D points in crop pixels, N scores 0–1); D is 2 or 3.

    `crop` says how a face is cut out: `mesh`: upright, 1.5 times the extent of its mesh; `bbox`: not turned, `margin`
    times the longer side of its bbox, the centre lowered by `shift` of that side. Only `mesh` landmarkers of 478 points
    can lead a pipeline; others describe faces that were found, see `mien.landmarks`.
    """

    card: ModelCard
    size: int
    points: int
    crop: Literal["mesh", "bbox"]
    margin: float
    shift: float

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]: ...


class PointLandmarker(Protocol):
    """N×5×2 keypoints laid out as `template` in a square of side 1 → N×points×2 there. It never sees the picture."""

    card: ModelCard
    template: str
    points: int
    crop: Literal["points"]

    def __call__(self, keypoints: FloatArray) -> FloatArray: ...


class Embedder(Protocol):
    """N×size×size×3 RGB uint8 crops, aligned by `template` → N×D L2-normalised embeddings.

    `raw` gives them as the network did, not normalised, which converters and swappers were trained on.
    """

    card: ModelCard
    template: str
    size: int

    def __call__(self, crops: ByteArray) -> FloatArray: ...

    def raw(self, crops: ByteArray) -> FloatArray: ...


class Masker(Protocol):
    """N×size×size×3 RGB uint8 crops → N×size×size×K probabilities in the order of `classes`.

    Of a class that several maskers give, the maximum counts, but of `skin` the minimum: users join maskers so that one
    finds what the other overlooks, and what any of them takes for covered is left alone.
    """

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


class Converter(Protocol):
    """N×D embeddings of one embedder → N×E of what a swapper was trained on; neither is normalised here."""

    card: ModelCard
    embedder: str
    """Whose embeddings it takes."""

    def __call__(self, embeddings: FloatArray) -> FloatArray: ...


class Attribute(Protocol):
    """N×size×size×3 RGB uint8 crops, `margin` times the bbox → N×K values named by `names`."""

    card: ModelCard
    size: int
    margin: float
    names: tuple[str, ...]

    def __call__(self, crops: ByteArray) -> FloatArray: ...


class Enhancer(Protocol):
    """N×size×size×3 RGB uint8 crops, aligned by `template` → N×size×size×3 float32 RGB 0–1.

    `weight` 0–1 is the fidelity of models that have such a switch (CodeFormer: 0 beautiful, 1 faithful); others ignore
    it.
    """

    card: ModelCard
    template: str
    size: int

    def __call__(self, crops: ByteArray, weight: float = 1.0) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class SourceNeeds:
    """What a swapper has to be given of a source beside its `IdentityData`."""

    embedder: str = ""
    """Name of the embedder whose raw embedding it takes; empty: none."""
    converter: str = ""
    """Name of the converter that this embedding goes through; empty: none."""
    template: str = ""
    """Layout of the source photo's crop that it takes; empty: none."""
    size: int = 0
    """Side of that crop."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A source as a swapper is given it; see `SourceNeeds`."""

    identity: IdentityData
    embedding: FloatArray | None = None
    """(D,) as the embedder, or the converter, gave it: not normalised."""
    photo: ByteArray | None = None
    """(size, size, 3) RGB."""


@dataclass(frozen=True, slots=True)
class Style:
    """What a user wants of a swap; swappers leave alone what they have no means for."""

    skin_tone: float = 0.0
    """0 keeps the target's skin tone, 1 takes the source's."""
    shape: float = 1.0
    """0 keeps the target's shape of the face, 1 takes the source's."""
    fusion: Fusion = "swapgan"
    """How the texture swapper blends."""


class Swapper(Protocol):
    """Renders an identity on target crops.

    `template` None: crops are axis-aligned frame boxes at native resolution, any size, `margin` times
    the mesh extent; each face's mesh and keypoints are in its crop's pixels, and `masks` holds the
    maskers' class → H×W probabilities over each crop (any H, W; resize them). Otherwise crops are
    warps by `template`, each a square of k·`size` pixels, k being a whole number of at least 1.
    """

    card: ModelCard
    template: str | None
    size: int
    margin: float
    needs_mask: bool
    needs: SourceNeeds

    def __call__(
        self, crops: Sequence[Image], faces: Sequence[Face], masks: Sequence[Mapping[str, FloatArray] | None],
        source: Source, style: Style,
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
