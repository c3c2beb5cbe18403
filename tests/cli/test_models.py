from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from mien.zoo.cards import TASKS, Weights
from mien.zoo.registry import registry
from tests.servers import serving
from tests.standins import standin

from .conftest import Mien

PROMISED = {"name", "task", "licence", "commercial", "installed", "size", "origin"}
MORE = {"family", "bundled", "supply", "file", "sha256", "path", "next_step", "needs"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, with a name as users have them."""
    folder = tmp_path / "Ünï cödé 顔" / "cache"
    monkeypatch.setenv("MIEN_CACHE", str(folder))
    for name in ("MIEN_MIRROR", "MIEN_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def own(tmp_path: Path, cache: Path) -> Path:
    """A file of the user's that does what yunet does and has another sha256."""
    weights = registry()["detector", "yunet"].card.weights
    model = onnx.load(weights.path)
    model.producer_name = "the user"
    path = tmp_path / "my files" / "Gesicht é.onnx"
    path.parent.mkdir()
    path.write_bytes(model.SerializeToString())
    return path


def test_json_is_an_array_with_every_model(mien: Mien, cache: Path) -> None:
    result = mien("models", "list", "--json")
    rows = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert {(row["task"], row["name"]) for row in rows} == set(registry())
    assert all(set(row) == PROMISED | MORE for row in rows)


def test_json_tells_what_the_cards_tell(mien: Mien, cache: Path) -> None:
    rows = {row["name"]: row for row in json.loads(mien("models", "list", "--json").out)}
    card = registry()["detector", "yunet"].card
    assert rows["yunet"] == {
        "name": "yunet",
        "task": "detector",
        "licence": card.licence,
        "commercial": True,
        "installed": True,
        "size": card.weights.path.stat().st_size,
        "origin": card.origin,
        "family": "yunet",
        "bundled": True,
        "supply": "ships",
        "file": "yunet_n.onnx",
        "sha256": card.weights.sha256,
        "path": str(card.weights.path),
        "next_step": "",
        "needs": [],
    }
    assert rows["texture"]["file"] == "swapgan.onnx" and rows["texture"]["installed"]


def test_what_is_not_installed_says_how_to_change_that(mien: Mien, cache: Path) -> None:
    rows = {row["name"]: row for row in json.loads(mien("models", "list", "--json").out)}
    wanted = {
        "scrfd_10g": ("pull", "run `mien models pull scrfd_10g`"),
        "s3fd": ("add", f"get s3fd.onnx ({rows['s3fd']['origin']}), then run `mien models add FILE --as s3fd`"),
    }
    for name, (supply, step) in wanted.items():
        row = rows[name]
        assert not row["installed"] and not row["bundled"] and row["path"] == ""
        assert (row["supply"], row["next_step"]) == (supply, step)


def test_the_table_is_grouped_by_task_and_fits_100_columns(mien: Mien, cache: Path) -> None:
    lines = mien("models", "list").out.splitlines()
    assert lines[0].split() == ["name", "how", "size", "commercial", "use", "licence"]
    found, task = set(), ""
    for line in lines[1:]:
        if line in TASKS:
            task = line
        else:
            found.add((task, line.split()[0]))
    assert found == set(registry())
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line in TASKS] == [task for task in TASKS if any(task == t for t, _ in found)]


def test_filters(mien: Mien, cache: Path) -> None:
    rows = json.loads(mien("models", "list", "--task", "embedder", "--json").out)
    assert {row["task"] for row in rows} == {"embedder"} and len(rows) > 1
    rows = json.loads(mien("models", "list", "--installed", "--json").out)
    assert all(row["bundled"] for row in rows)
    assert {"yunet", "texture"} <= {row["name"] for row in rows}
    result = mien("models", "list", "--task", "nose")
    assert result.code == 2 and 'Invalid value "nose" for --task' in result.err


def test_a_file_of_the_users_is_added_under_a_name_of_its_own(mien: Mien, cache: Path, own: Path) -> None:
    result = mien("models", "add", own, "--as", "yunet", "--name", "tom")
    (file,) = (cache / "models" / "detector").glob("*.onnx")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "tom: licence Apache-2.0, commercial use allowed, from https://github.com/ShiqiYu/libfacedetection.train",
        f"tom: installed, {file}",
        "note: it keeps the contract of yunet, but is not the usual file (another sha256)",
    ]
    assert file.read_bytes() == own.read_bytes()
    row = next(row for row in json.loads(mien("models", "list", "--json").out) if row["name"] == "tom")
    assert row["family"] == "yunet" and row["installed"] and not row["bundled"]
    assert (row["size"], row["path"]) == (own.stat().st_size, str(file))
    assert any(line.split()[:3] == ["tom", "(yunet)", "installed"] for line in mien("models", "list").out.splitlines())


