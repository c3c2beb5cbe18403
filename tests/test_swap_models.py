"""Swaps with models of the user's own, from the store to the written file: photo and video."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

import mien
from mien.errors import OptionsError
from mien.identity import Identity
from mien.media import open_reader, open_writer
from mien.options import SwapOptions
from mien.paste import read_crop
from mien.resume import fingerprint
from mien.types import ByteArray, FloatArray
from mien.zoo.install import add
from mien.zoo.registry import Zoo
from mien.zoo.store import Store
from tests.fakes import FakeSwapper
from tests.stand_ins import graph, node
from tests.standins import STANDINS, standin

FRAMES = 4
SOURCE, OTHER, TARGET = "female_031.jpg", "male_036.jpg", "male_009.jpg"


def tinting(gain: float = 40.0) -> bytes:
    """inswapper's layout: a quarter of the target, three quarters of a colour that the embedding tells."""
    return graph(
        [
            node("Slice", ["source", "from", "to", "axis"], "first"), node("Mul", ["first", "gain"], "louder"),
            node("Sigmoid", ["louder"], "colour"), node("Reshape", ["colour", "pixel"], "pixels"),
            node("Mul", ["pixels", "most"], "tint"), node("Mul", ["target", "least"], "rest"),
            node("Add", ["rest", "tint"], "output"),
        ],
        {"target": (1, 3, 128, 128), "source": (1, 512)}, {"output": (1, 3, 128, 128)},
        **{"from": np.array([0]), "to": np.array([3]), "axis": np.array([1])},
        gain=np.array(gain, np.float32), pixel=np.array([-1, 3, 1, 1]), most=np.array(0.75, np.float32),
        least=np.array(0.25, np.float32), emap=np.eye(512, dtype=np.float32),
    )  # fmt: skip


def install(store: Store, family: str, data: bytes, folder: Path, name: str | None = None) -> None:
    path = folder / f"{family}.onnx"
    path.write_bytes(data)
    add(store, path, family, name)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder / "models")
    install(store, "inswapper_128", tinting(), folder)
    install(store, "arcface_w600k_r50", standin("embedder", "arcface_w600k_r50"), folder)
    return Zoo("cpu", store=store)


def colour(identity: Identity) -> FloatArray:
    raw = identity.data.embeddings["arcface_w600k_r50"]
    first = 40 * raw[:3].astype(np.float64) / np.linalg.norm(raw)
    return np.asarray(255 / (1 + np.exp(-first)), np.float32)


def pixels(path: Path) -> list[ByteArray]:
    with open_reader(path) as reader:
        return [np.asarray(frame.read(frame.box), np.uint8) for frame in reader]


def person(portraits: Path, zoo: Zoo, name: str = SOURCE) -> Identity:
    return Identity.from_images([portraits / name], zoo=zoo, options=SwapOptions(swapper="inswapper_128"))


@pytest.mark.parametrize("boost", [0, 1])
def test_a_photo(tmp_path: Path, portraits: Path, zoo: Zoo, boost: int) -> None:
    output = tmp_path / "out.png"
    report = mien.swap(
        portraits / SOURCE, portraits / TARGET, output, zoo=zoo, swapper="inswapper_128", pixel_boost=boost
    )
    (before,), (after,) = pixels(portraits / TARGET), pixels(output)
    with mien.analyze(portraits / TARGET, zoo=zoo) as analysis, open_reader(portraits / TARGET) as reader:
        (face,) = analysis[0]
        crop = read_crop(next(iter(reader)), face, FakeSwapper("arcface_128", 128))
    assert crop is not None
    box = crop.box
    outside = np.ones(before.shape[:2], bool)
    outside[box.y0 : box.y1, box.x0 : box.x1] = False
    np.testing.assert_array_equal(after[outside], before[outside])
    x, y = (int(v) for v in face.mesh[4, :2])
    middle = (slice(y - 4, y + 5), slice(x - 4, x + 5))
    expected = 0.25 * before[middle].astype(float) + 0.75 * colour(person(portraits, zoo))
    assert np.abs(after[middle].mean((0, 1)) - expected.mean((0, 1))).max() < 2
    licences = {model.name: model.commercial for model in report.models}
    assert licences["inswapper_128"] is False and licences["arcface_w600k_r50"] is False


def test_another_source_gives_another_face(tmp_path: Path, portraits: Path, zoo: Zoo) -> None:
    first, second = (person(portraits, zoo, name) for name in (SOURCE, OTHER))
    assert np.abs(colour(first) - colour(second)).max() > 3
    for who, name in ((first, "a.png"), (second, "b.png")):
        mien.swap(who, portraits / TARGET, tmp_path / name, zoo=zoo, swapper="inswapper_128")
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


def test_of_several_photos_the_mean_embedding_counts(portraits: Path, zoo: Zoo) -> None:
    options = SwapOptions(swapper="inswapper_128")
    both = Identity.from_images([portraits / SOURCE, portraits / OTHER], zoo=zoo, options=options).data.embeddings
    each = [person(portraits, zoo, name).data.embeddings["arcface_w600k_r50"] for name in (SOURCE, OTHER)]
    np.testing.assert_allclose(both["arcface_w600k_r50"], np.mean(each, axis=0), rtol=1e-5)


