"""The default swapper, on painted heads: the source's look, the target's light, and nothing outside the face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
import pytest

from mien.color import as_float, to_lab
from mien.facemask import face_masks
from mien.identity import Identity
from mien.identity_data import IdentityData
from mien.mesh import MOUTH, SURFACE, polygon_mask, topology
from mien.paste import mesh_box
from mien.types import Face, FloatArray, Image, Patch
from mien.zoo.contracts import Source, Style
from mien.zoo.registry import Zoo
from mien.zoo.swappers.texture import TextureSwapper
from tests import heads
from tests.fakes import embedding

WIDTH, HEIGHT, CENTRE = 290, 310, (145.0, 155.0)
STILL = np.zeros(52, np.float32)
ME, OTHER = embedding(0.0), embedding(np.pi / 2)


def head(width: float = 200, yaw: float = 0.0, roll: float = 0.0, centre: tuple[float, float] = CENTRE) -> FloatArray:
    return heads.mesh(width, centre, heads.turn(yaw, roll=roll))


def shot(mesh: FloatArray, paint: heads.Paint = heads.gradient) -> FloatArray:
    return heads.picture(mesh, WIDTH, HEIGHT, paint)


def red(uv: FloatArray) -> FloatArray:
    """A redder, darker skin."""
    return heads.gradient(uv) * np.array([0.9, 0.65, 0.6], np.float32)


def person(paint: heads.Paint = heads.gradient) -> IdentityData:
    mesh = head()
    return heads.identity(mesh, shot(mesh, paint), ME)


@pytest.fixture(scope="module")
def plain() -> IdentityData:
    return person()


@pytest.fixture(scope="module")
def spotted() -> IdentityData:
    return person(heads.marked)


def swap(
    crop: Image, face: Face, who: IdentityData, masks: Mapping[str, FloatArray] | None = None, skin_tone: float = 0.0
) -> Patch:
    (patch,) = TextureSwapper("cpu")([crop], [face], [masks], Source(who), Style(skin_tone=skin_tone, fusion="classic"))
    height, width = crop.shape[:2]
    assert patch.rgb.shape == (height, width, 3) and patch.mask.shape == (height, width)
    assert patch.rgb.dtype == patch.mask.dtype == np.float32
    assert np.isfinite(patch.rgb).all() and patch.rgb.min() >= -1e-3 and patch.rgb.max() <= 1 + 1e-3
    assert patch.mask.min() >= 0 and patch.mask.max() <= 1
    return patch


def pasted(crop: Image, patch: Patch) -> FloatArray:
    """The crop after the paste."""
    before = as_float(crop)
    return np.asarray(before + patch.mask[..., None] * (patch.rgb - before), np.float32)


def psnr(a: FloatArray, b: FloatArray, where: FloatArray) -> float:
    return float(-10 * np.log10(np.mean((a - b)[where > 0] ** 2)))


def near(image: FloatArray, at: tuple[int, int], radius: int) -> FloatArray:
    """Mean colour of a small square."""
    row, column = at
    part = image[row - radius : row + radius + 1, column - radius : column + radius + 1]
    return np.asarray(part.mean((0, 1)), np.float32)


@pytest.mark.parametrize(("yaw", "roll"), [(0.0, 0.0), (40.0, 0.0), (-15.0, 130.0)])
def test_nothing_changes_outside_the_mesh(spotted: IdentityData, yaw: float, roll: float) -> None:
    mesh = head(yaw=yaw, roll=roll)
    patch = swap(shot(mesh), heads.face(mesh, OTHER, STILL), spotted)
    border = np.ones((HEIGHT, WIDTH), bool)
    border[3:-3, 3:-3] = False
    assert patch.mask[border].max() == 0
    box = mesh_box(mesh, 1.0)
    inside = np.zeros((HEIGHT, WIDTH), bool)
    inside[max(0, box.y0 - 1) : box.y1 + 1, max(0, box.x0 - 1) : box.x1 + 1] = True
    assert patch.mask[~inside].max(initial=0) == 0
    outline = polygon_mask(
        np.asarray(cv2.convexHull(np.ascontiguousarray(mesh[:SURFACE, :2])), np.float32)[:, 0], WIDTH, HEIGHT
    )
    assert patch.mask[cv2.dilate(outline, np.ones((7, 7), np.uint8)) == 0].max() == 0
    assert patch.mask[outline > 0].mean() > 0.8


@pytest.mark.parametrize("yaw", [0.0, 30.0])
@pytest.mark.parametrize("who", [ME, OTHER], ids=["one person", "strangers"])
def test_the_same_face_comes_out_as_it_is(plain: IdentityData, yaw: float, who: FloatArray) -> None:
    mesh = head(yaw=yaw)
    crop = shot(mesh)
    patch = swap(crop, heads.face(mesh, who, STILL), plain)
    assert psnr(patch.rgb, crop, patch.mask) > 40


def test_a_photo_on_itself_is_nearly_itself(woman: Identity, woman_face: tuple[Image, Face], models: Zoo) -> None:
    image, face = woman_face
    (masks,) = face_masks([image], [face.mesh], [models.load("masker", "occluder")])
    patch = swap(image, face, woman.data, masks)
    assert patch.mask.mean() > 0.03
    assert psnr(patch.rgb, as_float(image), patch.mask) > 30


def test_a_mark_of_the_source_shows_at_its_place(spotted: IdentityData) -> None:
    for mesh in (head(), head(160, yaw=-25, roll=30)):
        crop = shot(mesh)
        after = pasted(crop, swap(crop, heads.face(mesh, OTHER, STILL), spotted))
        at = heads.spot_on(mesh, WIDTH, HEIGHT)
        assert near(crop, at, 1).mean() > 0.4
        assert near(after, at, 1).mean() < 0.65 * near(crop, at, 1).mean()
        assert np.abs(near(after, (at[0] - 25, at[1]), 1) - near(crop, (at[0] - 25, at[1]), 1)).max() < 0.05


def test_a_mark_of_the_target_goes(plain: IdentityData) -> None:
    mesh = head()
    crop = shot(mesh, heads.marked)
    after = pasted(crop, swap(crop, heads.face(mesh, OTHER, STILL), plain))
    clean = shot(mesh)
    assert (
        np.abs(
            near(after, heads.spot_on(mesh, WIDTH, HEIGHT), 1) - near(clean, heads.spot_on(mesh, WIDTH, HEIGHT), 1)
        ).max()
        < 0.12
    )


def test_a_batch_is_its_parts(spotted: IdentityData) -> None:
    meshes = [head(yaw=20), head(150, roll=-40)]
    crops = [shot(meshes[0]), shot(meshes[1])[10:300, 20:]]
    meshes[1] = meshes[1] - np.array([20, 10, 0], np.float32)
    faces = [heads.face(mesh, OTHER, STILL) for mesh in meshes]
    masks = [None, {"occluder": np.zeros((50, 60), np.float32)}]
    both = TextureSwapper("cpu")(crops, faces, masks, Source(spotted), Style(fusion="classic"))
    assert len(both) == 2
    for patch, crop, face, mask in zip(both, crops, faces, masks, strict=True):
        alone = swap(crop, face, spotted, mask)
        np.testing.assert_array_equal(patch.rgb, alone.rgb)
        np.testing.assert_array_equal(patch.mask, alone.mask)
    assert TextureSwapper("cpu")([], [], [], Source(spotted), Style(fusion="classic")) == []


@pytest.mark.parametrize("who", [ME, OTHER], ids=["one person", "strangers"])
def test_what_lies_in_front_stays(plain: IdentityData, who: FloatArray) -> None:
    mesh = head()
    crop = shot(mesh, red)
    mask = np.zeros((HEIGHT, WIDTH), np.float32)
    mask[:, : WIDTH // 2] = 1
    crop[:, : WIDTH // 2] *= 0.2  # a dark hand
    masks = {"occluder": cv2.resize(mask, (256, 256)).astype(np.float32)}
    after = pasted(crop, swap(crop, heads.face(mesh, who, STILL), plain, masks, skin_tone=1.0))
    covered, open_ = (np.s_[:, : WIDTH // 2 - 8], np.s_[:, WIDTH // 2 + 8 :])
    np.testing.assert_allclose(after[covered], crop[covered], atol=1 / 255)
    changed = np.abs(after - crop).max(2)[open_]
    assert changed[heads.middle(mesh, WIDTH, HEIGHT)[open_] > 0].mean() > 0.05


@pytest.mark.parametrize("who", [ME, OTHER], ids=["one person", "strangers"])
def test_a_face_that_is_all_covered_stays(spotted: IdentityData, who: FloatArray) -> None:
    mesh = head()
    crop = shot(mesh, red)
    masks = {"occluder": np.ones((HEIGHT, WIDTH), np.float32)}
    patch = swap(crop, heads.face(mesh, who, STILL), spotted, masks, skin_tone=0.5)
    np.testing.assert_allclose(pasted(crop, patch), crop, atol=1 / 255)


def test_masks_that_show_all_of_the_face_are_as_good_as_none(spotted: IdentityData) -> None:
    mesh = head()
    crop, zero = shot(mesh, red), np.zeros((40, 50), np.float32)
    masks = {"skin": 1 - zero, "hair": zero, "clothes": zero, "occluder": zero}
    none, some = (swap(crop, heads.face(mesh, OTHER, STILL), spotted, m) for m in (None, masks))
    np.testing.assert_allclose(some.rgb, none.rgb, atol=0.01)


def test_skin_tone_goes_from_the_targets_to_the_sources(plain: IdentityData) -> None:
    mesh = head()
    crop = shot(mesh, red)
    where = heads.middle(mesh, WIDTH, HEIGHT) > 0
    source, target = (to_lab(shot(mesh, paint))[where].mean(0) for paint in (heads.gradient, red))
    found = [
        to_lab(pasted(crop, swap(crop, heads.face(mesh, OTHER, STILL), plain, skin_tone=share)))[where].mean(0)
        for share in (0.0, 0.5, 1.0)
    ]
    towards = [float((lab - target) @ (source - target) / ((source - target) ** 2).sum()) for lab in found]
    assert abs(towards[0]) < 0.1
    assert 0.3 < towards[1] < 0.7
    assert towards[2] > 0.8


def test_light_is_the_targets(plain: IdentityData) -> None:
    mesh = head()
    shade = np.linspace(0.4, 1, WIDTH, dtype=np.float32)[None, :, None]
    crop = np.asarray(shot(mesh) * shade, np.float32)
    patch = swap(crop, heads.face(mesh, OTHER, STILL), plain)
    assert np.abs(to_lab(pasted(crop, patch)) - to_lab(crop))[heads.middle(mesh, WIDTH, HEIGHT) > 0].mean() < 2.5


def test_an_open_mouth_keeps_the_targets_inside(plain: IdentityData) -> None:
    mesh = head()
    lower = [14, 87, 178, 88, 95, 317, 402, 318, 324]
    mesh[lower, 1] += 22
    crop = shot(mesh)
    inner = polygon_mask(mesh[list(MOUTH), :2], WIDTH, HEIGHT)
    crop[inner > 0] = (0.9, 0.1, 0.9)
    after = pasted(crop, swap(crop, heads.face(mesh, OTHER), plain))
    deep = cv2.erode(inner, np.ones((7, 7), np.uint8)) > 0
    assert deep.sum() > 100
    np.testing.assert_allclose(after[deep], crop[deep], atol=0.02)


@pytest.mark.parametrize("who", [ME, OTHER], ids=["one person", "strangers"])
def test_bytes_and_floats_agree(spotted: IdentityData, who: FloatArray) -> None:
    mesh = head(yaw=10)
    crop = np.rint(shot(mesh, red) * 255).astype(np.uint8)
    a, b = (swap(c, heads.face(mesh, who, STILL), spotted) for c in (crop, as_float(crop)))
    np.testing.assert_allclose(a.rgb, b.rgb, atol=1e-5)
    np.testing.assert_array_equal(a.mask, b.mask)


@pytest.mark.parametrize("part", [np.s_[:, 120:], np.s_[:, :170], np.s_[140:], np.s_[:150], np.s_[140:150, 130:137]])
def test_a_face_cut_by_the_frames_edge(spotted: IdentityData, part: tuple[slice, ...] | slice) -> None:
    mesh = head()
    whole = shot(mesh)
    rows, columns = np.indices((HEIGHT, WIDTH))
    shift = np.array([columns[part].min(), rows[part].min(), 0], np.float32)
    crop = np.ascontiguousarray(whole[part])
    patch = swap(crop, heads.face(np.asarray(mesh - shift, np.float32), OTHER, STILL), spotted)
    # The face goes on beyond the frame, so the frame's edge is no border of it.
    at = heads.middle(mesh, WIDTH, HEIGHT, 0.6)[part] > 0
    assert at.sum() > 30 and patch.mask[at].mean() > 0.95
    assert psnr(patch.rgb, shot(mesh, heads.marked)[part], np.asarray(at, np.float32)) > 25


def test_the_source_shows_up_to_the_frames_edge(spotted: IdentityData) -> None:
    mesh = head()
    row, column = heads.spot_on(mesh, WIDTH, HEIGHT)
    crop = np.ascontiguousarray(shot(mesh)[:, : column + 1])
    after = pasted(crop, swap(crop, heads.face(mesh, OTHER, STILL), spotted))
    assert after[row - 2 : row + 3, -2:].mean() < 0.65 * crop[row - 2 : row + 3, -2:].mean()


@pytest.mark.parametrize("who", [ME, OTHER], ids=["one person", "strangers"])
@pytest.mark.parametrize("width", [20.0, 900.0])
def test_tiny_and_large_faces(plain: IdentityData, width: float, who: FloatArray) -> None:
    sides = (round(1.4 * width), round(1.5 * width))
    mesh = heads.mesh(width, (sides[0] / 2, sides[1] / 2))
    crop = heads.picture(mesh, *sides)
    patch = swap(crop, heads.face(mesh, who, STILL), plain)
    assert patch.mask.mean() > 0.25
    assert psnr(patch.rgb, crop, patch.mask) > 35


def test_a_strangers_shape_moves_features(spotted: IdentityData) -> None:
    mesh = head()
    crop, face = shot(mesh), heads.face(mesh, OTHER, STILL)
    unmoved = swap(crop, replace(face, blendshapes=None), spotted)
    np.testing.assert_allclose(swap(crop, face, spotted).rgb, unmoved.rgb, atol=0.02)
    change = np.zeros((SURFACE, 3), np.float32)
    change[:, 1] = 0.6 * np.exp(-((topology().uv - np.array(heads.SPOT)) ** 2).sum(1) / 0.02)
    other = replace(spotted, shape=np.asarray(spotted.shape + change, np.float32))
    moved = swap(crop, face, other)
    before, after = (np.argwhere(p.rgb.mean(2) < 0.7 * shot(mesh).mean(2)).mean(0) for p in (unmoved, moved))
    assert 2 < after[0] - before[0] < 12 and abs(after[1] - before[1]) < 2  # 0.6 cm are 8 pixels
    same = swap(crop, heads.face(mesh, ME, STILL), other)
    np.testing.assert_array_equal(same.rgb, swap(crop, heads.face(mesh, ME, STILL), spotted).rgb)


def test_a_known_shape_counts_before_the_frames_own(plain: IdentityData) -> None:
    mesh = head()
    crop, face = shot(mesh), heads.face(mesh, OTHER, STILL)
    wrong = np.asarray(plain.shape + np.float32(0.5), np.float32)
    a = swap(crop, replace(face, shape=plain.shape, blendshapes=None), plain)
    b = swap(crop, replace(face, shape=wrong), replace(plain, shape=wrong))
    np.testing.assert_allclose(a.rgb, b.rgb, atol=1e-4)
