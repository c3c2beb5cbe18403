"""Stand-ins of swappers: the target with its channels mixed, shifted by a colour that tells what the source was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from onnx import NodeProto

from tests.standins.base import Constants, Dims, graph, node, noise
from tests.standins.parts import features, linear, mix

UNIT, RAW = 1.0, 0.04
"""Gain on a source of length 1, and of about 25."""


def _shift(source: str, rows: int, gain: float, seed: str, constants: Constants) -> list[NodeProto]:
    """N×rows → `shift`: N×3×1×1 within ±0.3."""
    constants["pixel"], constants["reach"] = np.array([-1, 3, 1, 1]), np.array(0.3, np.float32)
    hue = linear(source, "hue", (rows, 3), gain * np.sqrt(rows), seed, constants)
    constants["hue_b"] /= np.float32(np.sqrt(rows))  # small, so that the source is what tells
    return [
        *hue,
        node("Tanh", ["hue"], "bounded"),
        node("Mul", ["bounded", "reach"], "colour"),
        node("Reshape", ["colour", "pixel"], "shift"),
    ]


def latent(
    seed: str, size: int, gain: float, *, signed: bool, target_first: bool = False, mask: bool = False,
    emap: type[np.floating] | None = None,
) -> bytes:  # fmt: skip
    """A swapper that takes an embedding. `signed`: images of −1–1, else 0–1.

    `emap`: the type of inswapper's matrix, which no node of the graph uses; the file has others of the same shape that
    one does, of other shapes, and one after it.
    """
    constants: Constants = {}
    nodes = _shift("source" if emap is None else "plain", 512, gain, seed, constants)
    if emap is not None:
        random = noise(f"{seed} emap")
        constants["style.weight"] = np.eye(512, dtype=np.float32)  # used
        constants["unused_wide"] = random.normal(size=(1024, 512)).astype(np.float32)
        constants["buff2fs"] = (random.normal(size=(512, 512)) / np.sqrt(512)).astype(emap)
        constants["unused_last"] = random.normal(size=(3, 512)).astype(np.float32)
        nodes.insert(0, node("MatMul", ["source", "style.weight"], "plain"))
    nodes += mix("target", "mixed", size, *((1.2, 0.02) if signed else (1.4, -0.2)), seed, constants)
    nodes.append(node("Add", ["mixed", "shift"], "output"))
    outputs: dict[str, Dims] = {"output": (1, 3, size, size)}
    if mask:
        constants["first"] = np.array([0])
        nodes += [node("Gather", ["mixed", "first"], "red", axis=1), node("Sigmoid", ["red"], "mask")]
        outputs["mask"] = (1, 1, size, size)
    inputs: dict[str, Dims] = {"source": (1, 512), "target": (1, 3, size, size)}
    if target_first:
        inputs = dict(reversed(inputs.items()))
    return graph(nodes, inputs, outputs, **constants)


def photo(seed: str, size: int, source_size: int, *, signed: bool, target_first: bool = False) -> bytes:
    """A swapper that takes a picture of the source."""
    constants: Constants = {}
    nodes = [
        *features("source", "seen", source_size, 4, constants),
        *_shift("seen", 48, 0.4, seed, constants),
        *mix("target", "mixed", size, *((1.2, 0.02) if signed else (1.4, -0.2)), seed, constants),
        node("Add", ["mixed", "shift"], "output"),
    ]
    inputs: dict[str, Dims] = {"source": (1, 3, source_size, source_size), "target": (1, 3, size, size)}
    if target_first:
        inputs = dict(reversed(inputs.items()))
    return graph(nodes, inputs, {"output": (1, 3, size, size)}, **constants)


def dfm(seed: str, size: int = 96, *, morph: bool = False) -> bytes:
    """DeepFaceLive's: NHWC; the face, and masks that are free at the left, and at the top."""
    constants: Constants = {}
    across = np.clip((np.arange(size) - size / 3) / 4, 0, 1)[None, None, :, None].astype(np.float32)
    constants["target_mask"] = np.ascontiguousarray(across.repeat(size, 1))
    constants["source_mask"] = np.ascontiguousarray(constants["target_mask"].transpose(0, 2, 1, 3))
    constants["nothing"], constants["first"] = np.array(0, np.float32), np.array([0])
    nodes = [
        node("Transpose", ["in_face:0"], "nchw", perm=[0, 3, 1, 2]),
        *mix("nchw", "mixed", size, 1.4, -0.2, seed, constants),
        node("Transpose", ["mixed"], "face", perm=[0, 2, 3, 1]),
        node("Gather", ["in_face:0", "first"], "blue", axis=3),
        node("Mul", ["blue", "nothing"], "zero"),
        node("Add", ["zero", "target_mask"], "out_face_mask:0"),
        node("Add", ["zero", "source_mask"], "out_celeb_face_mask:0"),
    ]
    inputs: dict[str, Dims] = {"in_face:0": ("n", size, size, 3)}
    if morph:
        constants["tenth"] = np.array(0.1, np.float32)
        nodes += [node("Mul", ["morph_value:0", "tenth"], "more"), node("Add", ["face", "more"], "out_celeb_face:0")]
        inputs["morph_value:0"] = (1,)
    else:
        nodes.append(node("Identity", ["face"], "out_celeb_face:0"))
    outputs: dict[str, Dims] = {
        "out_face_mask:0": ("n", size, size, 1), "out_celeb_face:0": ("n", size, size, 3),
        "out_celeb_face_mask:0": ("n", size, size, 1),
    }  # fmt: skip
    return graph(nodes, inputs, outputs, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "inswapper_128": partial(latent, "inswapper_128", 128, UNIT, signed=False, target_first=True, emap=np.float32),
        "inswapper_128_fp16": partial(
            latent, "inswapper_128_fp16", 128, UNIT, signed=False, target_first=True, emap=np.float16
        ),
        "hyperswap_1a_256": partial(latent, "hyperswap_1a_256", 256, UNIT, signed=True, mask=True),
        "hyperswap_1b_256": partial(latent, "hyperswap_1b_256", 256, UNIT, signed=True, mask=True),
        "hyperswap_1c_256": partial(latent, "hyperswap_1c_256", 256, UNIT, signed=True, mask=True),
        "ghost_1_256": partial(latent, "ghost_1_256", 256, RAW, signed=True, target_first=True),
        "ghost_2_256": partial(latent, "ghost_2_256", 256, RAW, signed=True),
        "ghost_3_256": partial(latent, "ghost_3_256", 256, RAW, signed=True, target_first=True),
        "simswap_256": partial(latent, "simswap_256", 256, UNIT, signed=False),
        "simswap_unofficial_512": partial(latent, "simswap_unofficial_512", 512, UNIT, signed=False, target_first=True),
        "hififace_unofficial_256": partial(latent, "hififace_unofficial_256", 256, UNIT, signed=True),
        "blendswap_256": partial(photo, "blendswap_256", 256, 112, signed=False, target_first=True),
        "uniface_256": partial(photo, "uniface_256", 256, 256, signed=True),
        "dfm": partial(dfm, "dfm"),
    }
)
