"""Adding files of the user's: the contract, names, and what a wrong file looks like."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mien.errors import ModelError, OptionsError
from mien.runtime.kept import sha256_of, write_json
from mien.zoo import install, lookalike
from mien.zoo.cards import ModelCard, Task, Weights
from mien.zoo.install import add
from mien.zoo.lookalike import lookalikes
from mien.zoo.probe import probe
from mien.zoo.registry import registry
from mien.zoo.store import Store
from tests.stand_ins import embedder, graph, node
from tests.standins import STANDINS, standin

ADDABLE = sorted(
    key for key, family in registry().items() if family.card.supply != "ships" and key[1] in STANDINS[key[0]]
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


def file(tmp_path: Path, task: Task, name: str) -> Path:
    path = tmp_path / f"{name}.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(standin(task, name))
    return path


@pytest.mark.parametrize(("task", "name"), ADDABLE)
def test_every_family_takes_a_file_of_its_contract(store: Store, tmp_path: Path, task: Task, name: str) -> None:
    installed = add(store, file(tmp_path, task, name), name).installed
    assert (installed.task, installed.name, installed.family) == (task, name, name)
    assert name in (lookalikes(store.path(installed), task) or ())


@pytest.mark.parametrize(
    ("task", "name", "family", "likely"),
    [
        ("embedder", "dlib_resnet", "arcface_w600k_r50", "dlib_resnet"),
        ("detector", "s3fd", "scrfd_10g", "s3fd"),
        ("detector", "s3fd", "arcface_w600k_r50", "s3fd"),
        ("landmarker", "2d106det", "1k3d68", "2d106det"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named_as_such(
    store: Store, tmp_path: Path, task: Task, name: str, family: str, likely: str
) -> None:
    path = file(tmp_path, task, name)
    with pytest.raises(ModelError) as caught:
        add(store, path, family)
    text = str(caught.value)
    assert text.startswith(f"{path}: is not {family}: expected ")
    assert text.endswith(f"; it looks like {likely}; add it --as {likely}")
    assert "\n" not in text and str(store.folder) not in text
    assert not [each for each in store.folder.rglob("*") if each.is_file()]


def test_a_file_that_fits_no_family(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(embedder(77))
    with pytest.raises(ModelError, match=r"x\.onnx: is not arcface_w600k_r50: expected .*; it fits no family of mien$"):
        add(store, path, "arcface_w600k_r50")


def test_a_file_of_the_right_shapes_that_gives_nonsense(store: Store, tmp_path: Path) -> None:
    model = onnx.load_from_string(standin("embedder", "arcface_w600k_r50"))
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.full_like(values, np.nan), tensor.name))
    path = tmp_path / "x.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError) as caught:
        add(store, path, "arcface_w600k_r50")
    assert str(caught.value) == (
        f"{path}: has the shapes of arcface_w600k_r50, but a test run failed: arcface_w600k_r50: the model gave values "
        "that are not finite; take another file"
    )
    assert add(store, path, "arcface_w600k_r50", run=False).installed.name == "arcface_w600k_r50"


def test_a_file_that_onnx_runtime_cannot_load(store: Store, tmp_path: Path) -> None:
    model = onnx.load_from_string(standin("embedder", "arcface_w600k_r50"))
    model.graph.node[0].op_type = "Nonsense"
    path = tmp_path / "x.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError) as caught:
        add(store, path, "arcface_w600k_r50")
    text = str(caught.value)
    assert text.startswith(f"{path}: cannot load the model (") and "Nonsense" in text
    assert text.endswith("; fetch it again, or export it anew") and str(store.folder) not in text


def test_a_file_known_by_its_sha256_as_another_model(store: Store, tmp_path: Path) -> None:
    card: ModelCard = registry()["detector", "yunet"].card
    assert card.weights is not None
    with pytest.raises(ModelError, match=r"yunet_n\.onnx: is yunet, by its sha256, not scrfd_10g; add it --as yunet"):
        add(store, card.weights.path, "scrfd_10g")


def test_another_file_than_the_usual_one_is_noted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, "embedder", "arcface_w600k_r50")
    data = path.read_bytes()
    family = registry()["embedder", "arcface_w600k_r50"]
    for sha256, notes in (
        (hashlib.sha256(data).hexdigest(), ()),
        ("", ()),
        ("0" * 64, ("it keeps the contract of arcface_w600k_r50, but is not the usual file (another sha256)",)),
    ):
        weights = Weights("w600k_r50.onnx", sha256, len(data), bundled=False)
        monkeypatch.setattr(family, "card", replace(family.card, weights=weights))
        assert add(store, path, "arcface_w600k_r50").notes == notes
        told = install.verify(store, "arcface_w600k_r50")
        assert told.ok and told.text == "; ".join(("is the file that was installed", *notes))


def test_a_name_of_ones_own(store: Store, tmp_path: Path) -> None:
    path = file(tmp_path, "embedder", "arcface_w600k_r50")
    add(store, path, "arcface_w600k_r50", "tom")
    for name, reason in (
        ("../tom", "cannot be a name"),
        ("a/b", "cannot be a name"),
        ("tom.onnx", "cannot be a name"),
        ("yunet", "is taken by the detector yunet"),
        ("scrfd_10g", "is taken by the detector scrfd_10g"),
        ("arcface_w600k_mbf", "is taken by the embedder arcface_w600k_mbf"),
        ("Tom", "is taken by the embedder tom"),
        ("YuNet", "is taken by the detector yunet"),
    ):
        with pytest.raises(OptionsError, match=rf"^--name '?{name}'?: {reason}"):
            add(store, path, "arcface_w600k_r50", name)
    with pytest.raises(OptionsError, match=r"^--name tom: is taken by the embedder tom; choose another name"):
        add(store, file(tmp_path, "detector", "scrfd_10g"), "scrfd_10g", "tom")
    assert [name for _, name in store.names()] == ["tom"]


def test_the_same_name_again_is_replaced_and_the_old_file_goes(store: Store, tmp_path: Path) -> None:
    first = add(store, file(tmp_path, "embedder", "arcface_w600k_r50"), "arcface_w600k_r50", "tom").installed
    path = tmp_path / "other.onnx"
    path.write_bytes(embedder(512))
    second = add(store, path, "arcface_w600k_r50", "tom").installed
    assert first.file != second.file
    assert store.find("embedder", "tom") == second
    assert {each.name for each in (store.folder / "embedder").iterdir()} == {"tom.json", second.file}


def test_what_was_made_of_a_file_goes_with_it(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path / "cache"))
    old, new = (file(tmp_path, "embedder", name) for name in ("arcface_w600k_r50", "arcface_glint_r100"))

    def made(content: Path) -> Path:
        """An engine of it."""
        folder = tmp_path / "cache" / "engines" / content.stem
        write_json(folder / "order.json", {"sha256": sha256_of(content)})
        return folder

    for name in ("tom", "jerry"):
        add(store, old, "arcface_w600k_r50", name, run=False)
    engine = made(old)
    install.remove(store, "jerry")
    assert engine.exists()  # tom is the same file
    add(store, new, "arcface_w600k_r50", "tom", run=False)
    assert not engine.exists()
    engine = made(new)
    install.remove(store, "tom")
    assert not engine.exists()


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("yunet", "^yunet: ships with mien; add your file under a name of its own with --name$"),
        ("texture", "^texture: ships with mien; add your file under a name of its own with --name$"),
        ("scrfd", "^no model is called 'scrfd'; did you mean scrfd_"),
    ],
)
def test_families_that_take_no_file(store: Store, tmp_path: Path, family: str, reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        add(store, file(tmp_path, "detector", "scrfd_10g"), family)


def endless(name: str) -> bytes:
    """Maps (1, 512) to itself, 2⁶² times over."""
    outputs = [("more", TensorProto.BOOL, ()), ("out", TensorProto.FLOAT, (1, 512))]
    inputs = [("i", TensorProto.INT64, ()), ("on", TensorProto.BOOL, ()), ("in", TensorProto.FLOAT, (1, 512))]
    body = helper.make_graph(
        [node("Identity", ["on"], "more"), node("Identity", ["in"], "out")], "body",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
    )  # fmt: skip
    loop = node("Loop", ["times", "true", "x"], name, body=body)
    return graph([loop], {"x": (1, 512)}, {name: (1, 512)}, times=np.array(2**62), true=np.array(True))


def test_a_file_that_never_ends(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookalike, "LIMIT", 0.5)
    path = tmp_path / "x.onnx"
    path.write_bytes(endless("y"))
    with pytest.raises(ModelError) as caught:
        add(store, path, "crossface_ghost")
    assert str(caught.value) == (
        f"{path}: has the shapes of crossface_ghost, but a test run gave nothing in 0.5 seconds; take another file, or "
        "pass --no-run if it is only slow here"
    )
    assert not [each for each in store.folder.rglob("*") if each.is_file()]
    for thread in [each for each in threading.enumerate() if each.name == "mien-trial"]:
        thread.join(20)  # the inference was ended
        assert not thread.is_alive()


def test_a_file_that_never_opens(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    family = registry()["embedder", "arcface_w600k_r50"]
    monkeypatch.setattr(family, "__init__", lambda *_: pytest.fail("late") if not release.wait(60) else None)
    monkeypatch.setattr(lookalike, "LIMIT", 0.2)
    path = file(tmp_path, "embedder", "arcface_w600k_r50")
    try:
        with pytest.raises(ModelError) as caught:
            add(store, path, "arcface_w600k_r50")
    finally:
        release.set()
    assert str(caught.value) == f"{path}: was not open after 0.2 seconds; take another file"


def test_nobody_waits_for_a_test_run(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow(task: Task, model: Any) -> None:
        if not begun.is_set():
            begun.set()
            assert release.wait(60)
        probe(task, model)

    monkeypatch.setattr(lookalike, "probe", slow)
    first, second = (file(tmp_path / each, "embedder", "arcface_w600k_r50") for each in "ab")
    thread = threading.Thread(target=add, args=(store, first, "arcface_w600k_r50"))
    thread.start()
    try:
        assert begun.wait(60)
        add(store, second, "arcface_w600k_r50", waiting=lambda: pytest.fail("it is locked"))
    finally:
        release.set()
        thread.join(60)
    assert len([each for each in store.folder.rglob("*") if each.is_file()]) == 2


def test_lookalikes_are_told_in_short() -> None:
    assert lookalike._either(("a",)) == "a"
    assert lookalike._either(("a", "b", "c")) == "a, b or c"
    assert lookalike._either(("a", "b", "c", "d")) == "a, b, c or others"
