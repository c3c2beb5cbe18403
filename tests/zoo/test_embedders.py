"""ArcFace and dlib's ResNet on stand-in graphs, whose outputs tell channel order, scale and batch index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mien.errors import ModelError
from mien.types import ByteArray
from mien.zoo.embedders.arcface import ArcFace, ArcFaceGlintR100, ArcFaceW600kMbf, ArcFaceW600kR50
from mien.zoo.embedders.dlib_resnet import DlibResNet
from mien.zoo.embedders.mobilefacenet import MobileFaceNet
from tests import stand_ins

COLOURS = ((255, 0, 51), (10, 20, 30))


def crops(size: int) -> ByteArray:
    return np.array(COLOURS, np.uint8)[:, None, None].repeat(size, 1).repeat(size, 2)


def means(size: int, dimensions: int, batch: int | str = "n", given: int | str = "n") -> bytes:
    """The first three values are the means of the channels."""
    nodes = [
        stand_ins.node("ReduceMean", ["input.1"], "mean", axes=[2, 3], keepdims=0),
        stand_ins.node("MatMul", ["mean", "pick"], "683"),
    ]
    pick = np.eye(3, dimensions, dtype=np.float32)
    return stand_ins.graph(nodes, {"input.1": (batch, 3, size, size)}, {"683": (given, dimensions)}, pick=pick)


@pytest.mark.parametrize("family", [ArcFaceW600kR50, ArcFaceW600kMbf, ArcFaceGlintR100])
def test_arcface_gets_rgb_of_minus_1_to_1(family: type[ArcFace]) -> None:
    raw = family("cpu", means(112, 512)).raw(crops(112))
    assert raw.shape == (2, 512) and raw.dtype == np.float32
    np.testing.assert_allclose(raw[:, :3], np.array(COLOURS) / 127.5 - 1, atol=1e-4)
    assert not raw[:, 3:].any()
    assert (family.template, family.size) == ("arcface_112_v2", 112)


@pytest.mark.parametrize(("batch", "given"), [("n", 1), (1, 1), ("n", "n")])
def test_a_batch_passes_through_files_that_declare_one_item(batch: int | str, given: int | str) -> None:
    model = ArcFaceW600kR50("cpu", means(112, 512, batch, given))
    np.testing.assert_allclose(model.raw(crops(112))[:, :3], np.array(COLOURS) / 127.5 - 1, atol=1e-4)


def test_dlib_gets_raw_rgb() -> None:
    raw = DlibResNet("cpu", means(150, 128)).raw(crops(150))
    np.testing.assert_allclose(raw[:, :3], COLOURS, rtol=1e-4)
    assert (DlibResNet.template, DlibResNet.size) == ("dlib_150", 150)


@pytest.mark.parametrize(
    "load",
    [
        lambda: ArcFaceW600kR50("cpu", means(112, 512)),
        lambda: DlibResNet("cpu", means(150, 128)),
        lambda: MobileFaceNet("cpu"),
    ],
    ids=["arcface", "dlib", "mobilefacenet"],
)
def test_calls_give_raw_scaled_to_length_1(load: Callable[[], ArcFace | DlibResNet | MobileFaceNet]) -> None:
    model = load()
    images = crops(model.size)
    raw = model.raw(images)
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert np.abs(lengths - 1).max() > 0.1
    np.testing.assert_allclose(model(images), raw / lengths, atol=1e-6)


def test_another_embedders_file_is_refused() -> None:
    with pytest.raises(ModelError, match=r"^arcface_w600k_r50: expected outputs n×512 but found n×128"):
        ArcFaceW600kR50("cpu", means(112, 128))
    with pytest.raises(ModelError, match=r"expected inputs n×3×150×150 but found n×3×112×112"):
        DlibResNet("cpu", means(112, 128))
    with pytest.raises(ModelError, match=r"^arcface_glint_r100: no weights ship with mien; pass a file"):
        ArcFaceGlintR100("cpu")