def test_a_file_of_the_users_can_be_verified_used_and_removed(
    mien: Mien, cache: Path, own: Path, examples: Path
) -> None:
    mien("models", "add", own, "--as", "yunet", "--name", "tom")
    assert mien("models", "verify", "tom").out == "ok       tom: is the file that was installed\n"
    assert mien("analyze", examples / "target.jpg", "--detector", "tom").code == 0
    assert mien("models", "remove", "tom").out == "tom: removed\n"
    assert list((cache / "models" / "detector").iterdir()) == []
    result = mien("models", "verify", "tom")
    assert (result.code, result.out) == (2, "") and "no model is called 'tom'" in result.err


def test_info_tells_all(mien: Mien, cache: Path, own: Path) -> None:
    mien("models", "add", own, "--as", "yunet", "--name", "tom")
    lines = dict(line.split(":", 1) for line in mien("models", "info", "tom").out.splitlines())
    assert {key: text.strip() for key, text in lines.items() if key not in ("installed", "sha256")} == {
        "name": "tom",
        "task": "detector",
        "family": "yunet",
        "licence": "Apache-2.0",
        "commercial use": "yes",
        "origin": "https://github.com/ShiqiYu/libfacedetection.train",
        "file": "yunet_n.onnx",
        "size": f"{own.stat().st_size / 1e6:.1f} MB",
    }
    assert lines["installed"].strip().startswith(f"yes, {cache}")
    text = mien("models", "info", "scrfd_10g").out
    assert "to install:     run `mien models pull scrfd_10g`\n" in text and "installed:      no\n" in text
    assert json.loads(mien("models", "info", "texture", "--json").out)["name"] == "texture"
    result = mien("models", "info", "scrfd_10")
    assert result.code == 2 and result.err.startswith("mien: no model is called 'scrfd_10'; did you mean scrfd_10g")


