"""Swappers: a crop and what they take of the source in, a picture out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from tests.references.base import HALF, IMAGENET, NONE, Array, File, picture, planes, unit


class Facts(NamedTuple):
    """What a swapper is fed with, and what it gives."""

    template: str
    size: int
    into: tuple[tuple[float, ...], tuple[float, ...]]
    """Mean and std of the target."""
    source: str
    """emap, unit, raw or photo."""
    back: tuple[tuple[float, ...], tuple[float, ...]]
    """Mean and std that the output is taken back by, before it is clipped."""
    converter: str = ""
    source_template: str = ""
    source_size: int = 0


HYPERSWAP = Facts("arcface_128", 256, HALF, "unit", HALF)
GHOST = Facts("arcface_112_v1", 256, HALF, "raw", HALF, "crossface_ghost")
INSWAPPER = Facts("arcface_128", 128, NONE, "emap", NONE)
FACTS = {
    "inswapper_128": INSWAPPER,
    "inswapper_128_fp16": INSWAPPER,
    **dict.fromkeys(("hyperswap_1a_256", "hyperswap_1b_256", "hyperswap_1c_256"), HYPERSWAP),
    **dict.fromkeys(("ghost_1_256", "ghost_2_256", "ghost_3_256"), GHOST),
    "simswap_256": Facts("arcface_112_v1", 256, IMAGENET, "unit", NONE, "crossface_simswap"),
    "simswap_unofficial_512": Facts("arcface_112_v1", 512, NONE, "unit", NONE, "crossface_simswap"),
    "hififace_unofficial_256": Facts("mtcnn_512", 256, HALF, "unit", HALF, "crossface_hififace"),
    "blendswap_256": Facts("ffhq_512", 256, NONE, "photo", NONE, "", "arcface_112_v2", 112),
    "uniface_256": Facts("ffhq_512", 256, HALF, "photo", HALF, "", "ffhq_512", 256),
}


def emap(data: bytes) -> Array:
    """inswapper's 512×512 matrix, which no node uses."""
    proto = onnx.load_from_string(data).graph
    used = {name for node in proto.node for name in node.input}
    (found,) = (
        numpy_helper.to_array(one) for one in proto.initializer if one.name not in used and list(one.dims) == [512, 512]
    )
    return found.astype(np.float64)


def source_of(facts: Facts, file: File, embedding: Array | None, photo: Array | None) -> Array:
    """The network's second input."""
    if facts.source == "photo":
        assert photo is not None
        return planes(photo)
    assert embedding is not None
    vector = embedding.astype(np.float64)
    if facts.source == "emap":
        vector = unit(unit(vector) @ emap(file.data))
    elif facts.source == "unit":
        vector = unit(vector)
    return vector[None].astype(np.float32)


def swap(name: str, file: File, crop: Array, embedding: Array | None, photo: Array | None) -> Array:
    """One RGB crop of size·k → RGB 0–1 of that size, sub-crop by sub-crop where k is more than 1."""
    facts = FACTS[name]
    source = source_of(facts, file, embedding, photo)
    k = crop.shape[0] // facts.size
    top = 255 if crop.dtype == np.uint8 else 1
    result = np.zeros(crop.shape)
    for row in range(k):
        for column in range(k):
            part = planes(crop[row::k, column::k], *facts.into, top)
            result[row::k, column::k] = picture(file(target=part, source=source)[0], *facts.back)
    return result


def deep_face(file: File, crop: Array, morph: float) -> Array:
    """DFM: one RGB crop of the file's size, or k times that, → RGB 0–1."""
    k = crop.shape[0] // file.shapes[0][1]
    result = np.zeros(crop.shape)
    for row in range(k):
        for column in range(k):
            part = crop[row::k, column::k, ::-1][None].astype(np.float32) / np.float32(255)
            feeds = {"in_face:0": np.ascontiguousarray(part)}
            if "morph_value:0" in file.names:
                feeds["morph_value:0"] = np.array([morph], np.float32)
            _, face, _ = file.feed(feeds)
            result[row::k, column::k] = np.clip(face[0, :, :, ::-1], 0, 1)
    return result
