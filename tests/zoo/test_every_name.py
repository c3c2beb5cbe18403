"""Every registered name on its stand-in: what its contract promises, and the numbers of an independent reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pytest

from mien.errors import ModelError
from mien.geometry import TEMPLATES
from mien.mesh import constants
from mien.types import ByteArray, Detection, FloatArray, Image
from mien.zoo.cards import Task
from mien.zoo.contracts import Source, check_patches
from mien.zoo.landmarkers.pipnet import MEAN_FACE
from mien.zoo.registry import registry
from tests import fakes
from tests.references import detectors, embedders, enhancers, landmarkers, maskers, swappers, templates
from tests.references.base import Array, File, unit
from tests.standins import STANDINS, standin
from tests.standins.swappers import dfm

NAMES = sorted(key for key in registry() if key != ("swapper", "texture"))
"""All but the one that is ours; see `test_fusion` and `test_swapgan`."""
TOLERANCE = 1e-4


def build(task: Task, name: str) -> Any:
    """The registered class on its stand-in."""
    return registry()[task, name](where="cpu", file=standin(task, name))


@cache
def file_of(task: Task, name: str) -> File:
    return File(standin(task, name))


def pictures(seed: int, count: int, width: int, height: int, block: int = 16, noise: int = 40) -> ByteArray:
    """RGB blocks of random colours under noise; the second picture is dark, the third reddish."""
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (count, -(-height // block), -(-width // block), 3))
    images = blocks.repeat(block, 1).repeat(block, 2)[:, :height, :width].astype(np.float64)
    if noise:
        images += random.integers(-noise, noise + 1, images.shape)
    for i, tint in enumerate([(1, 1, 1), (0.3, 0.4, 0.5), (1, 0.6, 0.3)][:count]):
        images[i] *= tint
    return np.clip(images, 0, 255).astype(np.uint8)


def check_batches(run: Callable[[Any], Array], items: Array, expected: Array) -> None:
    """A batch of all and one of one: type, shape, the reference's numbers, and items that do not mix."""
    together = run(items)
    assert together.dtype == np.float32
    assert together.shape == expected.shape
    assert np.abs(expected[0] - expected[1]).max() > 0.01  # the stand-in tells the items apart
    assert np.abs(together - expected).max() <= TOLERANCE  # false for what is not finite
    assert np.abs(run(items[1:2]) - expected[1:2]).max() <= TOLERANCE


def stacked(wanted: Callable[[Any], Array], items: Array) -> Array:
    """The reference's results, item by item."""
    return np.stack([wanted(item).astype(np.float32) for item in items])


# Detectors


def check_hits(found: list[Detection], wanted: list[detectors.Hit], scale: float = 1.0) -> None:
    """The same hits, best first; those whose scores differ by rounding only may come in either order."""
    assert len(found) == len(wanted)
    assert all(hit.bbox.dtype == hit.keypoints.dtype == np.float32 for hit in found)
    np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in wanted], atol=TOLERANCE)
    boxes, expected = np.array([hit.bbox for hit in found]), np.array([hit.box for hit in wanted]) * scale
    order = np.abs(boxes[None] - expected[:, None]).sum(2).argmin(1)
    assert sorted(order) == list(range(len(found)))
    scores = np.array([hit.score for hit in wanted])
    assert np.abs(scores[order] - scores).max() < 1e-6
    # Pixels go up to 1000, where float32 has steps of 6e-5.
    np.testing.assert_allclose(boxes[order], expected, atol=TOLERANCE, rtol=1e-6)
    if wanted[0].points:
        points = np.array([found[i].keypoints for i in order])
        np.testing.assert_allclose(points, np.array([hit.points for hit in wanted]) * scale, atol=TOLERANCE, rtol=1e-6)


MANY = 500
"""Hits that reach the limit."""


class Frame(NamedTuple):
    """A frame, and what the reference finds in it."""

    image: ByteArray
    limit: float
    """Lowest score that counts."""
    wanted: list[detectors.Hit]
    high: float
    """The same for the best five."""
    anchors: set[tuple[int, int]]
    """All there are."""


@cache
def frame_of(name: str, seed: int) -> Frame:
    file = file_of("detector", name)
    other = (448, 640) if detectors.side_of(file) else (333, 501)
    width, height = ((640, 448), other)[seed]
    (image,) = pictures(seed, 1, width, height, 32)
    hits = detectors.detect(name, file, image)
    scores = sorted((hit.score for hit in hits), reverse=True)
    limit = (scores[MANY] + scores[MANY + 1]) / 2
    wanted = detectors.best_first(hits, limit)
    assert len(wanted) < 0.95 * MANY  # some were overlapped
    below = max(score for score in scores if score < wanted[4].score)
    return Frame(image, limit, wanted, (wanted[4].score + below) / 2, {hit.anchor for hit in hits})


