"""Textures: what is seen comes out as it is, what is not never shows, and one side stands in for the other."""

from __future__ import annotations

import numpy as np
import pytest

from mien.atlas import Atlas, atlas
from mien.mesh import SURFACE, interpolate, vertex_normals
from mien.texture import Texture, fuse, sample, surface, texture_size, unwrap
from mien.types import FloatArray
from tests import heads

SIZE = 256
WIDTH, HEIGHT, CENTRE = 320, 340, (160.0, 170.0)
SHARES = [50.0, 99.5]


def head(yaw: float = 0.0, roll: float = 0.0) -> FloatArray:
    return heads.mesh(200, CENTRE, heads.turn(yaw, roll=roll))


def shot(mesh: FloatArray, paint: heads.Paint = heads.gradient) -> FloatArray:
    return heads.picture(mesh, WIDTH, HEIGHT, paint)


def both_sides(uv: FloatArray) -> FloatArray:
    """A paint whose left and right are the same."""
    return heads.gradient(np.stack([0.5 - np.abs(uv[..., 0] - 0.5), uv[..., 1]], axis=-1))


def maps() -> Atlas:
    return atlas(SIZE)


def over(values: FloatArray) -> FloatArray:
    """(SIZE, SIZE) a value of each vertex, in UV space."""
    return interpolate(maps().ids, maps().points, np.ascontiguousarray(values[:SURFACE, None]))[..., 0]


def error(found: FloatArray, truth: FloatArray) -> FloatArray:
    return np.asarray(np.abs(found - truth).max(2))


def left_half(mesh: FloatArray) -> dict[str, FloatArray]:
    """An occluder over all that lies left of the head's middle."""
    mask = np.zeros((HEIGHT, WIDTH), np.float32)
    mask[:, : round(float(mesh[4, 0]))] = 1
    return {"occluder": mask}


TRUTH = heads.gradient(heads.uv_grid(SIZE))


@pytest.mark.parametrize(("yaw", "roll"), [(0.0, 0.0), (35.0, 0.0), (-20.0, 70.0)])
def test_a_painted_head_gives_its_paint_back(yaw: float, roll: float) -> None:
    texture = unwrap(shot(head(yaw, roll)), head(yaw, roll), {}, SIZE)
    assert texture.rgb.shape == (SIZE, SIZE, 3) and texture.trust.shape == (SIZE, SIZE)
    assert texture.rgb.dtype == texture.trust.dtype == np.float32
    assert texture.trust.min() >= 0 and texture.trust.max() <= 1
    sure = texture.trust > 0.9
    assert sure[maps().inside > 0].mean() > 0.5
    middle, most = np.percentile(error(texture.rgb, TRUTH)[sure], SHARES)
    assert middle < 0.002 and most < 0.01


def test_bytes_and_floats_and_sizes_agree() -> None:
    image, mesh = shot(head()), head()
    texture = unwrap(image, mesh, {}, SIZE)
    rounded = unwrap(np.rint(image * 255).astype(np.uint8), mesh, {}, SIZE)
    sure = (texture.trust > 0.9) & (rounded.trust > 0.9)
    assert error(rounded.rgb, texture.rgb)[sure].max() < 0.02
    doubled = heads.mesh(400, (2 * CENTRE[0] + 0.5, 2 * CENTRE[1] + 0.5))
    large = unwrap(heads.picture(doubled, 2 * WIDTH, 2 * HEIGHT), doubled, {}, SIZE)
    sure = (texture.trust > 0.9) & (large.trust > 0.9)
    assert sure.mean() > 0.4
    assert np.percentile(error(large.rgb, TRUTH)[sure], 99) < 0.01


@pytest.mark.parametrize("width", [200, 330, 740])
def test_a_mark_lies_on_its_texels_whatever_the_photos_size(width: float) -> None:
    place = np.array([0.35, 0.6], np.float32)

    def dotted(uv: FloatArray) -> FloatArray:
        away = np.linalg.norm(uv - place, axis=-1, keepdims=True)
        return np.asarray(heads.gradient(uv) * np.clip(30 * away - 0.5, 0.3, 1), np.float32)

    side = 2 * round(0.75 * width)
    mesh = heads.mesh(width, (side / 2 + 1.3, side / 2 - 2.6))
    found = unwrap(heads.picture(mesh, side, side, dotted), mesh, {}, SIZE).rgb
    weight = np.clip(0.97 - (found / TRUTH).mean(2), 0, 1)
    weight[np.linalg.norm(heads.uv_grid(SIZE) - place, axis=2) > 0.08] = 0
    rows, columns = np.indices((SIZE, SIZE))
    centre = [float((v * weight).sum() / weight.sum()) for v in (columns, rows)]
    np.testing.assert_allclose(centre, place * (SIZE - 1), atol=0.1)


