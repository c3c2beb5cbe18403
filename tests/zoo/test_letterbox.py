"""Frames of any size as a detector's fixed input, and back: exact, whatever the sides."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.types import ByteArray
from mien.zoo.detectors.yoloface import YoloV8Face
from tests.standins.base import Constants, graph, node
from tests.zoo.detectors.told import Told

SIDES = st.integers(1, 500)


def extent(height: int, width: int) -> bytes:
    """YOLOv8-face's layout: the first row tells the box around all pixels brighter than half, and its corners."""
    constants: Constants = {
        "half": np.array(0.5, np.float32), "two": np.array(2, np.float32), "one": np.array([[1]], np.float32),
        "first": np.eye(1, sum((height // s) * (width // s) for s in (8, 16, 32)), dtype=np.float32),
        "left": -np.arange(width, dtype=np.float32)[None], "right": np.arange(1, width + 1, dtype=np.float32)[None],
        "top": -np.arange(height, dtype=np.float32)[None], "bottom": np.arange(1, height + 1, dtype=np.float32)[None],
        "far": np.array(-1e4, np.float32), "column": np.array([1, 20, 1]),
    }  # fmt: skip
    nodes = [
        node("ReduceMin", ["images"], "grey", axes=[1], keepdims=0),
        node("Greater", ["grey", "half"], "bright"),
        node("Cast", ["bright"], "lit", to=1),
    ]
    for sides, axis in ((("left", "right"), 1), (("top", "bottom"), 2)):
        nodes += [
            node("ReduceMax", ["lit"], f"along_{axis}", axes=[axis], keepdims=0),
            node("Greater", [f"along_{axis}", "half"], f"any_{axis}"),
        ]
        for name in sides:
            nodes += [
                node("Where", [f"any_{axis}", name, "far"], f"{name}_of"),
                node("ReduceMax", [f"{name}_of"], f"{name}_most", axes=[1], keepdims=1),
            ]
    nodes += [
        node("Neg", ["left_most"], "x0"), node("Neg", ["top_most"], "y0"),
        node("Identity", ["right_most"], "x1"), node("Identity", ["bottom_most"], "y1"),
        node("Add", ["x0", "x1"], "x_sum"), node("Div", ["x_sum", "two"], "cx"), node("Sub", ["x1", "x0"], "w"),
        node("Add", ["y0", "y1"], "y_sum"), node("Div", ["y_sum", "two"], "cy"), node("Sub", ["y1", "y0"], "h"),
    ]  # fmt: skip
    row = ["cx", "cy", "w", "h", "one"]
    for x, y in (("x0", "y0"), ("x1", "y0"), ("cx", "cy"), ("x0", "y1"), ("x1", "y1")):
        row += [x, y, "one"]
    nodes += [
        node("Concat", row, "row", axis=1),
        node("Reshape", ["row", "column"], "values"),
        node("Mul", ["values", "first"], "output"),
    ]
    cells = constants["first"].shape[1]
    return graph(nodes, {"images": (1, 3, height, width)}, {"output": (1, 20, cells)}, **constants)


@cache
def detector(height: int, width: int) -> YoloV8Face:
    return YoloV8Face("cpu", extent(height, width))


@pytest.mark.parametrize(("tall", "wide"), [(96, 96), (64, 128)])
@settings(deadline=None, max_examples=40)
@given(SIDES, SIDES)
def test_a_face_that_fills_the_frame_comes_back_as_the_frame(tall: int, wide: int, width: int, height: int) -> None:
    (hit,) = detector(tall, wide)(np.full((height, width, 3), 255, np.uint8), 0.5)
    np.testing.assert_allclose(hit.bbox, [0, 0, width, height], atol=1e-3)
    corners = [(0, 0), (width, 0), (width / 2, height / 2), (0, height), (width, height)]
    np.testing.assert_allclose(hit.keypoints, corners, atol=1e-3)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_face_lies_where_it_is_in_the_frame(data: st.DataObject) -> None:
    width, height = data.draw(st.integers(8, 500), "width"), data.draw(st.integers(8, 500), "height")
    step = max(1.0, max(width, height) / 96)  # frame pixels of an input pixel
    least = int(min(width, height, np.ceil(2 * step)))
    x0 = data.draw(st.integers(0, width - least), "x0")
    y0 = data.draw(st.integers(0, height - least), "y0")
    x1 = data.draw(st.integers(x0 + least, width), "x1")
    y1 = data.draw(st.integers(y0 + least, height), "y1")
    image = np.zeros((height, width, 3), np.uint8)
    image[y0:y1, x0:x1] = 255
    (hit,) = detector(96, 96)(image, 0.5)
    np.testing.assert_allclose(hit.bbox, [x0, y0, x1, y1], atol=1.01 * step)


def seen(image: ByteArray, side: int = 32) -> ByteArray:
    """What a graph whose input is fixed to side × side gets of a frame."""
    told = Told([np.zeros((1, 20, 21 * (side // 32) ** 2), np.float32)], side)
    told.model(YoloV8Face)(image, 0.5)
    return np.asarray(np.round(told.given[0].transpose(1, 2, 0) * 255), np.uint8)


def test_shrinking_takes_means_and_enlarging_interpolates() -> None:
    large = np.random.default_rng(0).integers(0, 256, (128, 128, 3)).astype(np.uint8)
    means = large.reshape(32, 4, 32, 4, 3).mean((1, 3))
    np.testing.assert_allclose(seen(large).astype(float), means, atol=0.51)
    small = np.random.default_rng(1).integers(0, 256, (1, 20)).astype(np.uint8)
    wanted = np.interp((np.arange(32) + 0.5) * 20 / 32 - 0.5, np.arange(20), small[0])
    enlarged = seen(small[..., None].repeat(20, 0).repeat(3, 2))
    np.testing.assert_allclose(enlarged.astype(float), wanted[None, :, None] + np.zeros((32, 1, 3)), atol=1.1)


@pytest.mark.parametrize(("height", "width"), [(1, 300), (300, 1), (1, 40), (40, 1)])
def test_a_line_stays_one_pixel_wide(height: int, width: int) -> None:
    lit = seen(np.full((height, width, 3), 255, np.uint8))[..., 0] > 0
    assert lit[0].sum() == (32 if width > 1 else 1) and lit[:, 0].sum() == (32 if height > 1 else 1)


def test_the_frame_keeps_its_shape() -> None:
    told = Told([np.zeros((1, 20, 189), np.float32)], 96)
    assert told.model(YoloV8Face)(np.full((101, 203, 3), 255, np.uint8), 0.5) == []
    lit = told.given[0, 0] > 0.5
    # 203 → 96 and 101 → 47.8, at the top left.
    assert lit[:48].all() and not lit[48:].any()