def check_detector(name: str) -> None:
    model, file = build("detector", name), file_of("detector", name)
    told = {hit.anchor for seed in (0, 1) for hit in frame_of(name, seed).wanted}
    assert told == frame_of(name, 0).anchors  # each stride, and each anchor of a cell, has a say
    for seed in (0, 1):
        image, limit, wanted, high, _ = frame_of(name, seed)
        check_hits(model(image, limit), wanted)
        check_hits(model(image, high), wanted[:5])
        if detectors.side_of(file):  # twice as large a frame, which shrinks to the very same pixels
            check_hits(model(image.repeat(2, 0).repeat(2, 1), limit), wanted, 2)
    assert model(image, 1.1) == []


# Models of crops


def check_landmarker(name: str) -> None:
    model, file = build("landmarker", name), file_of("landmarker", name)
    if name == "fan_68_5":
        assert (model.template, model.points, model.crop) == ("ffhq_512", 68, "points")
        five = np.random.default_rng(0).uniform(0, 1, (3, 5, 2)).astype(np.float32)
        return check_batches(model, five, stacked(lambda points: np.asarray(file(points[None])[0][0]), five))
    facts = landmarkers.FACTS[name]
    assert (model.size, model.points, model.crop) == (facts.size, facts.points, facts.crop)
    assert (model.margin, model.shift) == (pytest.approx(facts.margin), facts.shift)
    crops = pictures(1, 3, facts.size, facts.size, facts.size // 8)
    check_batches(
        lambda batch: np.asarray(model(batch)[0]), crops, stacked(lambda crop: points_of(name, file, crop)[0], crops)
    )
    scores = model(crops)[1]
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, [points_of(name, file, crop)[1] for crop in crops], atol=TOLERANCE)


def points_of(name: str, file: File, crop: ByteArray) -> tuple[Array, float]:
    """The reference's points and score."""
    facts = landmarkers.FACTS[name]
    if name == "mesh478":
        return landmarkers.mesh478(file, crop)
    if name in ("2dfan4", "peppa_wutz"):
        points, score = {"2dfan4": landmarkers.fan, "peppa_wutz": landmarkers.peppa}[name](file, crop)
    elif name == "pipnet_98":
        points, score = landmarkers.pipnet(file, crop, neighbours())
    else:
        return landmarkers.insightface(file, crop, facts.points, facts.dimensions), 1.0
    return points, min(max(score, 0.0), 1.0)


@cache
def neighbours() -> Array:
    """PIPNet's ten neighbours of each of 98 points, held to the authors' table."""
    found = landmarkers.nearest(np.array(MEAN_FACE, np.float64), 10)
    for point, places in landmarkers.NEIGHBOUR_OF.items():
        assert tuple((int(i), int(j)) for i, j in np.argwhere(found == point)) == places
    assert sha256(landmarkers.reversed_table(found).tobytes()).hexdigest() == landmarkers.REVERSED
    return found


