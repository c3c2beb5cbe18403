"""XSeg and BiSeNet on stand-in graphs, and in the pipeline's masking."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mien
from mien.errors import OptionsError
from mien.facemask import face_masks
from mien.types import ByteArray
from mien.zoo.install import add
from mien.zoo.maskers.bisenet import GROUPS, LABELS, BiSeNet18, BiSeNet34
from mien.zoo.maskers.xseg import XSeg1, XSeg3
from mien.zoo.registry import Zoo
from mien.zoo.store import Store
from tests.fakes import MESH
from tests.stand_ins import graph, node
from tests.standins import standin

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def flat(size: int, *colours: tuple[int, int, int]) -> ByteArray:
    return np.array(colours, np.uint8)[:, None, None].repeat(size, 1).repeat(size, 2)


def xseg(batch: int | str = "n") -> bytes:
    """What is visible: the first channel, one and a half times."""
    return graph(
        [node("MatMul", ["input", "pick"], "output")],
        {"input": (batch, 256, 256, 3)}, {"output": (batch, 256, 256, 1)},
        pick=np.array([[1.5], [0], [0]], np.float32),
    )  # fmt: skip


@pytest.mark.parametrize("batch", ["n", 1])
def test_xseg_gets_bgr_from_0_to_1_and_what_is_not_visible_is_covered(batch: int | str) -> None:
    masks = XSeg1("cpu", xseg(batch))(flat(256, (10, 20, 51), (10, 20, 255)))
    assert masks.shape == (2, 256, 256, 1) and masks.dtype == np.float32
    np.testing.assert_allclose(masks[:, 7, 9, 0], [1 - 0.3, 0], atol=1e-6)
    assert XSeg1.classes == ("occluder",)


def bisenet(heads: int = 1) -> bytes:
    """Label n scores n times the red less a little; more heads are those of training, which exports keep."""
    names = [f"output{i}" for i in range(heads)]
    nodes = [node("Conv", ["input", "weights", "bias"], name) for name in names]
    weights = np.zeros((19, 3, 1, 1), np.float32)
    weights[:, 0, 0, 0] = np.arange(19)
    return graph(
        nodes, {"input": (1, 3, 512, 512)}, {name: (1, 19, 512, 512) for name in names},
        weights=weights, bias=(-np.arange(19) ** 2 / 2).astype(np.float32),
    )  # fmt: skip


@pytest.mark.parametrize("label", [0, 1, 6, 9, 13, 15, 16, 17, 18])
def test_bisenet_gets_rgb_with_imagenet_statistics_and_groups_the_likeliest_label(label: int) -> None:
    # The scores n · red − n² / 2 are best where n is the red; a gain makes up for the narrow range of what comes in.
    gain = 10.0
    weights = np.zeros((19, 3, 1, 1), np.float32)
    weights[:, 0, 0, 0] = gain * np.arange(19)
    red = 200
    centre = gain * (red / 255 - MEAN[0]) / STD[0]
    file = graph(
        [node("Conv", ["input", "weights", "bias"], "output")],
        {"input": (1, 3, 512, 512)}, {"output": (1, 19, 512, 512)},
        weights=weights, bias=(np.arange(19) * (label - centre) - np.arange(19) ** 2 / 2).astype(np.float32),
    )  # fmt: skip
    masks = BiSeNet34("cpu", file)(flat(512, (red, 3, 250)))
    named = dict(zip(BiSeNet34.classes, masks[0, 5, 500], strict=True))
    assert named == {name: float(label in labels) for name, labels in GROUPS.items()}
    # A step of the red by 1/255 moves the best label by 0.17: another mean, scale or channel would show.
    other = BiSeNet34("cpu", file)(flat(512, (red + 9, 3, 250)))[0, 0, 0]
    assert dict(zip(BiSeNet34.classes, other, strict=True)) == {
        name: float(min(label + 2, 18) in labels) for name, labels in GROUPS.items()
    }


def test_bisenet_leaves_out_the_heads_of_training() -> None:
    crops = flat(512, (200, 3, 250))
    np.testing.assert_array_equal(BiSeNet18("cpu", bisenet(3))(crops), BiSeNet18("cpu", bisenet())(crops))


def test_the_groups_hold_each_label_once() -> None:
    labels = [label for group in GROUPS.values() for label in group]
    assert sorted(labels) == sorted(set(range(19)) - {0, 9})
    assert [LABELS[label] for label in GROUPS["occluder"]] == ["glasses", "hat"]
    assert LABELS[17] == "hair" and LABELS[16] == "clothes"


def test_masks_come_back_onto_the_crop() -> None:
    mesh = np.asarray(MESH * 100 + (75, 75, 0), np.float32)
    image = np.zeros((150, 150, 3), np.uint8)
    image[:, 75:, 2] = 200
    (masks,) = face_masks([image], [mesh], [XSeg3("cpu", xseg())])
    assert masks["occluder"].shape == (150, 150)
    assert masks["occluder"][75, 40] > 0.99 and masks["occluder"][75, 110] < 0.01


@pytest.mark.parametrize("name", ["xseg_1", "bisenet_resnet_34"])
def test_a_swap_with_an_installed_masker(name: str, portraits: Path, tmp_path: Path) -> None:
    zoo = Zoo("cpu", store=Store(tmp_path / "models"))
    source, target, output = (portraits / "female_031.jpg", portraits / "female_001.jpg", tmp_path / "out.png")
    with pytest.raises(OptionsError, match=f"{name} is not installed"):
        mien.swap(source, target, output, zoo=zoo, masker=name)
    file = tmp_path / "masker.onnx"
    file.write_bytes(standin("masker", name))
    add(zoo.store, file, name)
    report = mien.swap(source, target, output, zoo=zoo, masker=name)
    assert report.frames_with_faces == 1 and name in {model.name for model in report.models}
