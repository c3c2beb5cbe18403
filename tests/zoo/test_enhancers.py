"""The enhancers on stand-in graphs, whose outputs tell channel order, scale, weight and batch index."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from mien.errors import ModelError
from mien.types import ByteArray
from mien.zoo.attributes.genderage import GenderAge
from mien.zoo.enhancers.codeformer import CodeFormer
from mien.zoo.enhancers.gfpgan import Gfpgan12, Gfpgan13, Gfpgan14
from mien.zoo.enhancers.gpen import GpenBfr256, GpenBfr512, GpenBfr1024, GpenBfr2048
from mien.zoo.enhancers.restoreformer import RestoreFormerPlusPlus
from mien.zoo.enhancers.restorer import Restorer
from tests.stand_ins import graph, node

COLOURS = ((255, 0, 51), (102, 204, 153))


def crops(size: int, count: int = 2) -> ByteArray:
    return np.array(COLOURS[:count], np.uint8)[:, None, None].repeat(size, 1).repeat(size, 2)


def restorer(size: int) -> bytes:
    """Swaps red and blue, and doubles the green."""
    nodes = [node("Gather", ["input", "order"], "swapped", axis=1), node("Mul", ["swapped", "gain"], "output")]
    return graph(
        nodes, {"input": (1, 3, size, size)}, {"output": (1, 3, size, size)},
        order=np.array([2, 1, 0]), gain=np.array([[[1]], [[2]], [[1]]], np.float32),
    )  # fmt: skip


@pytest.mark.parametrize(
    "family", [Gfpgan12, Gfpgan13, Gfpgan14, RestoreFormerPlusPlus, GpenBfr256, GpenBfr512, GpenBfr1024, GpenBfr2048]
)
def test_restorers_take_and_give_minus_1_to_1(family: type[Restorer]) -> None:
    model = family("cpu", restorer(family.size))
    count = 2 if family.size <= 512 else 1
    restored = model(crops(family.size, count), 0.3)
    assert restored.shape == (count, family.size, family.size, 3) and restored.dtype == np.float32
    # Green: 0 → −1 → −2, cut off → 0; 204 → 0.6 → 1.2, cut off → 1.
    wanted = np.array([(51 / 255, 0, 1), (153 / 255, 1, 102 / 255)])[:count]
    np.testing.assert_allclose(restored[:, 3, -1], wanted, atol=1e-6)
    np.testing.assert_allclose(restored, np.broadcast_to(restored[:, :1, :1], restored.shape), atol=1e-6)


def test_templates_and_sizes() -> None:
    wanted = {
        Gfpgan14: ("ffhq_512", 512), RestoreFormerPlusPlus: ("ffhq_512", 512), GpenBfr256: ("arcface_128", 256),
        GpenBfr512: ("ffhq_512", 512), GpenBfr1024: ("ffhq_512", 1024), GpenBfr2048: ("ffhq_512", 2048),
    }  # fmt: skip
    assert {family: (family.template, family.size) for family in wanted} == wanted
    assert (CodeFormer.template, CodeFormer.size) == ("ffhq_512", 512)


def codeformer(kind: int) -> bytes:
    """The picture times the weight."""
    nodes = [node("Cast", ["weight"], "single", to=TensorProto.FLOAT), node("Mul", ["input", "single"], "output")]
    return graph(
        nodes, {"input": (1, 3, 512, 512), "weight": (1,)}, {"output": (1, 3, 512, 512)}, {"weight": kind}
    )  # fmt: skip


@pytest.mark.parametrize("kind", [TensorProto.DOUBLE, TensorProto.FLOAT])
@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_codeformer_gets_its_weight(weight: float, kind: int) -> None:
    restored = CodeFormer("cpu", codeformer(kind))(crops(512), weight)
    seen = np.array(COLOURS) / 127.5 - 1
    np.testing.assert_allclose(restored[:, 0, 0], (seen * weight + 1) / 2, atol=1e-6)


def test_codeformer_is_faithful_unless_told() -> None:
    model = CodeFormer("cpu", codeformer(TensorProto.DOUBLE))
    np.testing.assert_array_equal(model(crops(512, 1)), model(crops(512, 1), 1.0))


def test_a_restorer_without_a_weight_is_no_codeformer() -> None:
    with pytest.raises(ModelError, match=r"^codeformer: expected inputs n×3×512×512, 1 but found 1×3×512×512"):
        CodeFormer("cpu", restorer(512))
    with pytest.raises(ModelError, match=r"^gpen_bfr_512: expected inputs n×3×512×512 but found 1×3×256×256"):
        GpenBfr512("cpu", restorer(256))


def test_sex_and_age_come_from_raw_rgb() -> None:
    nodes = [
        node("ReduceMean", ["data"], "mean", axes=[2, 3], keepdims=0),
        node("Mul", ["mean", "scale"], "fc1"),
    ]
    scale = np.array([0.01, 0.1, 0.002], np.float32)
    file = graph(nodes, {"data": ("None", 3, 96, 96)}, {"fc1": (1, 3)}, scale=scale)
    found = GenderAge("cpu", file)(crops(96))
    np.testing.assert_allclose(found, np.array(COLOURS) * (0.01, 0.1, 0.2), rtol=1e-4)
    assert GenderAge.names == ("female", "male", "age")
