"""Files that are no ONNX files, or not whole: each is told what it is, and nothing is left of it in the store."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from mien.errors import InputError
from mien.zoo import intake
from mien.zoo.install import add
from mien.zoo.registry import Zoo
from mien.zoo.store import Store
from tests.standins import standin

FAMILY = "arcface_w600k_r50"
GOOD = standin("embedder", FAMILY)
LATER = "it would have to be exported to ONNX first"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


def refused(store: Store, path: Path) -> str:
    """The error's text after the path, once it is sure that nothing was installed."""
    with pytest.raises(InputError) as caught:
        add(store, path, FAMILY)
    assert not [each for each in store.folder.rglob("*") if each.is_file()]
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty; fetch it again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n",
            "is only a Git LFS pointer to the weights; run `git lfs pull` there, or download the file itself",
        ),
        (
            b"\n<!DOCTYPE html><html><head>",
            "is a web page, not weights; open its address in a browser and download the file itself",
        ),
        (b'{"error": "not found"}', "is JSON, not weights; fetch the file again"),
        (
            b"PK\x03\x04" + bytes(600),
            "is a zip archive or a PyTorch checkpoint, not an ONNX file; unpack it, or if it is a checkpoint, " + LATER,
        ),
        (b"\x80\x02\x8a\nl\xfc", f"is a PyTorch checkpoint, not an ONNX file; {LATER}"),
        (b"\x1c\x00\x00\x00TFL3....", f"is a TensorFlow Lite file, not an ONNX file; {LATER}"),
        (b"\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":", f"is a safetensors file, not an ONNX file; {LATER}"),
        (b"\x1f\x8b\x08\x00", "is a gzip archive, not an ONNX file; unpack it"),
        (b"\x18\x00\x00\x00ORTM", "is an ONNX Runtime (.ort) file, not an ONNX file; take the .onnx file that"),
        (GOOD[: len(GOOD) // 2], "is no ONNX file, or is cut short or damaged; fetch it again"),
        (GOOD[:-1], "is no ONNX file, or is cut short or damaged; fetch it again"),
        (b"\x08\x08", "is no ONNX file, or one without a network; fetch it again"),
        (b"just some words", "is no ONNX file, or is cut short or damaged; fetch it again"),
    ],
)  # fmt: skip
def test_what_is_no_onnx_file(store: Store, tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    assert refused(store, path).startswith(reason)


def test_random_bytes_are_no_onnx_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for seed in range(30):
        path.write_bytes(np.random.default_rng(seed).bytes(3000))
        assert refused(store, path).startswith("is ")


def test_a_file_larger_than_any_onnx_file_is_refused_before_it_is_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with path.open("wb") as file:
        file.write(GOOD)
        file.truncate(1 << 40)
    assert refused(store, path) == "holds 1099.5 GB, more than any ONNX file; choose another file"


def test_a_folder_a_missing_file_a_pipe_and_links_that_lead_nowhere(store: Store, tmp_path: Path) -> None:
    assert refused(store, tmp_path) == "is a folder; name the .onnx file in it"
    assert refused(store, tmp_path / "none.onnx") == "does not exist; check the path"
    (tmp_path / "file").write_bytes(GOOD)
    assert refused(store, tmp_path / "file" / "net.onnx") == "does not exist; check the path"
    (tmp_path / "nowhere").symlink_to("gone")
    assert refused(store, tmp_path / "nowhere") == "is a link that leads nowhere; check the path"
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read (Too many levels of symbolic links)" in refused(store, tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    assert refused(store, tmp_path / "pipe") == "is no regular file; copy it to one first"
    assert refused(store, Path("x" * 5000)).startswith("cannot be read (File name too long)")


def test_a_link_to_a_good_file_is_followed_and_the_copy_is_no_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(GOOD)
    (tmp_path / "net.onnx").symlink_to("blob")
    path = store.path(add(store, tmp_path / "net.onnx", FAMILY).installed)
    assert not path.is_symlink() and path.read_bytes() == GOOD


@pytest.mark.parametrize("name", ["net", "net.bin", "Netz mit Leerzeichen ü.onnx", "net.dfm"])
def test_the_content_counts_not_the_name(store: Store, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(GOOD)
    assert add(store, tmp_path / name, FAMILY).installed.size == len(GOOD)


def test_the_copy_is_whole_and_hashed_as_it_was_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(GOOD)
    assert intake.copy(tmp_path / "a", tmp_path / "b") == (hashlib.sha256(GOOD).hexdigest(), len(GOOD))
    assert (tmp_path / "b").read_bytes() == GOOD


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """An ONNX file with its weights in another."""
    model = onnx.load_from_string(GOOD)
    large = numpy_helper.from_array(np.zeros((64, 64), np.float32), "unused")
    model.graph.initializer.append(large)
    path = tmp_path / "split" / "net.onnx"
    path.parent.mkdir()
    onnx.save(
        model, path, save_as_external_data=True, location="net.onnx.data", size_threshold=0, convert_attribute=False
    )
    assert (path.parent / "net.onnx.data").stat().st_size >= 64 * 64 * 4
    return path


def test_weights_in_another_file_come_in(store: Store, split: Path) -> None:
    installed = add(store, split, FAMILY, "tom").installed
    assert installed.size > 64 * 64 * 4
    (split.parent / "net.onnx.data").unlink()
    crops = np.random.default_rng(1).integers(0, 255, (1, 112, 112, 3), np.uint8)
    found = Zoo("cpu", store=store).load("embedder", "tom")(crops)
    (split.parent / "good.onnx").write_bytes(GOOD)
    add(store, split.parent / "good.onnx", FAMILY)
    np.testing.assert_array_equal(found, Zoo("cpu", store=store).load("embedder", FAMILY)(crops))


def test_weights_in_another_file_that_is_not_there(store: Store, split: Path) -> None:
    (split.parent / "net.onnx.data").rename(split.parent / "other")
    wanted = "its weights lie in net.onnx.data, which cannot be read; put it beside the file"
    assert refused(store, split) == wanted
    (split.parent / "net.onnx.data").write_bytes(b"short")
    assert refused(store, split) == wanted


def test_weights_never_come_from_outside_the_files_folder(store: Store, split: Path, tmp_path: Path) -> None:
    (split.parent / "net.onnx.data").rename(tmp_path / "secret")
    model = onnx.load(split, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../secret"
    split.write_bytes(model.SerializeToString())
    assert refused(store, split).startswith("its weights lie in ../secret, which cannot be read")


@pytest.mark.parametrize(("place", "sizes"), [("input", (3, 1 << 15, 1 << 15)), ("output", (1 << 30,))])
def test_what_would_fill_the_memory_is_not_run(
    store: Store, tmp_path: Path, place: str, sizes: tuple[int, ...]
) -> None:
    model = onnx.load_from_string(GOOD)
    (value,) = getattr(model.graph, place)
    for dim, size in zip(value.type.tensor_type.shape.dim[1:], sizes, strict=True):
        dim.dim_value = size
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    shape = "×".join(map(str, sizes))
    reason = f"declares {value.name} of ?×{shape} values, more than any model needs; take another file"
    assert refused(store, path) == reason


def test_sparse_weights_that_would_fill_the_memory(store: Store, tmp_path: Path) -> None:
    model = onnx.load_from_string(GOOD)
    values = numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "indices")
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [1 << 20, 1 << 20]))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    assert refused(store, path).startswith("declares sparse of 1048576×1048576 values, more than")
