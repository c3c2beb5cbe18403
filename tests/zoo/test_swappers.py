"""Swappers on aligned crops: boost, batches, masks and what of the source reaches the network."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import ModelError
from mien.options import Device
from mien.runtime.graph import Graph, open_graph
from mien.runtime.session import Runtime
from mien.types import Face, FloatArray, Image, Patch
from mien.zoo.contracts import Source, Style, check_patches
from mien.zoo.registry import registry
from mien.zoo.swappers._template import TemplateSwapper, join, outline, split, uncovered
from mien.zoo.swappers.dfm import Dfm
from mien.zoo.swappers.inswapper import InSwapper128, emap
from tests.fakes import face, identity
from tests.stand_ins import graph, node
from tests.standins import standin

FAMILIES = sorted(name for (task, name), family in registry().items() if issubclass(family, TemplateSwapper))


def swapper(name: str, where: Any = "cpu") -> TemplateSwapper:
    model: TemplateSwapper = registry()["swapper", name](where, standin("swapper", name))
    return model


def source(model: TemplateSwapper, seed: int = 0) -> Source:
    random = np.random.default_rng(seed)
    photo = None
    if model.needs.size:
        photo = random.integers(0, 256, (2, 2, 3), np.uint8)
        photo = np.asarray(cv2.resize(photo, (model.needs.size,) * 2, interpolation=cv2.INTER_CUBIC), np.uint8)
    embedding = (random.normal(size=512) * 1.1).astype(np.float32) if model.needs.embedder else None
    return Source(identity(), embedding, photo)


def crop(model: TemplateSwapper, k: int = 1, seed: int = 1) -> Image:
    noise = np.random.default_rng(seed).integers(0, 256, (k * model.size,) * 2 + (3,), np.uint8)
    return np.asarray(cv2.GaussianBlur(noise, (0, 0), 2), np.uint8)


def whole(model: TemplateSwapper, k: int = 1) -> Face:
    """A face much larger than the crop."""
    return face(k * model.size / 2, k * model.size / 2, 3 * k * model.size)


def run(model: TemplateSwapper, crops: Sequence[Image], given: Source | None = None) -> list[Patch]:
    faces = [whole(model, len(each) // model.size) for each in crops]
    patches = model(crops, faces, [None] * len(crops), given or source(model), Style())
    check_patches(model.card.name, patches, crops)
    return patches


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_splitting_is_undone_and_each_part_shows_the_whole(k: int, size: int, channels: int, seed: int) -> None:
    image = np.random.default_rng(seed).random((k * size, k * size, channels)).astype(np.float32)
    tiles = split(image, k)
    assert tiles.shape == (k * k, size, size, channels)
    for i in range(k):
        for j in range(k):
            np.testing.assert_array_equal(tiles[k * i + j], image[i::k, j::k])
    np.testing.assert_array_equal(join(tiles), image)


def test_the_families_are_these() -> None:
    assert sorted([
        "inswapper_128", "inswapper_128_fp16", "hyperswap_1a_256", "hyperswap_1b_256", "hyperswap_1c_256",
        "ghost_1_256", "ghost_2_256", "ghost_3_256", "simswap_256", "simswap_unofficial_512",
        "hififace_unofficial_256", "blendswap_256", "uniface_256", "dfm",
    ]) == FAMILIES  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_a_batch_of_any_boosts_is_what_each_crop_gives_alone(name: str) -> None:
    model = swapper(name)
    crops = [crop(model), crop(model, 2, 2), crop(model, 1, 3)]
    together = run(model, crops)
    for image, patch in zip(crops, together, strict=True):
        (alone,) = run(model, [image])
        np.testing.assert_allclose(patch.rgb, alone.rgb, atol=1e-5)
        np.testing.assert_allclose(patch.mask, alone.mask, atol=1e-6)
        assert 0 <= patch.rgb.min() < patch.rgb.max() <= 1
    assert np.abs(together[0].rgb - together[2].rgb).max() > 0.01


@pytest.mark.parametrize("name", FAMILIES)
def test_a_boosted_crop_is_swapped_pixel_by_pixel_of_its_parts(name: str) -> None:
    model = swapper(name)
    image = crop(model, 3)
    (patch,) = run(model, [image])
    for i, j in ((0, 0), (1, 2), (2, 1)):
        (part,) = run(model, [np.ascontiguousarray(image[i::3, j::3])])
        np.testing.assert_allclose(patch.rgb[i::3, j::3], part.rgb, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "dfm"])
def test_the_source_reaches_the_network(name: str) -> None:
    model = swapper(name)
    image = np.full((model.size, model.size, 3), 128, np.uint8)
    (one,), (other,) = run(model, [image], source(model, 5)), run(model, [image], source(model, 6))
    assert np.abs(one.rgb - other.rgb).max() > 1e-4


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("dfm", "blendswap_256", "uniface_256")])
def test_only_ghost_knows_the_embeddings_length(name: str) -> None:
    model = swapper(name)
    image, given = np.full((model.size, model.size, 3), 128, np.uint8), source(model)
    assert given.embedding is not None
    shorter = Source(given.identity, np.asarray(0.1 * given.embedding, np.float32))
    (one,), (other,) = run(model, [image], given), run(model, [image], shorter)
    assert (np.abs(one.rgb - other.rgb).max() > 1e-4) == name.startswith("ghost")


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "dfm"])
def test_a_source_without_what_it_needs_is_told(name: str) -> None:
    model = swapper(name)
    with pytest.raises(ModelError, match=rf"^{name}: was given no (embedding|photo); report this"):
        run(model, [crop(model)], Source(identity()))


@pytest.mark.parametrize("shape", [(100, 100, 3), (128, 256, 3), (192, 192, 3), (64, 64, 3)])
def test_other_crops_are_told(shape: tuple[int, ...]) -> None:
    model = swapper("inswapper_128")
    with pytest.raises(ModelError, match=r"^inswapper_128: a crop of \d+×\d+ is no square of a multiple of 128"):
        model([np.zeros(shape, np.uint8)], [whole(model)], [None], source(model), Style())


def test_crops_of_more_bits_are_as_good() -> None:
    model = swapper("hyperswap_1a_256")
    image = crop(model)
    (a,), (b,) = run(model, [image]), run(model, [np.asarray(image / 255, np.float32)])
    np.testing.assert_allclose(a.rgb, b.rgb, atol=1e-6)


class Counting:
    """Opens graphs, and counts the items of each inference."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def open(self, model: Path | bytes, device: Device, threads: int) -> Graph:
        self._graph = open_graph(model, device, threads)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    def run(self, names: Any, feeds: Mapping[str, npt.NDArray[Any]], options: Any) -> Any:
        self.batches.append(len(feeds["target"]))
        return self._graph.run(names, feeds, options)