def check_embedder(name: str) -> None:
    model, file = build("embedder", name), file_of("embedder", name)
    facts = embedders.FACTS[name]
    assert (model.template, model.size) == (facts.template, facts.size)
    crops = pictures(2, 3, facts.size, facts.size, facts.size // 7)
    raw = stacked(lambda crop: embedders.embed(name, file, crop), crops)
    check_batches(model.raw, crops, raw)
    check_batches(model, crops, stacked(unit, raw))
    assert model(crops).shape == (3, facts.dimensions)


def check_converter(name: str) -> None:
    model, file = build("converter", name), file_of("converter", name)
    assert model.embedder == "arcface_w600k_r50"
    embeddings = np.random.default_rng(3).normal(size=(3, 512)).astype(np.float32)
    check_batches(model, embeddings, stacked(lambda embedding: embedders.convert(file, embedding), embeddings))


@cache
def masks_of(name: str) -> tuple[ByteArray, Array]:
    """Crops of few colours, so that no pixel lies on the border of two classes, and the reference's masks."""
    crops = pictures(4, 3, maskers.SIZES[name], maskers.SIZES[name], 16, noise=0)
    return crops, stacked(lambda crop: maskers.mask(name, file_of("masker", name), crop), crops)


def check_masker(name: str) -> None:
    model = build("masker", name)
    assert model.size == maskers.SIZES[name]
    assert model.classes == maskers.CLASSES[name]
    assert model.margin == maskers.MARGINS[name]
    check_batches(model, *masks_of(name))


@cache
def enhanced(name: str, weight: float) -> tuple[ByteArray, Array]:
    """Crops, and what the reference makes of them."""
    size = enhancers.FACTS[name][1]
    crops = pictures(5, 3 if size < 1024 else 2, size, size, size // 8)
    return crops, stacked(lambda crop: enhancers.enhance(file_of("enhancer", name), crop, weight), crops)


def check_enhancer(name: str) -> None:
    model = build("enhancer", name)
    assert (model.template, model.size) == enhancers.FACTS[name]
    check_batches(model, *enhanced(name, 1.0))
    if model.size <= 512:
        check_batches(lambda batch: np.asarray(model(batch, 0.25)), *enhanced(name, 0.25))


def check_expression(name: str) -> None:
    model, file = build("expression", name), file_of("expression", name)
    (indices,) = constants("face_mesh_478.npz", "blendshape_input_index")
    meshes = np.random.default_rng(6).uniform(0, 256, (3, 478, 3)).astype(np.float32)
    check_batches(model, meshes, stacked(lambda mesh: landmarkers.blendshapes(file, mesh, indices), meshes))


def check_attribute(name: str) -> None:
    model, file = build("attribute", name), file_of("attribute", name)
    assert (model.size, model.margin, model.names) == (96, 1.5, ("female", "male", "age"))
    crops = pictures(7, 3, 96, 96, 12)
    check_batches(model, crops, stacked(lambda crop: np.array(landmarkers.genderage(file, crop)), crops))


# Swappers


@cache
def swapped(name: str) -> tuple[Source, list[tuple[Array, Array]]]:
    """A source, and batches of crops with what the reference makes of them: plain, boosted, and of deep colours."""
    facts, random = swappers.FACTS[name], np.random.default_rng(8)
    size, embedding, photo = facts.size, None, None
    if facts.source == "photo":
        photo = pictures(9, 1, facts.source_size, facts.source_size, 14)[0]
    else:  # as long as raw embeddings are: about 25
        embedding = (1.1 * random.normal(size=512)).astype(np.float32)
    batches: list[Array] = [
        pictures(10, 3, size, size, size // 8),
        pictures(11, 2, 2 * size, 2 * size, size // 8),
        random.uniform(0, 1, (2, size, size, 3)).astype(np.float32),
    ]
    file = file_of("swapper", name)
    made = [stacked(lambda crop: swappers.swap(name, file, crop, embedding, photo), crops) for crops in batches]
    return Source(fakes.identity(), embedding, photo), list(zip(batches, made, strict=True))


def check_swapper(name: str) -> None:
    if name == "dfm":
        check_dfm(standin("swapper", "dfm"), 0)
        return check_dfm(dfm("dfm", 64, morph=True), 1)
    model, facts = build("swapper", name), swappers.FACTS[name]
    assert (model.template, model.size) == (facts.template, facts.size)
    assert (model.margin, model.needs_mask) == (1, True)  # the template's crop whole, and what covers a face stays
    needs = model.needs
    assert (needs.converter, needs.template, needs.size) == (facts.converter, facts.source_template, facts.source_size)
    assert needs.embedder == ("" if facts.source == "photo" else "arcface_w600k_r50")
    source, batches = swapped(name)
    for crops, expected in batches:
        check_batches(lambda batch: patches(model, list(batch), source), crops, expected)


def patches(model: Any, crops: list[Image], source: Source) -> FloatArray:
    """The pictures of a batch of patches, each of which keeps the contract."""
    faces = [fakes.face(crop.shape[1] / 2, crop.shape[0] / 2, crop.shape[0] / 2) for crop in crops]
    made = model(crops, faces, [None] * len(crops), source, 1.0)
    check_patches(model.card.name, made, crops)
    assert all(patch.mask.min() >= 0 and patch.mask.max() <= 1 and patch.mask.max() > 0.9 for patch in made)
    assert all(patch.rgb.min() >= 0 and patch.rgb.max() <= 1 for patch in made)
    return np.stack([patch.rgb for patch in made])


@pytest.mark.parametrize("name", swappers.FACTS)
def test_the_stand_ins_of_swappers_tell_sources_apart(name: str) -> None:
    facts, random = swappers.FACTS[name], np.random.default_rng(14)
    crop = pictures(10, 1, facts.size, facts.size, facts.size // 8)[0]
    embeddings = (1.1 * random.normal(size=(2, 512))).astype(np.float32)
    photos = pictures(15, 2, facts.source_size or 8, facts.source_size or 8, 14)
    one, other = (
        swappers.swap(name, file_of("swapper", name), crop, *of) for of in zip(embeddings, photos, strict=True)
    )
    assert np.abs(one - other).max() > 0.05


def check_dfm(data: bytes, morph: float) -> None:
    model, file = registry()["swapper", "dfm"](where="cpu", file=data), File(data)
    assert model.template == "dfl_whole_face"
    assert not model.needs.embedder and not model.needs.template
    assert (model.margin, model.needs_mask) == (1, True)
    size, source = file.shapes[0][1], Source(fakes.identity())
    assert model.size == size
    for side in (size, 2 * size):
        crops = pictures(13, 3, side, side, side // 8)
        expected = stacked(lambda crop: swappers.deep_face(file, crop, morph), crops)
        check_batches(lambda batch: patches(model, list(batch), source), crops, expected)
    (patch,) = model([crops[0]], [fakes.face(side / 2, side / 2, 0.94 * side)], [None], source, 1.0)
    near, far = slice(side // 10, side // 5), slice(5 * side // 8, 3 * side // 4)
    assert patch.mask[far, far].min() > 0.9  # both masks are 1
    assert patch.mask[far, near].max() < 0.1  # the target's is 0
    assert patch.mask[near, far].max() < 0.1  # the face's own is 0


CASES: Mapping[Task, Callable[[str], object]] = {
    "detector": lambda name: [frame_of(name, seed) for seed in (0, 1)],
    "masker": masks_of,
    "enhancer": lambda name: enhanced(name, 1.0),
    "swapper": lambda name: None if name == "dfm" else swapped(name),
}
"""What the references of a name make, once for all who ask."""
CHECKS: Mapping[Task, Callable[[str], None]] = {
    "detector": check_detector,
    "landmarker": check_landmarker,
    "embedder": check_embedder,
    "converter": check_converter,
    "swapper": check_swapper,
    "enhancer": check_enhancer,
    "masker": check_masker,
    "expression": check_expression,
    "attribute": check_attribute,
}


@pytest.mark.parametrize(("task", "name"), NAMES)
def test_numbers_are_the_references(task: Task, name: str) -> None:
    CHECKS[task](name)


def test_templates_are_the_published_ones() -> None:
    assert {*templates.TEMPLATES} <= {*TEMPLATES}
    for name, points in templates.TEMPLATES.items():
        np.testing.assert_allclose(TEMPLATES[name], points, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(("task", "name"), NAMES)
def test_a_template_is_known(task: Task, name: str) -> None:
    template = getattr(registry()[task, name], "template", None)
    assert template is None or template in TEMPLATES


SAME = (
    ("scrfd_500m", "scrfd_2.5g", "scrfd_10g", "retinaface_10g"),
    ("ghost_1_256", "ghost_2_256", "ghost_3_256", "simswap_256", "hififace_unofficial_256"),
    ("hyperswap_1a_256", "hyperswap_1b_256", "hyperswap_1c_256"),
    # Some HifiFace files give a mask as well.
    ("hififace_unofficial_256", "hyperswap_1a_256", "hyperswap_1b_256", "hyperswap_1c_256"),
)
"""Files that nobody could tell apart, though their inputs lie in another order or their outputs have no batch."""


def alike(one: File, other: File) -> bool:
    """Whether two files cannot be told apart by their inputs and outputs."""

    def fit(a: list[Any], b: list[Any]) -> bool:
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(x == y or not (isinstance(x, int) and isinstance(y, int)) for x, y in pairs)

    inputs = len(one.shapes) == len(other.shapes) and all(map(fit, one.shapes, other.shapes))
    return inputs and all(map(fit, one.results, other.results))


@pytest.mark.parametrize(("task", "name"), NAMES)
def test_another_models_file_is_refused(task: Task, name: str) -> None:
    mine = file_of(task, name)
    others = [(t, n) for t in STANDINS for n in STANDINS[t] if t == task or n == min(STANDINS[t])]
    same = {other for group in SAME if name in group for other in group}
    others = [other for other in others if other[1] not in same and not alike(mine, file_of(*other))]
    assert len(others) >= 8
    accepted = []
    for other in others:
        try:
            registry()[task, name](where="cpu", file=standin(*other))
        except ModelError as error:
            assert re.search(r"expected .* but found ", str(error)), (other, error)
        else:
            accepted.append(other)
    assert accepted == []


def test_every_stand_in_is_of_a_registered_name() -> None:
    assert sorted((task, name) for task, names in STANDINS.items() for name in names) == NAMES
