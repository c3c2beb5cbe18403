"""Embedders and converters: crops or embeddings in, vectors out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.references.base import HALF, IMAGENET, Array, File, planes


class Facts(NamedTuple):
    """What an embedder is fed with."""

    template: str
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    top: float
    """What a pixel of 255 counts as 1 by."""
    dimensions: int


ARCFACE = Facts("arcface_112_v2", 112, *HALF, 255, 512)  # x / 127.5 − 1
FACTS = {
    "mobilefacenet": Facts("arcface_112_v2", 112, *IMAGENET, 255, 128),
    "arcface_w600k_r50": ARCFACE,
    "arcface_w600k_mbf": ARCFACE,
    "arcface_glint_r100": ARCFACE,
    "dlib_resnet": Facts("dlib_150", 150, (0, 0, 0), (1, 1, 1), 1, 128),
}


def embed(name: str, file: File, crop: Array) -> Array:
    """One RGB crop → the raw embedding."""
    facts = FACTS[name]
    (out,) = file(planes(crop, facts.mean, facts.std, facts.top))
    return np.asarray(out[0])


def convert(file: File, embedding: Array) -> Array:
    """One raw embedding → what the swapper was trained on, as the network gives it."""
    (out,) = file(embedding[None].astype("float32"))
    return np.asarray(out[0])
