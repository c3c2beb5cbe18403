"""Stand-ins of detectors: every score, distance and point is made of the means of the channels in its cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
from onnx import NodeProto

from tests.standins.base import Constants, Dims, graph, node, noise

STRIDES = (8, 16, 32)
SIGNED, RAW = 1.0, 1 / 90
"""Gain on inputs of −1–1, and of 0–255 or so."""


def _pool(stride: int, **more: int) -> NodeProto:
    """Means of squares; the last ones may be cut, as a padded convolution's would."""
    square = {"kernel_shape": [stride] * 2, "strides": [stride] * 2, **more}
    return node("AveragePool", ["input"], f"pool_{stride}", **square)


def _head(
    source: str, output: str, kind: str, width: int, gain: float, seed: str, constants: Constants, lift: float = 0.12
) -> list[NodeProto]:
    """N×3×h×w → N×width×h×w. Scores rise with every channel; distances are 0–3; points and logs are small.

    `lift`: what scores gain with each coarser level, whose cells are fewer.
    """
    random = noise(f"{seed} {output}")
    weights = random.normal(size=(width, 3))
    bias = random.normal(size=width) / 3
    if kind in ("score", "logit"):
        # Black, as the padding is, scores lowest. Each anchor is as likely to win as any other, coarse ones included.
        level = int(source.rpartition("_")[2]).bit_length() - 3
        weights = random.permuted(np.tile([0.35, 0.5, 0.65], (width, 1)), axis=1)
        weights = weights + 0.02 * random.permuted(np.tile([-1, 0, 1], (width, 1)), axis=1)
        bias = random.uniform(-0.02, 0.02, width) - 1.5 + lift * level
    elif kind == "small":
        weights = weights / 3
        bias[2:] += 1  # boxes of some cells, so that neighbours overlap
    constants[f"{output}_w"] = (gain * weights)[..., None, None].astype(np.float32)
    constants[f"{output}_b"] = bias.astype(np.float32)
    name = f"{output}_raw"
    nodes = [node("Conv", [source, f"{output}_w", f"{output}_b"], name if kind in ("score", "distance") else output)]
    if kind == "score":
        nodes.append(node("Sigmoid", [name], output))
    elif kind == "distance":
        constants["three"] = np.array(3, np.float32)
        nodes += [node("Sigmoid", [name], f"{name}_unit"), node("Mul", [f"{name}_unit", "three"], output)]
    return nodes


def _rows(source: str, output: str, shape: Sequence[int], constants: Constants) -> list[NodeProto]:
    """N×C×h×w → rows, cell by cell and anchor by anchor."""
    constants[f"{output}_shape"] = np.array(shape)
    return [
        node("Transpose", [source], f"{output}_last", perm=[0, 2, 3, 1]),
        node("Reshape", [f"{output}_last", f"{output}_shape"], output),
    ]


