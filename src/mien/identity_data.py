"""One person's cached features, as models consume them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mien.types import ByteArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class IdentityData:
    """Embedding, UV texture and shape of one person, fused from one or more photos."""

    embedding: FloatArray
    """(D,) L2-normalised."""
    texture: FloatArray
    """(T, T, 3) RGB 0–1 in UV space."""
    trust: FloatArray
    """(T, T) 0–1: how sure the texture is there (seen, facing, not covered)."""
    mesh: FloatArray
    """(478, 3) mesh of the best photo, pixels."""
    shape: FloatArray
    """(468, 3) neutral shape in the canonical frame, cm; see `mien.shape`."""
    photo: ByteArray | None = None
    """(h, w, 3) RGB, the best photo around its face, for models that take a picture; None where there is none."""
    keypoints: FloatArray | None = None
    """(5, 2) of that face, in pixels of `photo`."""
    embeddings: Mapping[str, FloatArray] = field(default_factory=dict)
    """Embedder → (D,) mean over the photos of what its network gave, not normalised."""
