"""Enhancers: (x / 255 − 0.5) / 0.5 in; clipped to −1–1 and taken back to 0–1 out."""

from __future__ import annotations

import numpy as np

from tests.references.base import HALF, Array, File, picture, planes

FACTS = {
    "gfpgan_1.2": ("ffhq_512", 512), "gfpgan_1.3": ("ffhq_512", 512), "gfpgan_1.4": ("ffhq_512", 512),
    "restoreformer_plus_plus": ("ffhq_512", 512), "codeformer": ("ffhq_512", 512),
    "gpen_bfr_256": ("arcface_128", 256), "gpen_bfr_512": ("ffhq_512", 512),
    "gpen_bfr_1024": ("ffhq_512", 1024), "gpen_bfr_2048": ("ffhq_512", 2048),
}  # fmt: skip
"""Template and size."""


def enhance(file: File, crop: Array, weight: float) -> Array:
    """One RGB crop → RGB 0–1."""
    feeds = {"input": planes(crop, *HALF)}
    if "weight" in file.names:
        feeds["weight"] = np.array([weight], np.float64)
    (out,) = file.feed(feeds)
    return picture(np.clip(out, -1, 1), *HALF)
