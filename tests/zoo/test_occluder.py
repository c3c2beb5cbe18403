"""The occluder masker on real pixels: covered parts are found, bare faces are left alone."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from mien.faces import FaceFinder
from mien.geometry import transform, warp
from mien.mesh import upright_matrix
from mien.types import ByteArray, FloatArray
from mien.zoo.maskers.occluder import MARGIN, SIZE, Occluder
from mien.zoo.registry import Zoo, registry

NAMES = ("female_001", "female_031", "male_009", "male_036")


@pytest.fixture(scope="module")
def masker() -> Occluder:
    model = Zoo("cpu").load("masker", "occluder")
    assert isinstance(model, Occluder)
    return model


@pytest.fixture(scope="module")
def crops(portraits: Path) -> tuple[ByteArray, FloatArray]:
    """Four upright crops of the fixtures and their meshes in crop pixels."""
    finder, images, meshes = FaceFinder(Zoo("cpu")), [], []
    for name in NAMES:
        photo = cv2.imread(str(portraits / f"{name}.jpg"))
        assert photo is not None
        photo = np.ascontiguousarray(photo[:, :, ::-1])
        mesh = finder.find_in_image(photo, embeddings=False)[0].mesh
        matrix = upright_matrix(mesh, MARGIN, SIZE)
        images.append(warp(photo, matrix, Occluder.size, Occluder.size))
        meshes.append(transform(mesh[:, :2], matrix))
    return np.stack(images), np.stack(meshes)


def polygon(points: FloatArray) -> ByteArray:
    mask = np.zeros((Occluder.size, Occluder.size), np.uint8)
    cv2.fillPoly(mask, [np.round(points).astype(np.int32)], 1)
    return mask


def core(mesh: FloatArray) -> ByteArray:
    """Brows to chin, away from the hair."""
    outline = mesh[[70, 105, 9, 334, 300, 361, 397, 152, 172, 132]]
    return polygon(outline.mean(0) + (outline - outline.mean(0)) * 0.9)


def test_registered() -> None:
    card = registry()["masker", "occluder"].card
    assert (card.licence, card.commercial) == ("Apache-2.0", True)


def test_crop_matrix_is_upright_and_centred() -> None:
    rng = np.random.default_rng(0)
    mesh = rng.uniform(0, 10, (478, 3)).astype(np.float32)
    mesh[[33, 263], :2] = [[2, 5], [8, 5]]
    turn = np.radians(30)
    spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]], np.float32)
    turned = mesh.copy()
    turned[:, :2] = mesh[:, :2] @ spin.T * 7 + [100, 50]
    points = transform(turned[:468, :2], upright_matrix(turned, MARGIN, SIZE))
    low, high = points.min(0), points.max(0)
    np.testing.assert_allclose((low + high) / 2, (Occluder.size - 1) / 2, atol=1e-3)
    np.testing.assert_allclose(max(high - low), Occluder.size / Occluder.margin, atol=1e-2)
    np.testing.assert_allclose(points[33, 1], points[263, 1], atol=1e-3)


def test_bare_faces(masker: Occluder, crops: tuple[ByteArray, FloatArray]) -> None:
    images, meshes = crops
    covered = masker(images)
    assert covered.shape == (4, 160, 160, 1)
    assert covered.dtype == np.float32
    assert covered.min() >= 0
    assert covered.max() <= 1
    for said, mesh in zip(covered[..., 0], meshes, strict=True):
        assert (said[core(mesh) > 0] > 0.5).mean() < 0.02


def test_covered_faces(masker: Occluder, crops: tuple[ByteArray, FloatArray]) -> None:
    images, meshes = crops
    painted, masks = images.copy(), []
    for image, mesh in zip(painted, meshes, strict=True):
        mouth = polygon(mesh[[205, 425, 397, 152, 172]])
        lenses = polygon(mesh[[70, 63, 105, 66, 107, 122, 119, 117]]) | polygon(
            mesh[[300, 293, 334, 296, 336, 351, 348, 346]]
        )
        image[mouth > 0] = (190, 215, 235)
        image[lenses > 0] = (20, 20, 24)
        masks.append(mouth | lenses)
    for said, mask, mesh in zip(masker(painted)[..., 0], masks, meshes, strict=True):
        inner = cv2.erode(mask, np.ones((5, 5), np.uint8)) > 0
        assert (said[inner] > 0.5).mean() > 0.9
        bare = (core(mesh) > 0) & (cv2.dilate(mask, np.ones((9, 9), np.uint8)) == 0)
        assert (said[bare] > 0.5).mean() < 0.05


def test_light_is_no_occluder(masker: Occluder, crops: tuple[ByteArray, FloatArray]) -> None:
    images, meshes = crops
    grey = np.repeat(images.mean(3, keepdims=True), 3, 3)
    red = images * np.array([1, 0.25, 0.2])
    half = images * np.where(np.arange(160) < 80, 0.45, 1.0)[:, None]
    for changed in (grey, red, half):
        for said, mesh in zip(masker(changed.astype(np.uint8))[..., 0], meshes, strict=True):
            assert (said[core(mesh) > 0] > 0.5).mean() < 0.03


def test_a_batch_is_its_crops(masker: Occluder, crops: tuple[ByteArray, FloatArray]) -> None:
    images = crops[0]
    single = np.concatenate([masker(image[None]) for image in images])
    np.testing.assert_allclose(masker(images), single, atol=1e-4)