def test_a_wrong_file_is_told_what_it_is(mien: Mien, cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "w600k.onnx"
    file.write_bytes(standin("embedder", "arcface_w600k_r50"))
    result = mien("models", "add", file, "--as", "scrfd_10g")
    assert result.code == 1 and result.out == ""
    assert result.err.startswith(f"mien: {file}: is not scrfd_10g: ")
    assert "it looks like arcface_glint_r100, arcface_w600k_mbf or arcface_w600k_r50; add it --as " in result.err
    assert result.err.count("\n") == 1
    assert list((cache / "models" / "detector").iterdir()) == []


def test_verify_finds_damage_in_all_models_and_exits_1(mien: Mien, cache: Path, own: Path) -> None:
    mien("models", "add", own, "--as", "yunet", "--name", "tom")
    assert mien("models", "verify").code == 0
    (file,) = (cache / "models" / "detector").glob("*.onnx")
    file.write_bytes(own.read_bytes()[:-1])
    result = mien("models", "verify")
    assert result.code == 1
    size = own.stat().st_size
    assert (
        f"damaged  tom: {file}: is damaged ({size - 1} bytes of {size}); `mien models remove tom`, then pull or add it "
        "again" in result.out.splitlines()
    )
    assert [line for line in result.out.splitlines() if not line.startswith("ok")] != []
    found = {row["name"]: row["ok"] for row in json.loads(mien("models", "verify", "--json").out)}
    assert found.pop("tom") is False and all(found.values()) and "yunet" in found


def test_what_was_made_of_models_is_cleaned_away(mien: Mien, cache: Path, own: Path) -> None:
    assert mien("models", "clean").out == "freed 0.0 MB\n"
    assert mien("models", "add", str(own), "--as", "yunet", "--name", "tom", "--no-run").code == 0
    for name in ("prepared/half/a.onnx", "engines/b/model.engine"):
        (cache / name).parent.mkdir(parents=True)
        (cache / name).write_bytes(bytes(1_000_000))
    assert mien("models", "clean").out == "freed 2.0 MB\n"
    assert sorted(path.name for path in cache.iterdir()) == ["models"]
    assert mien("models", "verify", "tom").code == 0


def test_a_damaged_description_is_told_and_can_be_removed(mien: Mien, cache: Path, own: Path) -> None:
    mien("models", "add", own, "--as", "yunet", "--name", "tom")
    path = cache / "models" / "detector" / "tom.json"
    path.write_text('{"name": ')
    line = f"{path}: cannot be read; `mien models remove tom`, then add it again"
    assert mien("models", "info", "tom").err == f"mien: {line}\n"
    result = mien("models", "verify")
    assert result.code == 1 and f"damaged  tom: {line}" in result.out.splitlines()
    assert mien("models", "list").code == 0
    assert mien("models", "remove", "tom").code == 0
    assert list(path.parent.iterdir()) == []


def test_a_run_with_a_model_that_is_not_installed_says_what_to_run(mien: Mien, cache: Path, examples: Path) -> None:
    result = mien("analyze", examples / "target.jpg", "--detector", "scrfd_10g")
    assert (result.code, result.err) == (2, "mien: scrfd_10g is not installed; run `mien models pull scrfd_10g`\n")


def test_help_names_the_variables_of_the_environment(mien: Mien) -> None:
    text = mien("models", "--help").out
    assert all(name in text for name in ("MIEN_CACHE", "MIEN_MIRROR", "MIEN_OFFLINE", "HTTPS_PROXY"))


def test_what_a_model_needs_is_told(mien: Mien, cache: Path, tmp_path: Path) -> None:
    assert "needs:          arcface_w600k_r50, crossface_ghost\n" in mien("models", "info", "ghost_1_256").out
    (tmp_path / "net.onnx").write_bytes(standin("swapper", "ghost_1_256"))
    notes = mien("models", "add", tmp_path / "net.onnx", "--as", "ghost_1_256").out.splitlines()[-2:]
    start = "note: ghost_1_256 needs"
    assert notes[0].startswith(f"{start} arcface_w600k_r50 too, which is not installed; run `mien models pull arcface_")
    assert notes[1].startswith(f"{start} crossface_ghost too, which is not installed; ")
    assert notes[1].endswith("run `mien models add FILE --as crossface_ghost`")


def test_what_is_pulled_says_its_licence_and_can_be_used(
    mien: Mien, cache: Path, own: Path, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = own.read_bytes()
    family = registry()["detector", "yunet_2023mar"]
    monkeypatch.setattr(family, "__init__", registry()["detector", "yunet"].__init__)
    monkeypatch.setattr(family, "__call__", registry()["detector", "yunet"].__call__)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving({"yunet.onnx": data, "mirror/face.onnx": data}) as server:
        weights = Weights(
            "face.onnx", hashlib.sha256(data).hexdigest(), len(data), (server.url("yunet.onnx"),), bundled=False
        )
        monkeypatch.setattr(family, "card", replace(family.card, weights=weights, commercial=False, licence="X-NC-1"))
        terms = f"yunet_2023mar: licence X-NC-1, no commercial use, from {family.card.origin}"
        result = mien("models", "pull", "yunet_2023mar")
        assert (result.code, result.out) == (3, f"{terms}\n") and server.asked == []
        assert result.err.startswith("mien: yunet_2023mar: the licence of its weights is X-NC-1, which does not allow")
        assert result.err.endswith("; pass --accept-licence if you accept that\n")
        result = mien("models", "pull", "yunet_2023mar", "--accept-licence", "--offline")
        assert result.code == 1 and "fetching is forbidden (--offline or MIEN_OFFLINE)" in result.err
        monkeypatch.setenv("MIEN_OFFLINE", "1")
        assert mien("models", "pull", "yunet_2023mar", "--accept-licence").code == 1
        monkeypatch.delenv("MIEN_OFFLINE")
        monkeypatch.setenv("MIEN_MIRROR", server.url("mirror"))
        result = mien("models", "pull", "yunet", "yunet_2023mar", "--accept-licence")
        (path,) = (cache / "models" / "detector").glob("*.onnx")
        assert (result.code, result.err) == (0, "")
        assert result.out == f"yunet: ships with mien\n{terms}\nyunet_2023mar: installed, {path}\n"
        assert server.asked == [("mirror/face.onnx", None)]
    assert path.read_bytes() == data
    assert mien("analyze", examples / "target.jpg", "--detector", "yunet_2023mar").code == 0
    assert mien("models", "pull", "yunet_2023mar", "--offline").code == 0


def test_unknown_names_are_wrong_usage(mien: Mien, cache: Path, own: Path) -> None:
    for arguments in (
        ("pull", "yunett"),
        ("info", "yunett"),
        ("verify", "yunett"),
        ("remove", "yunett"),
        ("add", own, "--as", "yunett"),
    ):
        result = mien("models", *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("mien: no model is called 'yunett'; did you mean yunet")