def insightface(seed: str, *, size: int | str = "?", batched: bool = False, anchors: int = 2) -> bytes:
    """SCRFD's nine outputs; `batched` files keep a dimension for the batch, the others do not."""
    constants: Constants = {}
    nodes: list[NodeProto] = [_pool(stride) for stride in STRIDES]
    outputs: dict[str, Dims] = {}
    for kind, head, width in (("score", "score", 1), ("bbox", "distance", 4), ("kps", "point", 10)):
        for stride in STRIDES:
            name = f"{kind}_{stride}"
            nodes += _head(f"pool_{stride}", f"{name}_map", head, width * anchors, SIGNED, seed, constants)
            nodes += _rows(f"{name}_map", name, (1, -1, width) if batched else (-1, width), constants)
            cells = (640 // stride) ** 2 * anchors if size == 640 else f"cells_{stride}"
            outputs[name] = (1, cells, width) if batched else (cells, width)
    return graph(nodes, {"input": (1, 3, size, size)}, outputs, **constants)


def retinaface(seed: str) -> bytes:
    """loc, conf and landm of all priors, undecoded; conf are logits."""
    constants: Constants = {}
    nodes: list[NodeProto] = [_pool(stride, ceil_mode=1) for stride in STRIDES]
    widths = {"loc": 4, "conf": 2, "landm": 10}
    for kind, width in widths.items():
        for stride in STRIDES:
            name = f"{kind}_{stride}"
            if kind == "conf":  # the background's logit goes down a little where the face's goes up
                nodes += _head(f"pool_{stride}", f"{name}_up", "logit", 4, RAW, seed, constants)
                constants[f"{name}_sign"] = np.array([-0.2, 1, -0.3, 1], np.float32)[None, :, None, None]
                nodes.append(node("Mul", [f"{name}_up", f"{name}_sign"], f"{name}_map"))
            else:
                nodes += _head(f"pool_{stride}", f"{name}_map", "point", width * 2, RAW, seed, constants)
            nodes += _rows(f"{name}_map", name, (0, -1, width), constants)
        nodes.append(node("Concat", [f"{kind}_{stride}" for stride in STRIDES], kind, axis=1))
    outputs: dict[str, Dims] = {kind: ("n", "priors", width) for kind, width in widths.items()}
    return graph(nodes, {"input": ("n", 3, "h", "w")}, outputs, **constants)


def yunet(seed: str, *, size: int | None = None) -> bytes:
    """cls, obj, bbox and kps, each at strides 8, 16 and 32."""
    constants: Constants = {}
    nodes: list[NodeProto] = [_pool(stride) for stride in STRIDES]
    outputs: dict[str, Dims] = {}
    for kind, head, width in (("cls", "score", 1), ("obj", "score", 1), ("bbox", "small", 4), ("kps", "point", 10)):
        for stride in STRIDES:
            name = f"{kind}_{stride}"
            nodes += _head(f"pool_{stride}", f"{name}_map", head, width, RAW, seed, constants)
            nodes += _rows(f"{name}_map", name, (0, -1, width), constants)
            outputs[name] = ("n", "cells", width) if size is None else (1, (size // stride) ** 2, width)
    frame: Dims = ("n", 3, "h", "w") if size is None else (1, 3, size, size)
    return graph(nodes, {"input": frame}, outputs, **constants)


def _centres(size: int, anchors: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    cells = np.arange((size // stride) ** 2)
    x, y = cells % (size // stride) + 0.5, cells // (size // stride) + 0.5
    return (stride * x).repeat(anchors), (stride * y).repeat(anchors)


def _absolute(fields: Sequence[str], anchors: int) -> tuple[np.ndarray, np.ndarray]:
    """(cells, fields): what a value in cells is multiplied by, and what is added, to have pixels of a 640 input."""
    scale, shift = [], []
    for stride in STRIDES:
        x, y = _centres(640, anchors, stride)
        ones = np.ones_like(x)
        scale.append(np.stack([ones * (stride if field in "xyl" else 1) for field in fields], 1))
        shift.append(np.stack([{"x": x, "y": y, "l": 3 * stride * ones}.get(field, 0 * x) for field in fields], 1))
    return np.concatenate(scale).astype(np.float32), np.concatenate(shift).astype(np.float32)


def _yolo(seed: str, fields: Sequence[str], anchors: int, constants: Constants) -> list[NodeProto]:
    """`rows`: 1×cells×fields. Fields: x, y, l (a length) in pixels; s (a score, rising with light), v (any unit)."""
    width = len(fields)
    nodes: list[NodeProto] = [_pool(stride) for stride in STRIDES]
    unit = np.array([field in "sv" for field in fields])
    constants["unit"] = unit[None, None]
    for stride in STRIDES:
        # Positive weights for all: what matters is that scores rise with light.
        nodes += _head(f"pool_{stride}", f"map_{stride}", "logit", width * anchors, 1.5, seed, constants)
        nodes += _rows(f"map_{stride}", f"rows_{stride}", (1, -1, width), constants)
    scale, shift = _absolute(fields, anchors)
    constants["scale"], constants["shift"] = scale[None] / 3, shift[None]
    return [
        *nodes,
        node("Concat", [f"rows_{stride}" for stride in STRIDES], "values", axis=1),
        node("Sigmoid", ["values"], "units"),
        node("Mul", ["values", "scale"], "scaled"),
        node("Add", ["scaled", "shift"], "pixels"),
        node("Where", ["unit", "units", "pixels"], "rows"),
    ]


def yolov8(seed: str) -> bytes:
    """1×20×8400: centre, size, score and five points with a visibility each."""
    constants: Constants = {}
    nodes = _yolo(seed, "xylls" + "xyv" * 5, 1, constants)
    nodes.append(node("Transpose", ["rows"], "output0", perm=[0, 2, 1]))
    return graph(nodes, {"input": (1, 3, 640, 640)}, {"output0": (1, 20, 8400)}, **constants)


def yolov5(seed: str) -> bytes:
    """1×25200×16: centre, size, objectness, five points and the score of the class."""
    constants: Constants = {}
    nodes = _yolo(seed, "xylls" + "xy" * 5 + "s", 3, constants)
    nodes.append(node("Identity", ["rows"], "output"))
    return graph(nodes, {"input": (1, 3, 640, 640)}, {"output": (1, 25200, 16)}, **constants)


def s3fd(seed: str) -> bytes:
    """Six pairs of class logits and box offsets; the three coarse maps are larger than the image, as fc6 pads by 3."""
    constants: Constants = {"wide": np.full((3, 1, 3, 3), 1 / 9, np.float32)}
    nodes: list[NodeProto] = [_pool(stride) for stride in (4, 8, 16, 32)]
    square = {"kernel_shape": [3, 3], "group": 3}
    nodes += [
        node("Conv", ["pool_32", "wide"], "fc_32", pads=[3] * 4, **square),
        node("Conv", ["fc_32", "wide"], "fc_64", pads=[1] * 4, strides=[2, 2], **square),
        node("Conv", ["fc_64", "wide"], "fc_128", pads=[1] * 4, strides=[2, 2], **square),
    ]
    outputs: dict[str, Dims] = {}
    for stride in (4, 8, 16, 32, 64, 128):
        source = f"{'pool' if stride < 32 else 'fc'}_{stride}"
        nodes += _head(source, f"up_{stride}", "logit", 2, RAW, seed, constants, 0.35)
        constants[f"sign_{stride}"] = np.array([-0.2, 1], np.float32)[None, :, None, None]
        nodes.append(node("Mul", [f"up_{stride}", f"sign_{stride}"], f"cls_{stride}"))
        nodes += _head(source, f"reg_{stride}", "point", 4, RAW, seed, constants)
        outputs[f"cls_{stride}"] = (1, 2, f"h{stride}", f"w{stride}")
        outputs[f"reg_{stride}"] = (1, 4, f"h{stride}", f"w{stride}")
    return graph(nodes, {"input": (1, 3, "h", "w")}, outputs, **constants)


STANDINS: Mapping[str, Callable[[], bytes]] = MappingProxyType(
    {
        "yunet": partial(yunet, "yunet"),
        "yunet_2023mar": partial(yunet, "yunet_2023mar", size=640),
        "scrfd_500m": partial(insightface, "scrfd_500m"),
        "scrfd_2.5g": partial(insightface, "scrfd_2.5g", size=640, batched=True),
        "scrfd_10g": partial(insightface, "scrfd_10g"),
        "retinaface_10g": partial(insightface, "retinaface_10g"),
        "retinaface_mnet025": partial(retinaface, "retinaface_mnet025"),
        "retinaface_resnet50": partial(retinaface, "retinaface_resnet50"),
        "yolov8n_face": partial(yolov8, "yolov8n_face"),
        "yolov5_face": partial(yolov5, "yolov5-face"),
        "s3fd": partial(s3fd, "s3fd"),
    }
)