@pytest.mark.parametrize("yaw", [30.0, -50.0])
def test_what_faces_away_is_not_trusted(yaw: float) -> None:
    mesh = head(yaw)
    trust = unwrap(shot(mesh), mesh, {}, SIZE).trust
    facing = over(-vertex_normals(mesh)[:, 2])
    away = (facing < 0) & (maps().inside > 0)
    # But for gaps narrow enough to be filled, such as beside a nostril.
    assert away.sum() > 300 and (trust[away] > 0.05).mean() < 0.02
    near, far = (trust[:, SIZE // 2 :], trust[:, : SIZE // 2])
    if yaw < 0:
        near, far = far, near
    assert near.mean() > 1.3 * far.mean()
    assert trust[facing > 0.6].mean() > 0.85


def test_a_cheek_behind_the_nose_is_not_trusted() -> None:
    mesh = head(55)
    trust = unwrap(shot(mesh), mesh, {}, SIZE).trust
    rows, columns = np.nonzero(maps().inside > 0)
    x, y, z = (over(np.ascontiguousarray(mesh[:, i]))[rows, columns] for i in range(3))
    nearest = np.full((HEIGHT, WIDTH), np.inf)
    np.minimum.at(nearest, (y.round().astype(int), x.round().astype(int)), z)
    behind = z - nearest[y.round().astype(int), x.round().astype(int)] > 0.15 * 200
    assert behind.sum() > 1000
    assert (trust[rows, columns][behind] > 0.05).mean() < 0.01


def test_what_lies_outside_the_picture_is_not_trusted() -> None:
    mesh = head() - np.array([130, 0, 0], np.float32)
    texture = unwrap(shot(head())[:, 130:], mesh, {}, SIZE)
    x = over(np.ascontiguousarray(mesh[:, 0]))
    outside = (x < 0) & (maps().inside > 0)
    assert outside.mean() > 0.1
    assert texture.trust[outside].max() < 0.05
    sure = texture.trust > 0.9
    assert sure.mean() > 0.25
    assert np.percentile(error(texture.rgb, TRUTH)[sure], 99) < 0.02


@pytest.mark.parametrize("shrink", [1, 4])
def test_what_is_covered_is_not_trusted_and_the_rest_is(shrink: int) -> None:
    mesh = head()
    masks = {name: mask[::shrink, ::shrink] for name, mask in left_half(mesh).items()}
    open_, covered = (unwrap(shot(mesh), mesh, m, SIZE).trust for m in ({}, masks))
    x = over(np.ascontiguousarray(mesh[:, 0])) - mesh[4, 0]
    inside = maps().inside > 0
    assert covered[(x < -1) & inside].max() < 0.05
    clear = (x > 12) & inside & (open_ > 0.9)
    assert clear.sum() > 5000 and (covered[clear] > 0.9).mean() > 0.98


@pytest.mark.parametrize("colour", [(0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 1.0)])
def test_the_colour_of_a_cover_never_reaches_what_is_trusted(colour: tuple[float, ...]) -> None:
    mesh, image = head(), shot(head(), both_sides)
    masks = left_half(mesh)
    covered = np.where(masks["occluder"][..., None] > 0, np.array(colour, np.float32), image)
    one, same = (unwrap(picture, mesh, masks, SIZE) for picture in (covered, image))
    both = (one.trust > 0.5) & (same.trust > 0.5) & (maps().inside > 0)
    assert both.mean() > 0.25 and error(one.rgb, same.rgb)[both].max() < 0.05
    fused, clean = fuse([one]), fuse([same])
    both = (fused.trust > 0.5) & (clean.trust > 0.5) & (maps().inside > 0)
    leak = error(fused.rgb, clean.rgb)[both]
    assert both.mean() > 0.5 and leak.max() < 0.1 and np.percentile(leak, 99) < 0.02


def test_a_hidden_side_is_filled_from_the_other() -> None:
    mesh = head()
    texture = unwrap(shot(mesh, both_sides), mesh, left_half(mesh), SIZE)
    half = np.s_[:, : SIZE // 2]
    inside = (maps().inside > 0)[half]
    assert texture.trust[half][inside].mean() < 0.1
    fused = fuse([texture])
    assert fused.trust[half][inside].mean() > 0.7
    truth = both_sides(heads.uv_grid(SIZE))
    filled = fused.trust[half] > 0.9
    assert filled[inside].mean() > 0.6
    assert np.percentile(error(fused.rgb, truth)[half][filled], 99) < 0.05


def test_an_eye_is_not_mirrored() -> None:
    # It would look the wrong way.
    mesh = head()
    fused = fuse([unwrap(shot(mesh, both_sides), mesh, left_half(mesh), SIZE)])
    left, right = (maps().eyes[..., i] > 0.9 for i in (0, 1))
    assert fused.trust[right].mean() > 0.9
    assert fused.trust[left].mean() < 0.5


def two_photos(dim: float = 1.0) -> list[Texture]:
    """One from each side; `dim` is the light of the second."""
    meshes = (head(45), head(-45))
    return [
        unwrap(np.asarray(shot(mesh) * np.float32(light)), mesh, {}, SIZE)
        for mesh, light in zip(meshes, (1.0, dim), strict=True)
    ]


def test_two_photos_show_more_than_one_and_each_its_part() -> None:
    textures = two_photos()
    fused = fuse(textures)
    inside = maps().inside > 0
    for texture in textures:
        assert texture.trust[inside].mean() < 0.8
    assert fused.trust[inside].mean() > 0.9
    middle, most = np.percentile(error(fused.rgb, TRUTH)[(fused.trust > 0.9) & inside], SHARES)
    assert middle < 0.01 and most < 0.05
    for own, other in (textures, textures[::-1]):
        alone = (own.trust > 0.9) & (other.trust < 0.05) & (fused.trust > 0.9)
        assert alone.sum() > 500
        assert np.percentile(error(fused.rgb, TRUTH)[alone], 95) < 0.04


def test_light_of_a_second_photo_is_brought_to_that_of_the_best() -> None:
    bright, dim = two_photos(0.7)
    light = 1.0 if bright.trust.sum() > dim.trust.sum() else 0.7
    fused = fuse([bright, dim])
    sure = (fused.trust > 0.9) & (maps().inside > 0)
    assert np.percentile(error(fused.rgb, TRUTH * np.float32(light))[sure], 95) < 0.05


def test_order_of_photos_does_not_matter() -> None:
    one, two = two_photos(0.9)
    a, b = fuse([one, two]), fuse([two, one])
    np.testing.assert_allclose(a.rgb, b.rgb, atol=1e-5)
    np.testing.assert_allclose(a.trust, b.trust, atol=1e-5)


def test_a_face_that_is_all_hidden_is_trusted_nowhere() -> None:
    mesh = head()
    everything = {"occluder": np.ones((HEIGHT, WIDTH), np.float32)}
    fused = fuse([unwrap(shot(mesh), mesh, everything, SIZE)])
    assert fused.trust.max() < 0.05
    assert np.isfinite(fused.rgb).all()


@pytest.mark.parametrize(("extent", "size"), [(60, 256), (220, 256), (300, 512), (560, 512), (900, 1024), (4000, 1024)])
def test_texture_size_keeps_the_photos_resolution(extent: float, size: int) -> None:
    mesh = heads.mesh()
    mesh *= extent / np.ptp(mesh[:SURFACE, :2], axis=0).max() * np.float32(0.999)
    assert texture_size(mesh) == size


def test_surface_of_plain_classes() -> None:
    zero, one = np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)

    def seen(
        beard: FloatArray = zero, feature: FloatArray = zero, forehead: FloatArray = zero, **masks: FloatArray
    ) -> float:
        return float(surface(masks, beard, feature, forehead)[0, 0])

    assert seen() == 1
    assert seen(occluder=zero) == 1 and seen(occluder=one) == 0
    assert seen(skin=one, hair=zero, clothes=zero) == 1
    assert seen(skin=zero, hair=zero, clothes=zero) == 0
    assert seen(skin=zero, hair=one, clothes=zero) == 0
    assert seen(skin=zero, hair=one, clothes=zero, beard=one) == 1
    assert seen(skin=zero, hair=one, clothes=one, beard=one) == 0
    assert seen(skin=zero, hair=zero, clothes=zero, feature=one) == 1
    assert seen(skin=zero, hair=zero, clothes=one, feature=one) == 0
    assert seen(skin=one, hair=zero, clothes=zero, occluder=one) == 0
    # On a forehead, skin outweighs the occluder, and the occluder alone must be surer than elsewhere.
    assert seen(skin=one, hair=zero, clothes=zero, occluder=one, forehead=one) == 1
    assert seen(skin=zero, hair=one, clothes=zero, occluder=one, forehead=one) == 0
    assert seen(occluder=one, forehead=one) == 0
    assert seen(occluder=one * np.float32(0.7)) == 0 < seen(occluder=one * np.float32(0.7), forehead=one)


def test_an_occluder_is_believed_sooner_with_less_doubt() -> None:
    zero = np.zeros((1, 9), np.float32)
    masks = {"occluder": np.linspace(0, 1, 9, dtype=np.float32)[None]}
    late, soon = (surface(masks, zero, zero, zero, doubt)[0] for doubt in (0.8, 0.4))
    assert (np.diff(late) <= 0).all() and (late >= soon).all() and late.sum() > soon.sum()
    assert (late[0], late[-1], soon[0], soon[-1]) == (1, 0, 1, 0)


def test_sampling_reads_texels_and_does_not_alias() -> None:
    chance = np.random.default_rng(0)
    texture = chance.uniform(0, 1, (64, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(sample(texture, heads.uv_grid(64), 64), texture, atol=1e-4)
    np.testing.assert_allclose(sample(texture[..., 0], heads.uv_grid(64), 64), texture[..., 0], atol=1e-4)
    board = np.indices((256, 256)).sum(0).astype(np.float32) % 2
    few = sample(board, heads.uv_grid(32), 32)
    np.testing.assert_allclose(few, 0.5, atol=0.05)
    assert sample(TRUTH, heads.uv_grid(20) * 2 - 0.5, 20).shape == (20, 20, 3)
