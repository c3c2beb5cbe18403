"""The folder of users' weights: what lies there, whatever state it is in."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mien.errors import ModelError, OptionsError, OutputError
from mien.zoo.install import add, find, remove, verify
from mien.zoo.registry import Zoo
from mien.zoo.store import Installed, Store, cache_folder, is_name
from tests.standins import standin


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache" / "models")


@pytest.fixture
def arcface(tmp_path: Path) -> Path:
    path = tmp_path / "w600k_r50.onnx"
    path.write_bytes(standin("embedder", "arcface_w600k_r50"))
    return path


def files(store: Store) -> list[str]:
    return sorted(str(path.relative_to(store.folder)) for path in store.folder.rglob("*") if path.is_file())


def test_an_added_file_is_found_verified_and_removed(store: Store, arcface: Path) -> None:
    installed = add(store, arcface, "arcface_w600k_r50").installed
    assert store.find("embedder", "arcface_w600k_r50") == installed
    assert dict(store.all()) == {("embedder", "arcface_w600k_r50"): installed}
    assert files(store) == [
        f"embedder/arcface_w600k_r50.{installed.sha256[:16]}.onnx", "embedder/arcface_w600k_r50.json"
    ]  # fmt: skip
    assert store.path(installed).read_bytes() == arcface.read_bytes()
    assert verify(store, "arcface_w600k_r50").ok
    remove(store, "arcface_w600k_r50")
    assert files(store) == [] and store.find("embedder", "arcface_w600k_r50") is None
    with pytest.raises(OptionsError, match=r"^arcface_w600k_r50: is not installed; `mien models list --installed`"):
        remove(store, "arcface_w600k_r50")


def test_an_empty_store_holds_nothing_and_is_not_made(store: Store) -> None:
    assert dict(store.all()) == {} and store.names() == () and store.find("swapper", "x") is None
    assert not store.folder.exists()


def test_a_zoo_sees_what_is_added_after_it_was_made(store: Store, arcface: Path) -> None:
    zoo = Zoo("cpu", store=store)
    with pytest.raises(OptionsError, match=r"^arcface_w600k_r50 is not installed; run `mien models pull arcface"):
        zoo.load("embedder", "arcface_w600k_r50")
    with pytest.raises(OptionsError, match="no embedder is called 'tom'"):
        zoo.load("embedder", "tom")
    add(store, arcface, "arcface_w600k_r50")
    add(store, arcface, "arcface_w600k_r50", "tom")
    assert zoo.load("embedder", "arcface_w600k_r50").card.name == "arcface_w600k_r50"
    card = zoo.load("embedder", "tom").card
    assert (card.name, card.weights.size) == ("tom", arcface.stat().st_size)


def test_a_store_can_be_moved(store: Store, arcface: Path, tmp_path: Path) -> None:
    add(store, arcface, "arcface_w600k_r50")
    moved = Store(Path(shutil.move(store.folder, tmp_path / "anders wö ☂")))
    assert verify(moved, "arcface_w600k_r50").ok
    Zoo("cpu", store=moved).load("embedder", "arcface_w600k_r50")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"name": "tom"}', "\x00\xff", '{"unknown": 1}'],
)
def test_a_damaged_description_is_one_error_and_hides_nothing_else(store: Store, arcface: Path, text: str) -> None:
    add(store, arcface, "arcface_w600k_r50", "tom")
    add(store, arcface, "arcface_w600k_r50", "jerry")
    path = store.folder / "embedder" / "tom.json"
    path.write_bytes(text.encode("latin-1"))
    line = f"{path}: cannot be read; `mien models remove tom`, then add it again"
    with pytest.raises(ModelError) as caught:
        store.find("embedder", "tom")
    assert str(caught.value) == line
    assert verify(store, "tom").text == line and not verify(store, "tom").ok
    assert [name for _, name in store.all()] == ["jerry"]
    remove(store, "tom")
    assert store.find("embedder", "tom") is None and store.find("embedder", "jerry") is not None
    assert len(files(store)) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../../../etc/hostname"},
        {"file": 3},
        {"size": "3"},
        {"task": "nose"},
        {"task": "swapper"},
        {"name": "other"},
        {"sha256": None},
    ],
)
def test_a_description_of_something_else_is_damaged(store: Store, arcface: Path, change: dict[str, object]) -> None:
    installed = add(store, arcface, "arcface_w600k_r50", "tom").installed
    path = store.folder / "embedder" / "tom.json"
    path.write_text(json.dumps({**asdict(installed), **change}))
    with pytest.raises(ModelError, match=r"tom\.json: cannot be read"):
        store.find("embedder", "tom")


def test_verify_names_what_is_wrong(store: Store, arcface: Path) -> None:
    installed = add(store, arcface, "arcface_w600k_r50", "tom").installed
    path, again = store.path(installed), "`mien models remove tom`, then pull or add it again"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert verify(store, "tom").text == f"{path}: is damaged (another sha256); {again}"
    path.write_bytes(data[:-1])
    assert verify(store, "tom").text == f"{path}: is damaged ({len(data) - 1} bytes of {len(data)}); {again}"
    path.unlink()
    assert verify(store, "tom").text == f"{path}: cannot be read (No such file or directory); {again}"
    path.write_bytes(data)
    with store.changing("embedder", "tom"):
        store.install(replace(installed, family="gone"))
    assert verify(store, "tom").text.endswith("is of the family gone, which this mien does not know; update mien")


def test_verify_knows_what_ships(store: Store) -> None:
    assert verify(store, "yunet").text == "is the file that shipped"
    assert verify(store, "texture").text == "is the file that shipped"
    with pytest.raises(OptionsError, match=r"^scrfd_10g: is not installed; run `mien models pull scrfd_10g`$"):
        verify(store, "scrfd_10g")
    with pytest.raises(OptionsError, match=r"^no model is called 'yunett'; did you mean yunet"):
        verify(store, "yunett")
    with pytest.raises(OptionsError, match=r"^no model is called '../../x'; `mien models list` shows all$"):
        find(store, "../../x")


@pytest.mark.parametrize("name", ["yunet", "texture"])
def test_what_ships_cannot_be_removed(store: Store, name: str) -> None:
    with pytest.raises(OptionsError, match=f"^{name}: ships with mien and cannot be removed"):
        remove(store, name)


def test_names() -> None:
    assert all(map(is_name, ["tom", "Tom_2.0-b", "2", "x" * 64]))
    bad = ["", ".", "..", ".tom", "a/b", "a\\b", "tom.onnx", "tom.json", "tom.", "x" * 65, "tom~1", "é", "a b", "-f"]
    assert not any(map(is_name, bad))


def test_a_name_never_leads_out_of_the_store(store: Store, tmp_path: Path) -> None:
    outside = Installed("x", "embedder", "arcface_w600k_r50", "x.onnx", "", 0)
    store.folder.mkdir(parents=True)
    (tmp_path / "cache" / "x.json").write_text(store.describe(outside))
    assert store.find("embedder", "../../x") is None


def test_a_folder_that_cannot_be_made_is_an_output_error(arcface: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "models")
    assert store.find("embedder", "arcface_w600k_r50") is None
    with pytest.raises(OutputError, match=r"cannot be written \(.*\); free space, or choose another cache folder with"):
        add(store, arcface, "arcface_w600k_r50")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_may_only_be_read_is_read(store: Store, arcface: Path) -> None:
    add(store, arcface, "arcface_w600k_r50", "tom")
    folder = store.folder / "embedder"
    folder.chmod(0o555)
    try:
        assert verify(store, "tom").ok
        with pytest.raises(OutputError, match=r"cannot be written \(Permission denied\)"):
            add(store, arcface, "arcface_w600k_r50")
        with pytest.raises(OutputError, match=r"cannot be written \(Permission denied\)"):
            remove(store, "tom")
        assert verify(store, "tom").ok
    finally:
        folder.chmod(0o755)


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == Path(os.environ["MIEN_CACHE"])
    monkeypatch.delenv("MIEN_CACHE")
    assert cache_folder() == tmp_path / "mien"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == Path.home() / ".cache" / "mien"


@pytest.mark.skipif(sys.platform == "win32", reason="the home folder is found otherwise")
def test_a_user_without_a_home_folder_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("MIEN_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(
        OutputError, match=r"^this user has no home folder to keep models in; name a folder in MIEN_CACH"
    ):
        Zoo("cpu")
