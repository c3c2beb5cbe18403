"""What swappers are given of a source: its photo around the face, raw embeddings, and both as each swapper asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from mien.color import as_bytes
from mien.errors import OptionsError
from mien.geometry import TEMPLATES, template_matrix, transform, warp
from mien.identity_data import IdentityData
from mien.paste import Frame, square_box
from mien.types import Box, ByteArray, FloatArray
from mien.zoo.cards import Task
from mien.zoo.contracts import Embedder, Source, Swapper
from mien.zoo.registry import Zoo

LONGEST = 1024
"""Longest side of the photo that is kept of a source."""


def portrait(frame: Frame, keypoints: FloatArray) -> tuple[ByteArray, FloatArray]:
    """The part of a photo that every template's square needs, at most `LONGEST` pixels long, and its keypoints.

    Args:
        keypoints: (5, 2) in the frame's pixels.

    Raises:
        GeometryError: keypoints that coincide.
    """
    boxes = [square_box(template_matrix(keypoints, name, LONGEST), LONGEST) for name in TEMPLATES]
    low, high = (np.array([[b.x0, b.y0] for b in boxes]).min(0), np.array([[b.x1, b.y1] for b in boxes]).max(0))
    box = Box(int(low[0]), int(low[1]), int(high[0]), int(high[1])).clip(frame.width, frame.height)
    image = as_bytes(frame.read(box))
    scale = min(1.0, LONGEST / max(box.width, box.height))
    shrink = np.array([[scale, 0, (scale - 1) / 2], [0, scale, (scale - 1) / 2]], np.float32)
    if scale < 1:
        width, height = max(1, round(box.width * scale)), max(1, round(box.height * scale))
        image = np.asarray(warp(image, shrink, width, height), np.uint8)
    return image, transform(np.asarray(keypoints - (box.x0, box.y0), np.float32), shrink)


def raw_embedding(embedder: Embedder, photo: ByteArray, keypoints: FloatArray) -> FloatArray:
    """(D,) embedding of the face in a photo as the network gives it."""
    return np.asarray(embedder.raw(_aligned(photo, keypoints, embedder.template, embedder.size)[None])[0], np.float32)


def prepare_source(zoo: Zoo, swapper: Swapper, identity: IdentityData) -> Source:
    """An identity as a swapper takes it; made once for a run.

    Raises:
        OptionsError: a model that the swapper needs is not installed, or the identity has no photo and one is needed.
        ModelError, DeviceError: see `Zoo.load`.
    """
    needs, embedding, photo = swapper.needs, None, None
    if needs.embedder:
        embedding = identity.embeddings.get(needs.embedder)
        if embedding is None:
            embedder: Embedder = companion(zoo, "embedder", needs.embedder, swapper)
            embedding = raw_embedding(embedder, *_photo(identity, swapper))
    if needs.converter:
        converter = companion(zoo, "converter", needs.converter, swapper)
        assert embedding is not None  # a converter has nothing else to convert
        embedding = converter(embedding[None])[0]
    if needs.template:
        photo = _aligned(*_photo(identity, swapper), needs.template, needs.size)
    return Source(identity, embedding, photo)


def companion(zoo: Zoo, task: Task, name: str, swapper: Swapper) -> Any:
    """A model that a swapper needs.

    Raises:
        OptionsError: it is not installed; names who needs it. ModelError, DeviceError: see `Zoo.load`.
    """
    try:
        return zoo.load(task, name)
    except OptionsError as error:
        raise OptionsError(f"{swapper.card.name} needs the {task} {name}: {error}") from error


def _photo(identity: IdentityData, swapper: Swapper) -> tuple[ByteArray, FloatArray]:
    if identity.photo is None or identity.keypoints is None:
        raise OptionsError(
            f"{swapper.card.name} needs a photo of the source, which this identity lacks; make it again from its photos"
        )
    return identity.photo, identity.keypoints


def _aligned(photo: ByteArray, keypoints: FloatArray, template: str, size: int) -> ByteArray:
    return np.asarray(warp(photo, template_matrix(keypoints, template, size), size, size), np.uint8)
