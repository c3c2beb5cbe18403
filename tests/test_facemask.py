"""Masks of a face, back on the crop that they were made from."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mien.facemask import GRID, face_masks
from mien.geometry import transform
from mien.mesh import upright_matrix
from mien.types import ByteArray, FloatArray, Image
from tests import heads
from tests.fakes import FakeMasker


def ramps(width: int, height: int) -> Image:
    """Red rises to the right and green downwards, over the whole range."""
    x, y = np.linspace(0, 255, width), np.linspace(0, 255, height)
    return np.stack([*np.meshgrid(x, y), np.zeros((height, width))], axis=2).round().astype(np.uint8)


def check(maps: FloatArray, channel: FloatArray, mesh: FloatArray, masker: FakeMasker) -> float:
    """The map equals the crop's channel wherever the masker looked; the mean error, in levels."""
    height, width = channel.shape
    scale = maps.shape[1] / width
    rows, columns = np.mgrid[: maps.shape[0], : maps.shape[1]]
    at = np.stack([(columns + 0.5) / scale - 0.5, (rows + 0.5) * height / maps.shape[0] - 0.5], 2).astype(np.float32)
    view = transform(at, upright_matrix(mesh, masker.margin, masker.size))
    looked = ((view > 1) & (view < masker.size - 2)).all(2) & (at > 1).all(2)
    looked &= (at[..., 0] < width - 2) & (at[..., 1] < height - 2)
    assert looked.sum() > 0.2 * looked.size
    exact = cv2.remap(np.asarray(channel, np.float32), at[..., 0], at[..., 1], cv2.INTER_LINEAR)
    error = np.asarray(255 * maps - exact, np.float32)[looked]
    assert np.abs(error).max() < 255 / (min(width, height) - 1) + 1.5
    return float(error.mean())


@pytest.mark.parametrize("roll", [0.0, 35.0, -90.0, 180.0])
@pytest.mark.parametrize(("width", "height"), [(140, 190), (190, 140), (700, 500)])
def test_masks_lie_on_what_they_were_made_from(roll: float, width: int, height: int) -> None:
    crop, masker = ramps(width, height), FakeMasker()
    mesh = heads.mesh(0.6 * min(width, height), (width / 2 - 5, height / 2 + 3), heads.turn(roll=roll))
    (found,) = face_masks([(crop / 255).astype(np.float32)], [mesh], [masker])
    assert set(found) == set(masker.classes)
    scale = min(1.0, GRID / max(width, height))
    for name, channel in (("x", crop[..., 0]), ("y", crop[..., 1])):
        assert found[name].shape == (round(height * scale), round(width * scale))
        assert found[name].dtype == np.float32
        # A shift by half a pixel of the maps would be a quarter of a level or more.
        assert abs(check(found[name], channel, mesh, masker)) < 0.1


def test_bytes_and_floats_give_the_same_masks() -> None:
    crop, mesh = ramps(150, 120), heads.mesh(80, (70, 60), heads.turn(20, roll=30))
    whole, part = (face_masks([c], [mesh], [FakeMasker()])[0] for c in (crop, (crop / 255).astype(np.float32)))
    for name in whole:
        np.testing.assert_allclose(whole[name], part[name], atol=1.01 / 255)


def test_faces_go_to_a_masker_as_one_batch_and_come_back_in_order() -> None:
    crops = [ramps(150, 120), 255 - ramps(90, 200)]
    meshes = [heads.mesh(80, (70, 60)), heads.mesh(60, (45, 100), heads.turn(roll=50))]
    masker = FakeMasker()
    both = face_masks(crops, meshes, [masker])
    assert masker.batches == [2]
    for crop, mesh, maps in zip(crops, meshes, both, strict=True):
        check(maps["x"], crop[..., 0], mesh, masker)
        (alone,) = face_masks([crop], [mesh], [FakeMasker()])
        np.testing.assert_array_equal(maps["y"], alone["y"])


def test_several_maskers_add_up() -> None:
    first, second = FakeMasker(), FakeMasker()
    second.classes, second.size, second.margin = ("occluder", "glass"), 40, 1.5
    crop, mesh = ramps(150, 120), heads.mesh(80, (70, 60))
    (found,) = face_masks([crop], [mesh], [first, second])
    assert list(found) == ["x", "y", "occluder", "glass"]
    check(found["x"], crop[..., 0], mesh, first)
    check(found["occluder"], crop[..., 0], mesh, second)
    assert dict(face_masks([crop], [mesh], [])[0]) == {}


class Uniform(FakeMasker):
    """Gives each class one value everywhere."""

    def __init__(self, **values: float) -> None:
        super().__init__()
        self.classes, self._values = tuple(values), list(values.values())

    def __call__(self, crops: ByteArray) -> FloatArray:
        shape = (len(crops), self.size, self.size, len(self._values))
        return np.broadcast_to(np.asarray(self._values, np.float32), shape)


@pytest.mark.parametrize("turned", [False, True])
def test_maskers_of_the_same_classes_hide_what_either_hides(turned: bool) -> None:
    first = Uniform(occluder=1.0, skin=0.25, hair=0.0, clothes=0.5)
    second = Uniform(skin=0.75, clothes=0.25, occluder=0.0, hair=0.125)
    maskers = [second, first] if turned else [first, second]
    (found,) = face_masks([ramps(150, 120)], [heads.mesh(80, (70, 60))], maskers)
    assert {name: set(np.unique(mask).tolist()) for name, mask in found.items()} == {
        "occluder": {1.0}, "skin": {0.25}, "hair": {0.125}, "clothes": {0.5},
    }  # fmt: skip


def test_a_face_cut_by_the_crops_edge() -> None:
    crop, mesh = ramps(100, 150), heads.mesh(110, (20, 75))
    (found,) = face_masks([crop], [mesh], [FakeMasker()])
    check(found["x"], crop[..., 0], mesh, FakeMasker())