def adder(batch: int | str) -> bytes:
    """target + the source's first value, with an emap of twice the unit matrix."""
    return graph(
        [
            node("Gather", ["source", "zero"], "first", axis=1),
            node("Reshape", ["first", "pixel"], "shift"),
            node("Add", ["target", "shift"], "output"),
        ],
        {"target": (batch, 3, 128, 128), "source": (batch, 512)}, {"output": (batch, 3, 128, 128)},
        zero=np.array([0]), pixel=np.array([-1, 1, 1, 1]), emap=2 * np.eye(512, dtype=np.float32),
    )  # fmt: skip


@pytest.mark.parametrize(("batch", "runs"), [("n", [6]), (1, [1] * 6)])
def test_all_faces_and_parts_are_one_batch_where_the_file_takes_one(batch: int | str, runs: list[int]) -> None:
    counting = Counting()
    model = InSwapper128(Runtime("cpu", opener=counting.open), adder(batch))
    embedding = np.zeros(512, np.float32)
    embedding[[0, 1]] = 3, 4
    (one, four, another) = run(
        model, [np.zeros((n, n, 3), np.uint8) for n in (128, 256, 128)], Source(identity(), embedding)
    )
    assert counting.batches == runs
    for patch in (one, four, another):
        np.testing.assert_allclose(patch.rgb, 0.6, atol=1e-6)  # (0.6, 0.8) · 2, again of length 1


def test_emap_is_the_matrix_that_no_node_reads() -> None:
    matrix = emap(standin("swapper", "inswapper_128"), "inswapper_128")
    half = emap(standin("swapper", "inswapper_128_fp16"), "inswapper_128_fp16")
    assert matrix.shape == half.shape == (512, 512) and matrix.dtype == half.dtype == np.float32
    assert 0.9 < np.linalg.norm(matrix, axis=1).mean() < 1.1
    np.testing.assert_array_equal(emap(adder("n"), "net"), 2 * np.eye(512))


def test_emap_may_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(adder(1))
    np.testing.assert_array_equal(emap(path, "net"), 2 * np.eye(512))