def test_an_identity_that_was_made_for_another_swapper_serves_by_its_photo(
    tmp_path: Path, portraits: Path, zoo: Zoo
) -> None:
    plain = Identity.from_images([portraits / SOURCE], zoo=zoo)
    assert plain.data.embeddings == {}
    plain.save(tmp_path / "who.npz")
    for who, name in ((Identity.load(tmp_path / "who.npz"), "a.png"), (person(portraits, zoo), "b.png")):
        mien.swap(who, portraits / TARGET, tmp_path / name, zoo=zoo, swapper="inswapper_128")
    (a,), (b,) = pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png")
    np.testing.assert_array_equal(a, b)


def test_a_video(tmp_path: Path, examples: Path, portraits: Path, zoo: Zoo) -> None:
    clip, output = tmp_path / "clip.mkv", tmp_path / "out.mkv"
    with open_reader(examples / "clip.mp4") as reader, open_writer(clip, reader, SwapOptions(encoder="ffv1")) as writer:
        for frame, _ in zip(reader, range(FRAMES), strict=False):
            writer.write(frame)
    report = mien.swap(portraits / SOURCE, clip, output, zoo=zoo, swapper="inswapper_128", encoder="ffv1")
    assert (report.frames, report.frames_with_faces) == (FRAMES, FRAMES)
    tint = colour(person(portraits, zoo))
    with mien.analyze(clip, zoo=zoo) as analysis:
        for before, after, faces in zip(pixels(clip), pixels(output), analysis, strict=True):
            face = max(faces, key=lambda each: each.bbox[2] - each.bbox[0])
            x, y = (int(v) for v in face.mesh[4, :2])
            middle = (slice(y - 4, y + 5), slice(x - 4, x + 5))
            expected = 0.25 * before[middle].astype(float).mean((0, 1)) + 0.75 * tint
            assert np.abs(after[middle].mean((0, 1)) - expected).max() < 6
            (x0, y0, x1, y1) = face.bbox
            side = 1.6 * max(x1 - x0, y1 - y0)
            outside = np.ones(before.shape[:2], np.uint8)
            cv2.circle(outside, (int((x0 + x1) / 2), int((y0 + y1) / 2)), int(side), 0, -1)
            np.testing.assert_array_equal(after[outside > 0], before[outside > 0])


def test_a_swapper_whose_embedder_is_missing_is_told_before_the_work(tmp_path: Path, portraits: Path) -> None:
    store = Store(tmp_path / "models")
    install(store, "inswapper_128", tinting(), tmp_path)
    with pytest.raises(OptionsError, match=r"^inswapper_128 needs the embedder arcface_w600k_r50: .* is not installed"):
        mien.swap(
            portraits / SOURCE, portraits / TARGET, tmp_path / "out.png", zoo=Zoo("cpu", store=store),
            swapper="inswapper_128",
        )  # fmt: skip
    assert not (tmp_path / "out.png").exists()


def test_a_run_goes_on_only_with_the_same_files_and_versions(tmp_path: Path, portraits: Path) -> None:
    who = Identity.from_images([portraits / SOURCE], zoo=Zoo("cpu", store=Store(tmp_path / "none"))).data
    made = []
    for number, gain in enumerate((40.0, 40.0, 50.0)):
        store = Store(tmp_path / str(number))
        install(store, "inswapper_128", tinting(gain), tmp_path, "mine")
        install(store, "arcface_w600k_r50", standin("embedder", "arcface_w600k_r50"), tmp_path)
        zoo = Zoo("cpu", store=store)
        made.append(fingerprint(portraits / TARGET, who, SwapOptions(swapper="mine", queue_size=number + 1), zoo))
    assert made[0] == made[1]
    assert {name for name in made[0] if made[0][name] != made[2][name]} == {"swapper mine"}
    names = {"embedder arcface_w600k_r50", "embedder mobilefacenet", "masker occluder", "detector yunet", "the source"}
    assert names <= set(made[0])
    assert {"mien", "ONNX Runtime", "NumPy", "OpenCV", "PyAV", "FFmpeg", "Pillow"} <= set(made[0])


@pytest.mark.parametrize(
    ("name", "companions"),
    [("ghost_1_256", ["arcface_w600k_r50", "crossface_ghost"]), ("blendswap_256", []), ("dfm", [])],
)
def test_each_kind_of_source(tmp_path: Path, portraits: Path, name: str, companions: list[str]) -> None:
    """A converted embedding, a photo, and none: all models of the swap are told, and the face alone is changed."""
    store = Store(tmp_path / "models")
    for family in (name, *companions):
        task = {"arcface": "embedder", "crossface": "converter"}.get(family.split("_")[0], "swapper")
        install(store, family, STANDINS[task][family](), tmp_path)
    zoo, output = Zoo("cpu", store=store), tmp_path / "out.png"
    report = mien.swap(portraits / SOURCE, portraits / TARGET, output, zoo=zoo, swapper=name, pixel_boost=1)
    assert {name, *companions} <= {model.name for model in report.models}
    (before,), (after,) = pixels(portraits / TARGET), pixels(output)
    x0, y0, x1, y1 = report.faces[0].bbox
    changed = np.abs(after.astype(int) - before).max(2) > 0
    rows, columns = np.nonzero(changed)
    assert changed[int(y0) : int(y1), int(x0) : int(x1)].mean() > 0.4
    assert rows.min() > y0 - (y1 - y0) and rows.max() < y1 + (y1 - y0)
    assert columns.min() > x0 - (x1 - x0) and columns.max() < x1 + (x1 - x0)
