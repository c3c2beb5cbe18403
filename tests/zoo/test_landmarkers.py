"""The landmarkers on stand-in graphs, whose outputs tell channel order, scale, points and batch index."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto

from mien.types import ByteArray, FloatArray
from mien.zoo.landmarkers.fan import Fan4
from mien.zoo.landmarkers.fan_68_5 import Fan685
from mien.zoo.landmarkers.insightface import Landmarks3d68, Landmarks106
from mien.zoo.landmarkers.peppa_wutz import PeppaWutz
from mien.zoo.landmarkers.pipnet import MEAN_FACE, PipNet98, decode, votes_of_neighbours
from tests.stand_ins import graph, node

COLOURS = np.array(((255, 102, 51), (0, 51, 204)))
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def crops(size: int) -> ByteArray:
    return COLOURS.astype(np.uint8)[:, None, None].repeat(size, 1).repeat(size, 2)


def means(count: int, output: str) -> list[NodeProto]:
    """N×(3 · count): the means of the channels, over and over."""
    return [node("ReduceMean", ["input"], "mean", axes=[2, 3], keepdims=0), node("Tile", ["mean", "times"], output)]


def fan() -> bytes:
    """x, y and score of each point are the means of the channels; so are the first three heatmaps, and the others 0."""
    nodes = [
        *means(68, "row"),
        node("Reshape", ["row", "triples"], "points"),
        node("AveragePool", ["input"], "small", kernel_shape=[4, 4], strides=[4, 4]),
        node("Conv", ["small", "pick"], "heatmaps"),
    ]
    return graph(
        nodes, {"input": (1, 3, 256, 256)}, {"points": (1, 68, 3), "heatmaps": (1, 68, 64, 64)},
        times=np.array([1, 68]), triples=np.array([-1, 68, 3]),
        pick=np.eye(68, 3, dtype=np.float32)[..., None, None],
    )  # fmt: skip


def test_2dfan_gets_rgb_from_0_to_1_and_its_grid_is_a_quarter() -> None:
    points, scores = Fan4("cpu", fan())(crops(256))
    assert points.shape == (2, 68, 2) and points.dtype == scores.dtype == np.float32
    np.testing.assert_allclose(points, (4 * COLOURS[:, None, :2] / 255).repeat(68, 1), atol=5e-4)
    np.testing.assert_allclose(scores, COLOURS.sum(1) / 255 / 68, atol=1e-4)


def test_2dfan_may_get_bgr() -> None:
    class Bgr(Fan4):
        bgr = True

    points, _ = Bgr("cpu", fan())(crops(256))
    np.testing.assert_allclose(points[:, 5], 4 * COLOURS[:, [2, 1]] / 255, atol=5e-4)


@pytest.mark.parametrize("shape", [(1, 204), (1, 68, 3)])
def test_peppa_wutz_gives_a_score_with_each_point(shape: tuple[int, ...]) -> None:
    nodes = [*means(68, "row"), node("Reshape", ["row", "shape"], "output")]
    file = graph(
        nodes, {"input": (1, 3, 256, 256)}, {"output": shape}, times=np.array([1, 68]), shape=np.array((-1, *shape[1:]))
    )
    points, scores = PeppaWutz("cpu", file)(crops(256))
    np.testing.assert_allclose(points, (4 * COLOURS[:, None, :2] / 255).repeat(68, 1), atol=5e-4)
    np.testing.assert_allclose(scores, COLOURS[:, 2] / 255, atol=1e-4)


def insightface(values: int) -> bytes:
    """Each value is the mean of the red, over 1000, plus the value's number over 10000."""
    nodes = [
        node("ReduceMean", ["data"], "mean", axes=[2, 3], keepdims=0),
        node("MatMul", ["mean", "red"], "first"),
        node("Add", ["first", "number"], "fc1"),
    ]
    red = np.zeros((3, values), np.float32)
    red[0] = 1 / 1000
    return graph(
        nodes, {"data": ("None", 3, 192, 192)}, {"fc1": (1, values)},
        red=red, number=np.arange(values, dtype=np.float32) / 10000,
    )  # fmt: skip


def test_106_points_get_raw_rgb_and_span_the_crop() -> None:
    points, scores = Landmarks106("cpu", insightface(212))(crops(192))
    values = np.arange(212).reshape(106, 2) / 10000 + COLOURS[:, :1, None] / 1000
    np.testing.assert_allclose(points, (values + 1) * 96, atol=1e-3)
    assert scores.tolist() == [1, 1]


def test_68_points_in_space_are_the_last_of_many() -> None:
    points, _ = Landmarks3d68("cpu", insightface(3309))(crops(192))
    values = np.arange(3309 - 204, 3309).reshape(68, 3) / 10000 + COLOURS[:, :1, None] / 1000
    np.testing.assert_allclose(points, (values + np.array((1, 1, 0))) * 96, atol=1e-3)


