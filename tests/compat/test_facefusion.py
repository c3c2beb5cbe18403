from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

import mien
from mien.compat.facefusion import FaceSwapper, load_image, save_image
from mien.errors import DeviceError, InputError, MediaError, ModelError, NoFaceError, OptionsError, OutputError
from mien.faces import FaceFinder
from mien.runtime.prepare import Preparation
from mien.types import ByteArray, Face
from mien.zoo.registry import Zoo
from tests.standins import standin


@pytest.fixture(scope="module")
def pair(portraits: Path) -> tuple[ByteArray, ByteArray]:
    return load_image(portraits / "female_031.jpg"), load_image(portraits / "female_001.jpg")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with an inswapper and the embedder that it needs."""
    (tmp_path / "inswapper_128.onnx").write_bytes(standin("swapper", "inswapper_128"))
    (tmp_path / "arcface_w600k_r50.onnx").write_bytes(standin("embedder", "arcface_w600k_r50"))
    return tmp_path


def only_face(zoo: Zoo, image: ByteArray) -> Face:
    (face,) = FaceFinder(zoo).find_in_image(np.ascontiguousarray(image[:, :, ::-1]))
    return face


def test_forward_puts_the_source_on_the_target(pair: tuple[ByteArray, ByteArray], models: Zoo) -> None:
    source, target = pair
    before = (source.copy(), target.copy())
    swapper = FaceSwapper(None).to("cpu")
    result = swapper.forward(source, target)
    np.testing.assert_array_equal(source, before[0])
    np.testing.assert_array_equal(target, before[1])
    assert result.shape == target.shape and result.dtype == np.uint8
    who, was, now = (only_face(models, image) for image in (source, target, result))
    assert mien.cosine_similarity(now, who) > 0.5 > 0.3 > mien.cosine_similarity(was, who)
    changed = (result != target).any(2)
    x0, y0, x1, y1 = (int(v) for v in (*was.mesh[:, :2].min(0) - 3, *was.mesh[:, :2].max(0) + 4))
    assert changed[y0:y1, x0:x1].mean() > 0.3
    changed[y0:y1, x0:x1] = False
    assert not changed.any()
    np.testing.assert_array_equal(swapper(source, target), result)


def test_it_is_the_swap_of_files(
    pair: tuple[ByteArray, ByteArray], portraits: Path, tmp_path: Path, models: Zoo
) -> None:
    output = tmp_path / "result.png"
    mien.swap(portraits / "female_031.jpg", portraits / "female_001.jpg", output, zoo=models)
    result = FaceSwapper("default", "cpu").forward(*pair)
    # A photo's own planes are edited there, RGB here.
    assert np.abs(result.astype(int) - load_image(output)).mean() < 0.5


def test_options_reach_the_swap(pair: tuple[ByteArray, ByteArray]) -> None:
    source, target = pair
    plain, toned = (FaceSwapper(device="cpu", skin_tone=tone).forward(source, target) for tone in (0.0, 1.0))
    assert np.abs(plain.astype(int) - toned).max() > 10
    with pytest.raises(OptionsError, match="no option is called 'skin_tint'; did you mean skin_tone"):
        FaceSwapper(skin_tint=1)


def test_options_reach_the_models() -> None:
    swapper = FaceSwapper(device="cpu", memory_limit=500, precision="fp32")
    for zoo in (swapper._zoo, swapper.to("cpu")._zoo):
        assert zoo._runtime.pool.limit == 500_000_000
        assert isinstance(zoo._runtime.prepare, Preparation) and zoo._runtime.prepare.precision == "fp32"


def test_several_photos_make_one_source(pair: tuple[ByteArray, ByteArray]) -> None:
    source, target = pair
    swapper = FaceSwapper(device="cpu")
    both = swapper.forward([source, np.ascontiguousarray(source[:, ::-1])], target)
    assert (both != swapper.forward(source, target)).any()


def test_a_users_file_swaps_with_what_lies_beside_it(pair: tuple[ByteArray, ByteArray], own: Path) -> None:
    source, target = pair
    result = FaceSwapper(own / "inswapper_128.onnx").to("cpu").forward(source, target)
    changed = (result != target).any(2)
    assert 0.02 < changed.mean() < 0.5
    # Another source changes what comes out: its embedding reaches the network.
    other = FaceSwapper(own / "inswapper_128.onnx", "cpu").forward(target, target)
    assert (other != result).any()


def test_a_file_is_known_by_its_name_or_its_shapes(own: Path) -> None:
    renamed = own / "mine.onnx"
    renamed.write_bytes(standin("swapper", "simswap_unofficial_512"))
    assert FaceSwapper(renamed).name == "simswap_unofficial_512"
    assert FaceSwapper(own / "inswapper_128.onnx").name == "inswapper_128"
    renamed.write_bytes(standin("swapper", "ghost_1_256"))
    with pytest.raises(OptionsError, match=r"mine\.onnx: may be any of .*ghost_1_256.*; name the file after"):
        FaceSwapper(renamed)
    renamed.write_bytes(standin("embedder", "arcface_w600k_r50"))
    with pytest.raises(OptionsError, match=r"mine\.onnx: fits no swapper that mien knows"):
        FaceSwapper(renamed)
    renamed.write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"mine\.onnx: cannot be opened"):
        FaceSwapper(renamed)
    (own / "ghost_1_256.onnx").write_bytes(standin("embedder", "arcface_w600k_r50"))
    with pytest.raises(ModelError, match=r"ghost_1_256\.onnx: is not ghost_1_256"):
        FaceSwapper(own / "ghost_1_256.onnx")


def test_what_is_missing_is_told(pair: tuple[ByteArray, ByteArray], own: Path) -> None:
    (own / "arcface_w600k_r50.onnx").unlink()
    with pytest.raises(OptionsError, match="arcface_w600k_r50 is not installed; run"):
        FaceSwapper(own / "inswapper_128.onnx", "cpu").forward(*pair)
    with pytest.raises(OptionsError, match=r"gone\.onnx: does not exist"):
        FaceSwapper(own / "gone.onnx")
    with pytest.raises(OptionsError, match="hyperswap_1a_256 is not installed"):
        FaceSwapper("hyperswap_1a_256", "cpu").forward(*pair)
    with pytest.raises(OptionsError, match="no device is called 'gpu'"):
        FaceSwapper().to("gpu")
    with pytest.raises(DeviceError, match="cuda"):
        FaceSwapper().to("cuda").forward(*pair)


def test_pictures_without_faces(pair: tuple[ByteArray, ByteArray]) -> None:
    grey = np.full((200, 200, 3), 128, np.uint8)
    swapper = FaceSwapper(device="cpu")
    with pytest.raises(NoFaceError, match=r"^source: no face"):
        swapper.forward(grey, pair[1])
    with pytest.raises(NoFaceError, match=r"^target: no face"):
        swapper.forward(pair[0], grey)
    for wrong in (grey[:, :, 0], grey.astype(np.float32)):
        with pytest.raises(InputError, match=r"^target: not an H×W×3 uint8 array in BGR"):
            swapper.forward(pair[0], wrong)  # type: ignore[arg-type]


def test_pictures_are_read_and_written_in_bgr(tmp_path: Path) -> None:
    image = np.zeros((20, 30, 3), np.uint8)
    image[..., 0], image[:10, :, 2] = 200, 90
    for ending in (".png", ".PNG", ".bmp", ".tif"):
        save_image(image, tmp_path / f"a{ending}")
        np.testing.assert_array_equal(load_image(tmp_path / f"a{ending}"), image)
    save_image(image, tmp_path / "a.jpg")
    assert np.abs(load_image(tmp_path / "a.jpg").astype(int) - image).mean() < 4
    stored = cv2.imread(str(tmp_path / "a.png"))
    assert stored is not None
    np.testing.assert_array_equal(stored, image)


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(MediaError):
        load_image(tmp_path / "none.png")
    image = np.zeros((4, 4, 3), np.uint8)
    for name in ("a.moose", "a"):
        with pytest.raises(InputError, match="not a picture's format"):
            save_image(image, tmp_path / name)
    with pytest.raises(OutputError, match="does not exist"):
        save_image(image, tmp_path / "none" / "a.png")
    assert list(tmp_path.iterdir()) == []