@pytest.mark.parametrize(
    ("matrices", "told"),
    [({}, "none"), ({"a": np.eye(512), "b": np.eye(512)}, r"2 that no node reads \(a, b\)")],
)
def test_a_file_without_an_emap_is_told(matrices: Mapping[str, npt.NDArray[Any]], told: str) -> None:
    floats = {name: values.astype(np.float32) for name, values in matrices.items()}
    data = graph([node("Identity", ["x"], "y")], {"x": (1,)}, {"y": (1,)}, **floats)
    with pytest.raises(
        ModelError, match=rf"^net: expected one 512×512 matrix for embeddings \(emap\) but found {told};"
    ):
        emap(data, "net")


def test_a_file_without_an_emap_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(graph([node("Identity", ["x"], "y")], {"x": (1,)}, {"y": (1,)}))
    with pytest.raises(ModelError, match=rf"^{re.escape(str(path))}: expected one 512×512 matrix"):
        emap(path, "net")


def test_hififace_may_give_a_mask_as_well() -> None:
    model = registry()["swapper", "hififace_unofficial_256"]("cpu", standin("swapper", "hyperswap_1a_256"))
    other = swapper("hyperswap_1a_256")
    (mine,), (theirs,) = run(model, [crop(model)], source(model)), run(other, [crop(other)], source(other))
    np.testing.assert_allclose(mine.rgb, theirs.rgb, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("dfm", "inswapper_128_fp16")])
def test_another_familys_file_is_refused(name: str) -> None:
    other = "uniface_256" if name == "inswapper_128" else "inswapper_128"
    with pytest.raises(ModelError, match=rf"^{name}: expected inputs .* this file is not the model it is named after$"):
        registry()["swapper", name]("cpu", standin("swapper", other))


def test_the_mask_is_the_meshs_outline_with_a_soft_rim() -> None:
    mask = outline(face(64, 64, 60).mesh, 128)
    assert mask.dtype == np.float32 and mask.shape == (128, 128)
    np.testing.assert_allclose([mask[64, 64], mask[40, 88], mask[64, 20], mask[100, 64]], [1, 1, 0, 0], atol=1e-6)
    assert 0.35 < mask[64, 34] < 0.65 and mask[64, 32] < 0.2 and mask[64, 37] > 0.9


@pytest.mark.parametrize(("side", "extent"), [(256, 200), (512, 400)])
def test_the_rim_is_a_normal_distributions_of_half_the_borders_width(side: int, extent: float) -> None:
    mesh = face(side / 2, side / 2, extent).mesh[:468, :2].astype(np.float64)
    hull = cv2.convexHull(mesh.astype(np.float32))[:, 0].astype(np.float64)
    row = hull[:, 1].min() + np.ptp(hull[:, 1]) / 2
    middle = round(row)
    # Where the outline crosses the row, and the normal there.
    crossings = []
    for (x0, y0), (x1, y1) in zip(hull, np.roll(hull, -1, 0), strict=True):
        if min(y0, y1) <= middle < max(y0, y1):
            crossings.append((x0 + (middle - y0) / (y1 - y0) * (x1 - x0), abs(y1 - y0) / np.hypot(x1 - x0, y1 - y0)))
    left, cosine = min(crossings)
    left -= side / 256 / 3  # pixels of the grid of 256 that the outline runs through are filled, about half of each
    sigma = 0.5 * 0.03 * float(np.ptp(mesh, 0).max())
    mask = outline(face(side / 2, side / 2, extent).mesh, side)
    columns = np.arange(side)
    near = np.abs(columns - left) < 2 * sigma
    wanted = [0.5 * (1 + math.erf((x - left) * cosine / sigma / math.sqrt(2))) for x in columns[near]]
    np.testing.assert_allclose(mask[middle, near], wanted, atol=0.025)


@pytest.mark.parametrize(("found", "left"), [(0.3, 1), (0.65, 0), (0.475, 0.5), (0.37, 0.8), (0.1, 1), (0.9, 0)])
def test_what_covers_the_face_counts_by_its_probability(found: float, left: float) -> None:
    for size in (8, 200):
        mask = uncovered({"occluder": np.full((size, size), found, np.float32)}, 128)
        assert mask.shape == (128, 128)
        np.testing.assert_allclose(mask, left, atol=1e-6)