def test_points_from_points_go_through_as_they_are() -> None:
    nodes = [node("Slice", ["input", "starts", "ends", "axes"], "one"), node("Tile", ["one", "times"], "output")]
    file = graph(
        nodes, {"input": (1, 5, 2)}, {"output": (1, 68, 2)},
        starts=np.array([3]), ends=np.array([4]), axes=np.array([1]), times=np.array([1, 68, 1]),
    )  # fmt: skip
    keypoints = np.random.default_rng(1).random((2, 5, 2), np.float32)
    points = Fan685("cpu", file)(keypoints)
    np.testing.assert_allclose(points, keypoints[:, 3:4].repeat(68, 1))
    assert Fan685.crop == "points" and Fan685.template == "ffhq_512"


def test_pipnet_gets_rgb_with_imagenet_statistics() -> None:
    outputs = {"cls": 98, "x": 98, "y": 98, "nb_x": 980, "nb_y": 980}
    nodes = [node("AveragePool", ["input"], "cells", kernel_shape=[32, 32], strides=[32, 32])]
    nodes += [node("Conv", ["cells", f"{name}_w"], name) for name in outputs]
    weights = {f"{name}_w": np.zeros((maps, 3, 1, 1), np.float32) for name, maps in outputs.items()}
    weights["cls_w"][:, 2] = 1 / 10
    weights["x_w"][:, 0] = weights["nb_x_w"][:, 0] = weights["y_w"][:, 1] = weights["nb_y_w"][:, 1] = 1
    file = graph(
        nodes, {"input": (1, 3, 256, 256)}, {name: (1, maps, 8, 8) for name, maps in outputs.items()}, {}, **weights
    )
    points, scores = PipNet98("cpu", file)(crops(256))
    seen = (COLOURS / 255 - MEAN) / STD
    np.testing.assert_allclose(points, (32 * seen[:, None, :2]).repeat(98, 1), atol=1e-3)
    np.testing.assert_allclose(scores, np.clip(seen[:, 2] / 10, 0, 1), atol=1e-5)


def nearest(point: int) -> list[int]:
    """The ten neighbours of a point of the mean face, nearest first."""
    mean = np.array(MEAN_FACE, np.float64)
    return [int(i) for i in np.argsort(((mean - mean[point]) ** 2).sum(1))[1:11]]


def test_pipnet_averages_a_point_with_what_its_neighbours_say() -> None:
    maps: list[FloatArray] = [np.zeros((1, times * 98, 8, 8), np.float32) for times in (1, 1, 1, 10, 10)]
    score, x, y, near_x, near_y = maps
    score[0, :, 3, 5] = 0.6
    x[0, :, 3, 5], y[0, :, 3, 5] = 0.5, 0.25
    near_x[0, :, 3, 5], near_y[0, :, 3, 5] = 0.5, 0.25
    points, scores = decode(maps)
    np.testing.assert_allclose(points, [[(5.5 * 32, 3.25 * 32)] * 98], atol=1e-3)
    np.testing.assert_allclose(scores, [0.6], atol=1e-6)
    # One neighbour's word moves the point it is about, by its share of all that is said of it, and no other.
    teller, place = 60, 2
    about = nearest(teller)[place]
    near_x[0, 10 * teller + place, 3, 5] += 4
    moved, _ = decode(maps)
    tellers = [point for point in range(98) if about in nearest(point)]
    repeats = (tellers * 11)[:17].count(teller)  # the authors count votes again until there are 17
    assert moved[0, about, 0] - points[0, about, 0] == pytest.approx(4 * 32 * repeats / 18, rel=1e-4)
    np.testing.assert_allclose(np.delete(moved, about, 1), np.delete(points, about, 1), atol=1e-4)


def test_the_cell_of_a_point_is_where_its_own_score_is_best() -> None:
    maps: list[FloatArray] = [np.zeros((1, times * 98, 8, 8), np.float32) for times in (1, 1, 1, 10, 10)]
    maps[0][0, :, 1, 6] = 0.5
    maps[0][0, 10, 7, 2] = 0.9
    points, scores = decode(maps)
    assert scores[0] == pytest.approx((97 * 0.5 + 0.9) / 98, abs=1e-6)
    np.testing.assert_allclose(points[0, 10], np.array([2 + 6 * 17, 7 + 17]) * 32 / (1 + 17), rtol=1e-5)


def test_every_neighbour_map_tells_of_one_point() -> None:
    votes = votes_of_neighbours()
    assert votes.shape == (98, 17) and not votes.flags.writeable
    assert sorted({(int(each), point) for point, row in enumerate(votes) for each in row}) == [
        (10 * teller + place, about) for teller in range(98) for place, about in enumerate(nearest(teller))
    ]
