"""The blending network that ships: what a swap must keep, on painted heads and on photos."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from mien.color import as_bytes, as_float, to_lab
from mien.facemask import face_masks
from mien.faces import FaceFinder
from mien.identity import Identity
from mien.identity_data import IdentityData
from mien.media import open_reader
from mien.mesh import SURFACE
from mien.types import Box, ByteArray, Face, FloatArray, Image, Patch
from mien.zoo.contracts import Source, Style
from mien.zoo.registry import Zoo
from mien.zoo.swappers.texture import TextureSwapper
from tests import heads
from tests.fakes import embedding

WIDTH, HEIGHT = 290, 310
STILL = np.zeros(52, np.float32)
ME, OTHER = embedding(0.0), embedding(np.pi / 2)
STYLE = Style(fusion="swapgan")


@pytest.fixture(scope="module")
def swapper(models: Zoo) -> TextureSwapper:
    found: TextureSwapper = models.load("swapper", "texture")
    return found


def head(width: float = 200, yaw: float = 0.0, roll: float = 0.0) -> FloatArray:
    return heads.mesh(width, (145, 155), heads.turn(yaw, roll=roll))


def shot(mesh: FloatArray, paint: heads.Paint = heads.gradient) -> FloatArray:
    return heads.picture(mesh, WIDTH, HEIGHT, paint)


def person(paint: heads.Paint = heads.gradient) -> IdentityData:
    mesh = head()
    return heads.identity(mesh, shot(mesh, paint), ME)


def swap(
    swapper: TextureSwapper, crop: Image, face: Face, who: IdentityData, masks: Mapping[str, FloatArray] | None = None
) -> tuple[Patch, FloatArray]:
    """The patch, and the crop with it pasted."""
    (patch,) = swapper([crop], [face], [masks], Source(who), STYLE)
    assert np.isfinite(patch.rgb).all() and patch.rgb.min() >= -1e-3 and patch.rgb.max() <= 1 + 1e-3
    before = as_float(crop)
    return patch, np.asarray(before + patch.mask[..., None] * (patch.rgb - before), np.float32)


def psnr(a: FloatArray, b: FloatArray, where: FloatArray) -> float:
    return float(-10 * np.log10(np.mean((a - b)[where > 0] ** 2)))


def near(image: FloatArray, at: tuple[int, int]) -> float:
    """Mean of a small square."""
    return float(image[at[0] - 1 : at[0] + 2, at[1] - 1 : at[1] + 2].mean())


def test_a_mark_of_the_source_shows_and_one_of_the_target_goes(swapper: TextureSwapper) -> None:
    for mesh in (head(), head(160, yaw=-25, roll=30)):
        plain, spotted = shot(mesh), shot(mesh, heads.marked)
        _, shown = swap(swapper, plain, heads.face(mesh, OTHER, STILL), person(heads.marked))
        _, gone = swap(swapper, spotted, heads.face(mesh, OTHER, STILL), person())
        at = heads.spot_on(mesh, WIDTH, HEIGHT)
        assert near(shown, at) < 0.7 * near(plain, at)
        assert near(gone, at) > 0.8 * near(plain, at)


@pytest.mark.parametrize("yaw", [0.0, 30.0])
def test_the_same_face_comes_out_as_it_is(swapper: TextureSwapper, yaw: float) -> None:
    mesh = head(yaw=yaw)
    crop = shot(mesh)
    patch, after = swap(swapper, crop, heads.face(mesh, OTHER, STILL), person())
    assert psnr(after, crop, patch.mask) > 30


def test_light_is_the_targets(swapper: TextureSwapper) -> None:
    mesh = head()
    shade = np.linspace(0.4, 1, WIDTH, dtype=np.float32)[None, :, None]
    crop = np.asarray(shot(mesh) * shade, np.float32)
    _, after = swap(swapper, crop, heads.face(mesh, OTHER, STILL), person())
    assert np.abs(to_lab(after) - to_lab(crop))[heads.middle(mesh, WIDTH, HEIGHT) > 0].mean() < 4


def test_what_lies_in_front_stays(swapper: TextureSwapper) -> None:
    mesh = head()
    crop = shot(mesh)
    mask = np.zeros((HEIGHT, WIDTH), np.float32)
    mask[:, : WIDTH // 2] = 1
    crop[:, : WIDTH // 2] *= 0.2  # a dark hand
    masks = {"occluder": cv2.resize(mask, (256, 256)).astype(np.float32)}
    _, after = swap(swapper, crop, heads.face(mesh, OTHER, STILL), person(heads.marked), masks)
    hidden = np.s_[:, : WIDTH // 2 - 12]
    assert np.abs(after - crop)[hidden].mean() < 0.004
    assert np.abs(after - crop)[hidden].max() < 0.15


@pytest.mark.parametrize("width", [20.0, 900.0])
def test_tiny_and_large_faces(swapper: TextureSwapper, width: float) -> None:
    sides = (round(1.4 * width), round(1.5 * width))
    mesh = heads.mesh(width, (sides[0] / 2, sides[1] / 2))
    crop = heads.picture(mesh, *sides)
    patch, after = swap(swapper, crop, heads.face(mesh, OTHER, STILL), person())
    assert patch.mask.mean() > 0.25
    assert psnr(after, crop, patch.mask) > 28


def test_a_batch_is_its_parts(swapper: TextureSwapper) -> None:
    meshes = [head(yaw=20), head(150, roll=-40)]
    crops, who = [shot(mesh) for mesh in meshes], person(heads.marked)
    faces = [heads.face(mesh, OTHER, STILL) for mesh in meshes]
    both = swapper(crops, faces, [None, None], Source(who), STYLE)
    for patch, crop, face in zip(both, crops, faces, strict=True):
        alone, _ = swap(swapper, crop, face, who)
        np.testing.assert_allclose(patch.rgb, alone.rgb, atol=1e-4)


def _photo(path: Path) -> ByteArray:
    with open_reader(path) as reader:
        frame = next(iter(reader))
        return np.asarray(frame.read(Box(0, 0, frame.width, frame.height)), np.uint8)


def _cheeks(mesh: FloatArray, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """(H, W) where plain skin is, between eyes and mouth."""
    found = np.zeros(shape, np.uint8)
    radius = round(0.04 * float(np.ptp(mesh[:SURFACE, 1])))
    for x, y in mesh[[50, 101, 118, 280, 330, 347], :2].round().astype(int).tolist():
        cv2.circle(found, (x, y), radius, 1, -1)
    return found > 0


def _onto(swapper: TextureSwapper, models: Zoo, who: Identity, image: ByteArray) -> tuple[Patch, FloatArray, Face]:
    face = FaceFinder(models).find_in_image(image, expressions=True)[0]
    (masks,) = face_masks([image], [face.mesh], [models.load("masker", "occluder")])
    return *swap(swapper, image, face, who.data, masks), face


def test_a_photo_on_itself_is_nearly_itself(
    swapper: TextureSwapper, models: Zoo, woman: Identity, portraits: Path
) -> None:
    image = _photo(portraits / "female_031.jpg")
    patch, after, _ = _onto(swapper, models, woman, image)
    assert patch.mask.mean() > 0.03
    assert psnr(after, as_float(image), patch.mask) > 27


def test_people_become_others_and_keep_their_tone(swapper: TextureSwapper, models: Zoo, portraits: Path) -> None:
    """Each portrait onto the next: far nearer to the source, as dark or pale as the target, and no glare."""
    paths, nearer = sorted(portraits.glob("*.jpg")), list[float]()
    for source, target in zip(paths, paths[1:] + paths[:1], strict=True):
        image, who = _photo(target), Identity.from_images([source], zoo=models)
        patch, after, face = _onto(swapper, models, who, image)
        (found,) = FaceFinder(models).find_in_image(as_bytes(after))
        assert found.embedding is not None and face.embedding is not None
        nearer.append(float((found.embedding - face.embedding) @ who.embedding))
        cheeks = _cheeks(face.mesh, patch.mask.shape)
        change = np.median(to_lab(after)[cheeks], axis=0) - np.median(to_lab(as_float(image))[cheeks], axis=0)
        assert np.abs(change).max() < 6, (source.stem, target.stem, change)
        inside = patch.mask > 0
        glare = (after.min(2) > 0.96)[inside].mean() - (as_float(image).min(2) > 0.96)[inside].mean()
        assert glare < 0.02, (source.stem, target.stem, glare)
    assert min(nearer) > 0.1 and np.mean(nearer) > 0.35, nearer
