"""One person's cached features, as models consume them."""

from __future__ import annotations

from dataclasses import dataclass

from mien.types import FloatArray


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
