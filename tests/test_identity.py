"""Identities: made from photos, fused, saved and read back."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mien.errors import MediaError, MienError, NoFaceError, OutputError
from mien.identity import Identity
from mien.options import AnalyzeOptions, SwapOptions
from mien.shape import NOISE
from mien.types import Face, Image
from mien.zoo.registry import Zoo

PORTRAIT = "female_031.jpg"
NUMBERS = ("embedding", "texture", "trust", "mesh", "shape", "keypoints")


@pytest.fixture(scope="module")
def two(portraits: Path, models: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """The same portrait twice, once mirrored and darker."""
    image = cv2.imread(str(portraits / PORTRAIT))
    assert image is not None
    other = tmp_path_factory.mktemp("photos") / "mirrored.png"
    cv2.imwrite(str(other), np.ascontiguousarray(image[:, ::-1] * 0.8).astype(np.uint8))
    return Identity.from_images([portraits / PORTRAIT, str(other)], zoo=models)


def test_an_identity_holds_what_the_contract_says(woman: Identity) -> None:
    data = woman.data
    side = data.texture.shape[0]
    assert data.texture.shape == (side, side, 3) and data.trust.shape == (side, side) and side in (256, 512, 1024)
    assert data.mesh.shape == (478, 3) and data.shape.shape == (468, 3)
    for name in NUMBERS:
        values = getattr(data, name)
        assert values.dtype == np.float32 and np.isfinite(values).all(), name
    assert data.photo is not None and data.keypoints is not None
    assert data.photo.dtype == np.uint8 and data.keypoints.shape == (5, 2) and data.embeddings == {}
    assert data.texture.min() >= 0 and data.texture.max() <= 1
    assert data.trust.min() >= 0 and data.trust.max() <= 1
    assert 0.4 < (data.trust > 0.5).mean() < 0.9
    assert np.abs(data.shape).max() < 15  # cm


def test_an_embedding_has_length_one_and_is_the_faces_own(woman: Identity, woman_face: tuple[Image, Face]) -> None:
    assert woman.embedding is woman.data.embedding
    assert np.linalg.norm(woman.embedding) == pytest.approx(1, abs=1e-5)
    own = woman_face[1].embedding
    assert own is not None
    assert float(own @ woman.embedding) > 0.99


def test_the_mesh_is_the_faces_own_in_the_pixels_of_its_crop(woman: Identity, woman_face: tuple[Image, Face]) -> None:
    shift = woman_face[1].mesh - woman.data.mesh
    assert np.ptp(shift[:, :2], axis=0).max() < 0.5
    np.testing.assert_allclose(shift[0, :2], shift[0, :2].round(), atol=0.05)
    assert (woman.data.mesh[:, :2].min(0) > 0).all()


def test_the_photo_shows_the_face_with_room_for_every_template(woman: Identity, woman_face: tuple[Image, Face]) -> None:
    photo, keypoints = woman.data.photo, woman.data.keypoints
    assert photo is not None and keypoints is not None
    image, face = woman_face
    shift = (face.keypoints - keypoints).mean(0).round().astype(int)
    np.testing.assert_allclose(face.keypoints - keypoints, [shift] * 5, atol=0.5)
    height, width = photo.shape[:2]
    np.testing.assert_array_equal(photo, image[shift[1] : shift[1] + height, shift[0] : shift[0] + width])


def test_two_photos_fuse(woman: Identity, two: Identity) -> None:
    assert np.linalg.norm(two.embedding) == pytest.approx(1, abs=1e-5)
    assert 0.8 < float(two.embedding @ woman.embedding) < 1
    assert two.data.texture.shape == woman.data.texture.shape
    assert two.data.trust.mean() >= 0.98 * woman.data.trust.mean()
    away = np.linalg.norm(two.data.shape - woman.data.shape, axis=1)
    assert away.max() > 0 and np.median(away) < 3 * NOISE
    both = (two.data.trust > 0.9) & (woman.data.trust > 0.9)
    assert np.abs(two.data.texture - woman.data.texture)[both].mean() < 0.06


def test_the_same_photo_twice_is_that_photo(portraits: Path, models: Zoo, woman: Identity) -> None:
    double = Identity.from_images([portraits / PORTRAIT] * 2, zoo=models)
    np.testing.assert_allclose(double.embedding, woman.embedding, atol=1e-5)
    np.testing.assert_allclose(double.data.shape, woman.data.shape, atol=1e-4)
    sure = woman.data.trust > 0.9
    assert np.abs(double.data.texture - woman.data.texture)[sure].max() < 0.03


def test_saved_and_loaded_it_is_the_same_within_rounding(woman: Identity, tmp_path: Path) -> None:
    path = tmp_path / "woman.npz"
    raw = {"arcface_w600k_r50": np.arange(512, dtype=np.float32), "own name": np.ones(3, np.float32)}
    woman = Identity(replace(woman.data, embeddings=raw))
    woman.save(path)
    loaded = Identity.load(path).data
    assert loaded.photo is not None and woman.data.photo is not None and loaded.photo.dtype == np.uint8
    np.testing.assert_array_equal(loaded.photo, woman.data.photo)
    assert set(loaded.embeddings) == set(raw)
    for name in raw:
        np.testing.assert_array_equal(loaded.embeddings[name], raw[name])
    rounded = {"texture": 1e-5, "trust": 0.51 / 255}
    for name in NUMBERS:
        tolerance = rounded.get(name, 0)
        stored = getattr(loaded, name)
        assert stored.dtype == np.float32
        np.testing.assert_allclose(stored, getattr(woman.data, name), atol=tolerance, rtol=0)
    again = tmp_path / "again.npz"
    Identity.load(path).save(again)
    np.testing.assert_array_equal(Identity.load(again).data.texture, loaded.texture)


def test_saving_leaves_one_file_without_pickles_and_of_any_name(woman: Identity, tmp_path: Path) -> None:
    path = tmp_path / "no ending"
    path.write_bytes(b"older")
    woman.save(str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["no ending"]
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
        assert {*NUMBERS, "photo"} <= set(stored)
        assert all(stored[name].dtype != object for name in stored)
    np.testing.assert_array_equal(Identity.load(path).embedding, woman.embedding)


def test_what_cannot_be_written_is_an_output_error_that_leaves_nothing(woman: Identity, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="missing"):
        woman.save(tmp_path / "missing" / "woman.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="folder"):
        woman.save(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def small(woman: Identity) -> Identity:
    """The identity with a texture of a few texels."""
    data = woman.data
    assert data.photo is not None
    return Identity(
        replace(data, texture=data.texture[:32, :32], trust=data.trust[:32, :32], photo=data.photo[:32, :32])
    )


def stored(woman: Identity, tmp_path: Path) -> bytes:
    woman.save(tmp_path / "whole.npz")
    return (tmp_path / "whole.npz").read_bytes()


def archive(**values: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **values)  # type: ignore[arg-type]
    return buffer.getvalue()


def array_file() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an identity",
        b"\xff\xd8\xff\xe0 a JPEG",
        b"PK\x03\x04 a zip of nothing",
        array_file(),
        archive(other=np.zeros(3)),
        archive(format=np.int32(2), embedding=np.zeros(8)),
        archive(format=np.int32(999)),
        archive(format=np.zeros(5)),
        archive(format=np.array({"a": 1}, object)),
    ],
    ids=["empty", "text", "jpeg", "zip", "npy", "foreign", "incomplete", "newer", "odd", "pickle"],
)
def test_a_foreign_file_is_a_media_error_that_names_it(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=r"some\.npz") as caught:
        Identity.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_cut_file_is_a_media_error(woman: Identity, tmp_path: Path, share: float) -> None:
    content = stored(woman, tmp_path)
    path = tmp_path / "cut.npz"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(MediaError, match=r"cut\.npz"):
        Identity.load(path)


def test_a_damaged_file_is_a_media_error(woman: Identity, tmp_path: Path) -> None:
    content = stored(small(woman), tmp_path)
    path = tmp_path / "damaged.npz"
    chance = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        at = int(chance.integers(0, len(content) - 64))
        damaged[at : at + 64] = chance.bytes(64)
        path.write_bytes(damaged)
        with pytest.raises(MediaError, match=r"damaged\.npz"):
            Identity.load(path)


@pytest.mark.parametrize("version", [1, 999])
def test_an_identity_of_another_version_is_told_apart(tmp_path: Path, version: int) -> None:
    path = tmp_path / "newer.npz"
    path.write_bytes(archive(format=np.int32(version)))
    with pytest.raises(MediaError, match="version"):
        Identity.load(path)


def test_an_identity_without_a_photo_is_kept_as_well(woman: Identity, tmp_path: Path) -> None:
    path = tmp_path / "bare.npz"
    Identity(replace(small(woman).data, photo=None, keypoints=None)).save(path)
    loaded = Identity.load(path).data
    assert loaded.photo is None and loaded.keypoints is None and loaded.embeddings == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("photo", np.zeros((5, 7, 4), np.uint8)),
        ("photo", np.zeros((0, 7, 3), np.uint8)),
        ("photo", np.zeros((5, 7, 3), np.float32)),
        ("embeddings", {"a": np.zeros((2, 2), np.float32)}),
        ("embeddings", {"a": np.full(4, np.nan, np.float32)}),
    ],
)
def test_other_photos_and_embeddings_are_a_media_error(woman: Identity, tmp_path: Path, name: str, value: Any) -> None:
    path = tmp_path / "odd.npz"
    Identity(replace(small(woman).data, **{name: value})).save(path)
    with pytest.raises(MediaError, match=r"odd\.npz: not an identity made by mien"):
        Identity.load(path)


@pytest.mark.parametrize("name", NUMBERS)
def test_arrays_of_other_shapes_are_a_media_error(woman: Identity, tmp_path: Path, name: str) -> None:
    path = tmp_path / "odd.npz"
    other: dict[str, Any] = {name: np.zeros((5, 7), np.float32)}
    Identity(replace(small(woman).data, **other)).save(path)
    with pytest.raises(MediaError, match=r"odd\.npz"):
        Identity.load(path)


@pytest.mark.parametrize("name", ["mesh", "shape"])
def test_points_far_out_are_a_media_error(woman: Identity, tmp_path: Path, name: str) -> None:
    data = small(woman).data
    values = getattr(data, name).copy()
    values[7, 1] = -1e30
    Identity(replace(data, **{name: values})).save(tmp_path / "odd.npz")
    with pytest.raises(MediaError, match=r"odd\.npz: not an identity made by mien; make it again from its photos"):
        Identity.load(tmp_path / "odd.npz")


@pytest.mark.parametrize("name", ["embedding", "mesh", "shape"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_arrays_that_are_not_finite_are_a_media_error(woman: Identity, tmp_path: Path, name: str, value: float) -> None:
    data = small(woman).data
    values = getattr(data, name).copy()
    values.reshape(-1)[0] = value
    Identity(replace(data, **{name: values})).save(tmp_path / "odd.npz")
    with pytest.raises(MediaError, match=r"odd\.npz: not an identity made by mien; make it again from its photos"):
        Identity.load(tmp_path / "odd.npz")


def test_a_file_that_is_not_there_is_a_media_error(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="nowhere"):
        Identity.load(tmp_path / "nowhere.npz")
    with pytest.raises(MediaError, match=tmp_path.name):
        Identity.load(tmp_path)


def test_a_photo_without_a_face_is_named(models: Zoo, portraits: Path, tmp_path: Path) -> None:
    path = tmp_path / "sky.png"
    cv2.imwrite(str(path), np.full((120, 160, 3), (230, 180, 120), np.uint8))
    with pytest.raises(NoFaceError, match=r"sky\.png"):
        Identity.from_images([portraits / PORTRAIT, path], zoo=models)


def test_the_options_choose_how_models_run(monkeypatch: pytest.MonkeyPatch, models: Zoo) -> None:
    asked: list[AnalyzeOptions] = []

    def of(options: AnalyzeOptions) -> Zoo:
        asked.append(options)
        return models

    monkeypatch.setattr(Zoo, "of", of)
    options = SwapOptions(device="cpu", memory_limit=500)
    with pytest.raises(NoFaceError, match="no source photo"):
        Identity.from_images([], options=options)
    assert asked == [options]


def test_no_photo_at_all_is_an_error(models: Zoo) -> None:
    with pytest.raises(NoFaceError):
        Identity.from_images([], zoo=models)


def test_what_is_no_photo_is_an_error(models: Zoo, tmp_path: Path) -> None:
    path = tmp_path / "notes.jpg"
    path.write_text("no photo")
    with pytest.raises(MienError, match=r"notes\.jpg"):
        Identity.from_images([path], zoo=models)
