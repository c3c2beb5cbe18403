"""The atlas: every texel's part of the face."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from mien.atlas import Atlas, atlas
from mien.mesh import BROWS, EYES, LIPS, MOUTH_CORNERS, NOSE_TIP, topology
from mien.types import FloatArray

FOREHEAD, CHEEKS, CHIN = 151, (50, 280), 152
SIZES = (128, 256)


def at(values: FloatArray, maps: Atlas, *vertices: int) -> FloatArray:
    """The map at each vertex."""
    columns, rows = np.rint(maps.points[list(vertices)]).astype(int).T
    return np.asarray(values[rows, columns], np.float32)


def floats(maps: Atlas) -> dict[str, FloatArray]:
    """The maps, without `points` and `ids`."""
    values = {field.name: getattr(maps, field.name) for field in fields(Atlas)}
    return {name: value for name, value in values.items() if name not in ("size", "points", "ids")}


@pytest.mark.parametrize("size", SIZES)
def test_maps_have_the_size_asked_for_and_lie_in_range(size: int) -> None:
    maps = atlas(size)
    assert maps.size == size and atlas(size) is maps
    assert maps.ids.shape == (size, size) and maps.ids.max() < len(topology().triangles)
    np.testing.assert_allclose(maps.points, topology().uv * (size - 1), atol=1e-3)
    for name, values in floats(maps).items():
        assert values.shape[:2] == (size, size) and values.dtype == np.float32, name
        assert values.min() >= -1e-6 and 0.5 < values.max() <= 1 + 1e-5, name


@pytest.mark.parametrize("size", SIZES)
def test_inside_is_where_a_triangle_is(size: int) -> None:
    maps = atlas(size)
    np.testing.assert_array_equal(maps.inside, maps.ids >= 0)
    assert 0.5 < maps.inside.mean() < 0.95
    assert at(maps.inside, maps, FOREHEAD, NOSE_TIP, *CHEEKS).min() == 1
    assert maps.inside[0, 0] == maps.inside[-1, -1] == 0


@pytest.mark.parametrize("size", SIZES)
def test_each_part_is_where_the_mesh_has_it(size: int) -> None:
    maps = atlas(size)
    plain, features = (FOREHEAD, *CHEEKS), (*MOUTH_CORNERS, EYES[0][4], EYES[1][4], BROWS[0][2], BROWS[1][2], LIPS[5])
    assert at(maps.skin, maps, *plain).min() > 0.95
    assert at(maps.skin, maps, *features).max() < 0.2
    assert at(maps.feature, maps, *plain).max() < 0.05
    assert at(maps.feature, maps, *features).min() > 0.5
    assert at(maps.beard, maps, LIPS[5]).min() > 0.9
    assert at(maps.beard, maps, FOREHEAD, EYES[0][4], EYES[1][4]).max() < 0.05


@pytest.mark.parametrize("size", SIZES)
def test_left_and_right_eyes_and_sockets_are_apart(size: int) -> None:
    maps = atlas(size)
    half = size // 2
    for values in (maps.eyes, maps.sockets):
        left, right = values[..., 0], values[..., 1]
        assert left[:, :half].sum() > 0.99 * left.sum()
        assert right[:, half:].sum() > 0.99 * right.sum()
        assert abs(left.sum() / right.sum() - 1) < 0.05
    assert (maps.sockets[maps.eyes > 0.9] > 0.9).all()
    assert maps.sockets.sum() > 2 * maps.eyes.sum()
    for side in (0, 1):
        middle = maps.points[list(EYES[side])].mean(0).round().astype(int)
        assert maps.eyes[middle[1], middle[0], side] > 0.9
        assert at(maps.sockets[..., side], maps, *BROWS[side]).min() > 0.5


def test_maps_are_nearly_symmetric() -> None:
    # The mesh is not quite, so its borders are a texel or two apart.
    for name, values in floats(atlas(256)).items():
        mirrored = values[:, ::-1, ::-1] if values.ndim == 3 else values[:, ::-1]
        assert np.abs(values - mirrored).mean() < 0.01, name


def test_sizes_agree() -> None:
    large, small = atlas(256), atlas(128)
    for name in ("skin", "feature", "beard"):
        a, b = getattr(large, name), getattr(small, name)
        assert np.abs(a.reshape(128, 2, 128, 2).mean((1, 3)) - b).mean() < 0.02, name
