"""The adapters on stand-in graphs, whose outputs tell channel order, mean, scale, points and batch index."""

from __future__ import annotations

import numpy as np
import pytest

from mien.errors import ModelError
from mien.mesh import EYE_CORNERS
from mien.types import ByteArray
from mien.zoo.detectors.yunet import YuNet, decode
from mien.zoo.embedders.mobilefacenet import MobileFaceNet
from mien.zoo.expressions.blendshapes52 import Blendshapes52
from mien.zoo.landmarkers.mesh478 import Mesh478
from mien.zoo.maskers.skin_hair import SkinHair
from tests import stand_ins

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def flat(size: int, *colours: tuple[int, int, int]) -> ByteArray:
    """A batch of crops of one colour each."""
    return np.array(colours, np.uint8)[:, None, None].repeat(size, 1).repeat(size, 2)


def test_yunet_gets_raw_bgr_and_cells_count_from_the_top_left() -> None:
    image = np.zeros((50, 70, 3), np.uint8)
    image[24:32, 40:48] = (0, 128, 255)  # RGB; the stand-in's score is √(blue · green)
    (hit,) = YuNet("cpu", stand_ins.detector())(image, 0.6)
    assert hit.score == pytest.approx(np.sqrt(128 / 255), abs=1e-5)
    np.testing.assert_allclose(hit.bbox, [36, 20, 44, 28], atol=1e-4)
    np.testing.assert_allclose(hit.keypoints, [[40, 24]] * 5, atol=1e-4)
    assert YuNet("cpu", stand_ins.detector())(image[:, :, ::-1], 0.6) == []


def test_yunet_pads_below_and_to_the_right() -> None:
    image = np.zeros((33, 65, 3), np.uint8)
    image[32:, 64:] = (0, 255, 255)  # one pixel of a cell that is otherwise padding
    hits = YuNet("cpu", stand_ins.detector())(image, 1 / 65)
    assert [hit.bbox.tolist() for hit in hits] == [[60, 28, 68, 36]]
    assert hits[0].score == pytest.approx(1 / 64, abs=1e-5)


@pytest.mark.parametrize(("level", "stride"), [(0, 8), (1, 16), (2, 32)])
def test_yunet_decoding(level: int, stride: int) -> None:
    width, height, column, row = 128, 64, 1, 1
    cells = [(width // s) * (height // s) for s in (8, 16, 32)]
    outputs = [np.zeros((1, n, c), np.float32) for c in (1, 1, 4, 10) for n in cells]
    cell = row * (width // stride) + column
    outputs[level][0, cell] = 0.9
    outputs[level + 3][0, cell] = 0.4
    outputs[level + 6][0, cell] = (0.5, -0.25, np.log(2), np.log(3))
    outputs[level + 9][0, cell] = np.arange(10) / 10
    boxes, scores, points = decode(outputs, width, height, 0.5)
    np.testing.assert_allclose(scores, [0.6], atol=1e-6)
    x, y = 1.5 * stride, 0.75 * stride
    np.testing.assert_allclose(boxes, [[x - stride, y - 1.5 * stride, x + stride, y + 1.5 * stride]], rtol=1e-5)
    np.testing.assert_allclose(points[0], (1 + np.arange(10).reshape(5, 2) / 10) * stride, rtol=1e-5)
    assert all(len(part) == 0 for part in decode(outputs, width, height, 0.61))


def test_mesh478_gets_rgb_from_0_to_1_and_gives_pixel_centres() -> None:
    points, presence = Mesh478("cpu", stand_ins.landmarker())(flat(256, (255, 102, 0), (0, 51, 255)))
    np.testing.assert_allclose(points[0], [[0.5, -0.1, 0]] * 478, atol=2e-4)
    np.testing.assert_allclose(points[1], [[-0.5, -0.3, 1]] * 478, atol=2e-4)
    np.testing.assert_allclose(presence, [1 / (1 + np.exp(-1)), 0.5], atol=2e-4)


def test_mobilefacenet_gets_rgb_with_imagenet_statistics() -> None:
    crops = flat(112, (255, 0, 51), (10, 20, 30))
    embeddings = MobileFaceNet("cpu", stand_ins.embedder())(crops)
    for embedding, colour in zip(embeddings, crops[:, 0, 0], strict=True):
        wanted = (colour / 255 - MEAN) / STD
        np.testing.assert_allclose(embedding[:3], wanted / np.linalg.norm(wanted), atol=2e-4)
        assert not embedding[3:].any()


def test_skin_hair_gets_rgb_with_imagenet_statistics_and_gives_the_classes_last() -> None:
    crops = flat(512, (255, 0, 51), (10, 20, 30))
    masks = SkinHair("cpu", stand_ins.masker())(crops)
    assert masks.shape == (2, 512, 512, 3)
    np.testing.assert_allclose(masks[:, 7, 500], (crops[:, 0, 0] / 255 - MEAN) / STD, rtol=1e-4)


def test_skin_hair_names_the_classes_in_the_order_of_the_network(skin: ByteArray) -> None:
    masks = SkinHair("cpu")(skin[None])[0]
    named = dict(zip(SkinHair.classes, masks.transpose(2, 0, 1), strict=True))
    # female_001: cheek, hair on the left, blouse.
    assert named["skin"][195, 225] > 0.9 > 0.1 > max(named["hair"][195, 225], named["clothes"][195, 225])
    assert named["hair"][300, 165] > 0.9 > 0.1 > named["clothes"][300, 165]
    assert named["clothes"][480, 180] > 0.9 > 0.1 > named["hair"][480, 180]


def test_blendshapes_get_their_points_level_and_in_order() -> None:
    model = Blendshapes52("cpu", stand_ins.expression())
    meshes = np.zeros((2, 478, 3), np.float32)
    meshes[:, :, 0] = np.arange(478)
    meshes[1] *= 2
    scores = model(meshes)
    np.testing.assert_allclose(scores[0, :3], [0, 0.001, 0.004], atol=1e-6)  # the model's first inputs: 0, 1, 4
    np.testing.assert_allclose(scores[1], 2 * scores[0], atol=1e-6)
    upside_down = -meshes
    left, right = EYE_CORNERS
    assert upside_down[0, left, 0] > upside_down[0, right, 0]
    np.testing.assert_allclose(model(upside_down), scores, atol=1e-5)


def test_a_file_of_another_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(ModelError, match=r"expected outputs n×128 but found n×512"):
        MobileFaceNet("cpu", stand_ins.embedder(512))
    with pytest.raises(ModelError, match=r"expected inputs n×3×h×w but found n×256×256×3"):
        YuNet("cpu", stand_ins.landmarker())
    with pytest.raises(ModelError, match=r"expected outputs n×1×1×1434, n×1×1×1, n×1 but found"):
        Mesh478("cpu", stand_ins.graph(
            [stand_ins.node("Identity", ["a"], "b")], {"a": ("n", 256, 256, 3)}, {"b": ("n", 256, 256, 3)}
        ))  # fmt: skip


def test_a_file_that_is_no_model_is_refused() -> None:
    with pytest.raises(ModelError, match="cannot load the model"):
        SkinHair("cpu", b"not a model")


def test_values_that_are_not_finite_are_refused() -> None:
    model = MobileFaceNet("cpu", stand_ins.embedder(offset=float("nan")))
    with pytest.raises(ModelError, match="not finite"):
        model(flat(112, (1, 2, 3)))