def test_masks_of_other_sizes_are_averaged_or_interpolated() -> None:
    fine = np.random.default_rng(2).uniform(0.3, 0.65, (256, 256)).astype(np.float32)
    shrunk = uncovered({"occluder": fine}, 128)
    np.testing.assert_allclose(shrunk, ((0.65 - fine) / 0.35).reshape(128, 2, 128, 2).mean((1, 3)), atol=1e-5)
    coarse = np.tile(np.array([0.3, 0.65], np.float32), (2, 1))
    wanted = np.interp((np.arange(128) + 0.5) / 64 - 0.5, [0, 1], [1, 0])
    np.testing.assert_allclose(uncovered({"occluder": coarse}, 128), wanted[None].repeat(128, 0), atol=1e-5)


def test_what_covers_the_face_stays_in_front() -> None:
    covered = np.zeros((32, 32), np.float32)
    covered[:, :16] = 1
    model = swapper("inswapper_128")
    masks = {"occluder": covered, "hair": np.ones((8, 8), np.float32)}
    (patch,) = model([crop(model)], [whole(model)], [masks], source(model), Style())
    np.testing.assert_allclose([patch.mask[64, 30], patch.mask[64, 100]], [0, 1], atol=1e-6)
    assert uncovered({"occluder": np.full((4, 4), 0.29, np.float32)}, 128).min() == 1
    assert uncovered({"hair": np.ones((4, 4), np.float32)}, 128).min() == uncovered(None, 128).min() == 1


def test_a_face_that_leaves_the_crop_is_covered_to_the_crops_edge() -> None:
    assert outline(face(20, 64, 100).mesh, 128)[64, 0] > 0.999


def test_a_large_crops_mask_is_the_small_ones_enlarged() -> None:
    small = outline(face(64, 64, 80).mesh, 128)
    large = outline(np.asarray(4 * (face(64, 64, 80).mesh + 0.5) - 0.5, np.float32), 512)
    assert large.shape == (512, 512)
    np.testing.assert_allclose(cv2.resize(large, (128, 128), interpolation=cv2.INTER_AREA), small, atol=0.06)


def dfm(size: int | str = 96, morph: bool = False) -> Dfm:
    from tests.standins import swappers

    return Dfm("cpu", swappers.dfm("dfm", 96, morph=morph))


def test_dfms_size_and_masks_are_the_files() -> None:
    model = dfm()
    assert model.size == 96 and Dfm.size == 256
    (patch,) = run(model, [crop(model, 2)])
    assert patch.rgb.shape == (192, 192, 3)
    assert patch.mask[:40, 96].max() == patch.mask[96, :40].max() == 0  # the stand-in's masks are free there
    assert patch.mask[150, 150] > 0.999


def test_dfm_takes_bgr_and_gives_rgb() -> None:
    identity_net = graph(
        [
            node("Identity", ["in_face:0"], "face"),
            node("Slice", ["in_face:0", "zero", "one", "last"], "first"),
            node("Mul", ["first", "nothing"], "none"),
            node("Add", ["none", "all"], "a"),
            node("Add", ["none", "all"], "b"),
        ],
        {"in_face:0": ("n", 32, 32, 3)}, {"a": ("n", 32, 32, 1), "face": ("n", 32, 32, 3), "b": ("n", 32, 32, 1)},
        zero=np.array([0]), one=np.array([1]), last=np.array([3]), nothing=np.array(0, np.float32),
        all=np.array(1, np.float32),
    )  # fmt: skip
    model = Dfm("cpu", identity_net)
    image = crop(model, 2)
    (patch,) = run(model, [image])
    np.testing.assert_allclose(patch.rgb, image / 255, atol=1e-6)
    np.testing.assert_allclose(patch.mask, 1, atol=1e-6)


def test_dfms_that_morph_show_all_of_the_trained_person() -> None:
    image = np.full((96, 96, 3), 90, np.uint8)
    (plain,), (morphed,) = run(dfm(), [image]), run(dfm(morph=True), [image])
    inside = (plain.rgb > 0.01) & (plain.rgb < 0.89)
    np.testing.assert_allclose((morphed.rgb - plain.rgb)[inside], 0.1, atol=1e-5)


@pytest.mark.parametrize("name", ["crossface_ghost", "crossface_simswap", "crossface_hififace"])
def test_converters_take_embeddings_as_they_are(name: str) -> None:
    model = registry()["converter", name]("cpu", standin("converter", name))
    embeddings = np.random.default_rng(0).normal(size=(3, 512)).astype(np.float32)
    converted: FloatArray = model(embeddings)
    assert converted.shape == (3, 512) and converted.dtype == np.float32 and model.embedder == "arcface_w600k_r50"
    np.testing.assert_allclose(np.concatenate([model(each[None]) for each in embeddings]), converted, atol=1e-5)
    assert np.abs(model(2 * embeddings) - converted).max() > 0.01
