from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import helper

from mien.errors import ModelError, OptionsError
from mien.evaluate.judges import CROP, MARGIN, SIDE, Classifier, Perceptual, inner_features, open_judges
from mien.mesh import SURFACE
from mien.runtime.session import Session
from mien.types import Face, Image
from mien.zoo.registry import Zoo
from tests import heads
from tests.stand_ins import graph, node


def describer(side: int | str = 32) -> bytes:
    """A description network: sex, and as the longest output each channel's mean and maximum."""
    nodes = [
        node("ReduceMean", ["input"], "mean", axes=[1, 2], keepdims=0),
        node("ReduceMax", ["input"], "most", axes=[1, 2], keepdims=0),
        node("Concat", ["mean", "most"], "embedding", axis=1),
        node("ReduceMean", ["mean"], "sex", axes=[1], keepdims=1),
    ]
    return graph(nodes, {"input": ("n", side, side, 3)}, {"sex": ("n", 1), "embedding": ("n", 6)})


def classifier(side: int = SIDE) -> bytes:
    """Logit: the mean of the red channel."""
    nodes = [
        node("ReduceMean", ["input"], "mean", axes=[2, 3], keepdims=0),
        node("Gather", ["mean", "red"], "logit", axis=1),
    ]
    return graph(nodes, {"input": ("n", 3, side, side)}, {"logit": ("n", 1)}, red=np.array([0]))


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return Zoo("cpu")


def test_a_description_network_sees_the_face_with_a_margin(tmp_path: Path, zoo: Zoo) -> None:
    own, other = open_judges(zoo, [saved(tmp_path / "six.onnx", describer())])
    assert (own.name, other.name) == ("mobilefacenet", "six")
    face = heads.face(heads.mesh(100, (128, 128)))
    extent = float(np.ptp(face.mesh[:SURFACE, :2], axis=0).max())
    picture = np.zeros((256, 256, 3), np.uint8)
    side = round(CROP * extent / 2)
    picture[128 - side : 128 + side, 128 - side : 128 + side] = (200, 100, 0)
    found = other(picture, face)
    expected = np.array([200, 100, 0, 200, 100, 0])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=0.02)
    assert float(np.linalg.norm(found)) == pytest.approx(1)


def test_judges_go_by_name_too_and_by_one_name_only_once(tmp_path: Path, zoo: Zoo) -> None:
    assert [judge.name for judge in open_judges(zoo)] == ["mobilefacenet"]
    with pytest.raises(OptionsError, match="two evaluators called mobilefacenet"):
        open_judges(zoo, ["mobilefacenet"])
    with pytest.raises(OptionsError, match="no embedder is called 'nobody'"):
        open_judges(zoo, ["nobody"])


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (None, r"x\.onnx: there is no such file"),
        (b"no model", r"x\.onnx"),
        (classifier(), "is no embedder that mien knows"),
    ],
)
def test_a_file_that_is_no_embedder_is_told(tmp_path: Path, zoo: Zoo, data: bytes | None, match: str) -> None:
    path = tmp_path / "x.onnx"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ModelError, match=match):
        open_judges(zoo, [path])


def test_the_embedder_that_ships_knows_a_face_again(zoo: Zoo, woman_face: tuple[Image, Face]) -> None:
    image, face = woman_face
    (judge,) = open_judges(zoo)
    assert face.embedding is not None
    assert float(judge(image, face) @ face.embedding) > 0.999


def test_the_classifier_sees_the_face_upright_and_its_logit_counts(tmp_path: Path) -> None:
    judge = Classifier(saved(tmp_path / "swapped.onnx", classifier()))
    mesh = heads.mesh(100, (128, 128), heads.turn(roll=30))
    picture = np.zeros((256, 256, 3), np.uint8)
    assert judge(picture, mesh) == 0
    picture[:] = (102, 0, 255)
    assert judge(picture, mesh) == pytest.approx(0.4, abs=1e-3)
    low, high = heads.mesh(100, (128, 128))[:SURFACE, :2].min(0), heads.mesh(100, (128, 128))[:SURFACE, :2].max(0)
    side = MARGIN * float((high - low).max())
    picture[:] = 0
    cv2.circle(picture, (128, 128), round(side / 4), (255, 0, 0), -1)
    assert judge(picture, mesh) == pytest.approx(np.pi / 16, abs=0.02)  # a quarter of the side is the radius


def test_a_classifier_of_another_size_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="takes n×3×112×112, not N×3×224×224"):
        Classifier(saved(tmp_path / "x.onnx", classifier(112)))
    with pytest.raises(ModelError, match="there is no such file"):
        Classifier(tmp_path / "missing.onnx")


def test_inner_features_are_the_last_of_each_resolution() -> None:
    weights = np.ones((1, 1, 3, 3), np.float32) / 9
    nodes = [
        node("Relu", ["input"], "first"),
        node("Conv", ["first", "w"], "second", pads=[1, 1, 1, 1]),
        node("Conv", ["second", "w"], "half", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("GlobalAveragePool", ["half"], "output"),
    ]
    model = onnx.load_from_string(graph(nodes, {"input": (1, 1, 32, 32)}, {"output": (1, 1, 1, 1)}, w=weights))
    cut = inner_features(model)
    assert [output.name for output in onnx.load_from_string(cut).graph.output] == ["second", "half"]
    large, small = Session(cut, "cpu")(np.ones((1, 1, 32, 32), np.float32))
    assert large.shape == (1, 1, 32, 32) and small.shape == (1, 1, 16, 16)
    assert large[0, 0, 5, 5] == pytest.approx(1)
    assert [output.name for output in model.graph.output] == ["output"]
    flat = helper.make_model(
        helper.make_graph(
            [node("Relu", ["x"], "y")], "flat",
            [helper.make_tensor_value_info("x", 1, [1, 4])], [helper.make_tensor_value_info("y", 1, [1, 4])],
        )
    )  # fmt: skip
    with pytest.raises(ModelError, match="no inner features"):
        inner_features(flat)


def test_pictures_look_the_less_alike_the_more_they_are_blurred(woman_face: tuple[Image, Face]) -> None:
    image, face = woman_face
    picture = np.asarray(image, np.uint8)
    judge = Perceptual()
    blurred = [np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.uint8) for sigma in (1, 3, 9)]
    found = [judge(picture, each, face) for each in (picture, *blurred)]
    assert found[0] == 0
    assert found == sorted(found)
    assert 0.1 < found[-1] < 2
    assert judge(picture, blurred[1], face) == pytest.approx(judge(blurred[1], picture, face))
