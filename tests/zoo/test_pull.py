"""Pulling weights: licence, mirrors, offline, proxies, resuming; from a server on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mien.errors import DownloadError, ModelError, OptionsError, RefusedError
from mien.runtime.download import http_opener
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.install import add, verify
from mien.zoo.pull import Fetching, pull
from mien.zoo.registry import registry
from mien.zoo.store import Store
from tests.servers import FileServer, serving
from tests.standins import standin

NAME = "arcface_w600k_r50"
FILE = "w600k r50.onnx"
DATA = standin("embedder", NAME)
SHA256 = hashlib.sha256(DATA).hexdigest()
ADVICE = f"`mien models add FILE --as {NAME}`"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({"net.onnx": DATA, "mirror/w600k%20r50.onnx": DATA, "wrong.onnx": bytes(len(DATA))}) as made:
        yield made


def card(*urls: str, commercial: bool = True, data: bytes = DATA) -> ModelCard:
    weights = Weights(FILE, hashlib.sha256(data).hexdigest(), len(data), urls, bundled=False)
    made: ModelCard = replace(registry()["embedder", NAME].card, weights=weights, commercial=commercial)
    return made


def quick(mirror: str = "", *, offline: bool = False) -> Fetching:
    return Fetching(mirror, offline, timeout=20.0, attempts=1, pause=0.01, opener=http_opener({}))


def files(store: Store) -> list[str]:
    return sorted(path.name for path in store.folder.rglob("*") if path.is_file())


def test_what_is_pulled_is_installed_and_not_fetched_again(store: Store, server: FileServer) -> None:
    seen: list[int] = []
    installed = pull(store, card(server.url("net.onnx")), fetching=quick(), progress=seen.append)
    assert store.find("embedder", NAME) == installed
    assert (installed.name, installed.family, installed.sha256, installed.size) == (NAME, NAME, SHA256, len(DATA))
    assert store.path(installed).read_bytes() == DATA and seen[-1] == len(DATA)
    assert files(store) == [f"{NAME}.{SHA256[:16]}.onnx", f"{NAME}.json"]
    assert pull(store, card(server.url("net.onnx")), fetching=quick(offline=True)) == installed
    assert server.asked == [("net.onnx", None)]


def test_a_licence_without_commercial_use_has_to_be_accepted(store: Store, server: FileServer) -> None:
    one = card(server.url("net.onnx"), commercial=False)
    with pytest.raises(RefusedError) as caught:
        pull(store, one, fetching=quick())
    assert str(caught.value) == (
        f"{NAME}: the licence of its weights is {one.licence}, which does not allow commercial use ({one.origin}); "
        "pass --accept-licence if you accept that"
    )
    assert caught.value.exit_code == 3 and server.asked == [] and not store.folder.exists()
    assert pull(store, one, accept_licence=True, fetching=quick()).sha256 == SHA256


def test_the_mirror_is_tried_first_and_its_failure_is_no_end(store: Store, server: FileServer) -> None:
    pull(store, card(server.url("none.onnx")), fetching=quick(server.url("mirror/")))
    assert server.asked == [("mirror/w600k%20r50.onnx", None)]
    other = Store(store.folder / "other")
    pull(other, card(server.url("wrong.onnx"), server.url("net.onnx")), fetching=quick(server.url("gone")))
    assert [path for path, _ in server.asked[1:]] == ["gone/w600k%20r50.onnx", "wrong.onnx", "net.onnx"]
    assert verify(other, NAME).ok


def test_a_mirror_serves_what_has_no_address(store: Store, server: FileServer) -> None:
    assert pull(store, card(), fetching=quick(server.url("mirror"))).sha256 == SHA256
    with pytest.raises(
        DownloadError, match=r"^arcface_w600k_r50: mien knows no address of it; set MIEN_MIRROR, or get "
    ):
        pull(Store(store.folder / "other"), card(), fetching=quick())


def test_when_every_address_fails_each_is_told_on_one_line(store: Store, server: FileServer) -> None:
    with pytest.raises(DownloadError) as caught:
        pull(store, card(server.url("none.onnx"), server.url("wrong.onnx")), fetching=quick())
    assert str(caught.value) == (
        f"{server.url('none.onnx')}: the server answered 404 Not Found; {server.url('wrong.onnx')}: its content is not "
        f"the expected one (another sha256); update mien, or {ADVICE} takes a file of yours"
    )
    assert files(store) == []


def test_offline(store: Store, server: FileServer) -> None:
    with pytest.raises(DownloadError) as caught:
        pull(store, card(server.url("net.onnx")), fetching=quick(offline=True))
    assert str(caught.value) == (
        f"{NAME}: fetching is forbidden (--offline or MIEN_OFFLINE); allow it, or get {FILE} ({card().origin}), "
        f"then run {ADVICE}"
    )
    assert server.asked == []


def test_what_cannot_be_verified_is_not_fetched(store: Store, server: FileServer) -> None:
    one = card(server.url("net.onnx"))
    assert one.weights is not None
    one = replace(one, weights=replace(one.weights, sha256=""))
    with pytest.raises(DownloadError, match=r"^arcface_w600k_r50: mien knows no file of it that it could verify; get "):
        pull(store, one, fetching=quick(server.url("mirror")))
    assert server.asked == []


def test_a_size_that_is_not_known_is_asked_for(store: Store, server: FileServer) -> None:
    one = card(server.url("net.onnx"))
    assert one.weights is not None
    installed = pull(store, replace(one, weights=replace(one.weights, size=0)), fetching=quick())
    assert installed.size == len(DATA) and verify(store, NAME).ok


@pytest.mark.parametrize("name", ["yunet", "texture"])
def test_there_is_nothing_to_pull_of_what_ships(store: Store, name: str) -> None:
    family = next(family for (_, each), family in registry().items() if each == name)
    with pytest.raises(OptionsError, match=f"^{name}: ships with mien; there is nothing to pull$"):
        pull(store, family.card)


def test_a_part_that_lies_there_is_gone_on_with(store: Store, server: FileServer) -> None:
    place = store.place("embedder", NAME, SHA256)
    place.parent.mkdir(parents=True)
    place.with_name(f"{place.name}.part").write_bytes(DATA[:100])
    pull(store, card(server.url("net.onnx")), fetching=quick())
    assert server.asked == [("net.onnx", "bytes=100-")] and verify(store, NAME).ok
    assert files(store) == [f"{NAME}.{SHA256[:16]}.onnx", f"{NAME}.json"]


def test_damage_is_mended_and_a_file_of_the_users_is_kept(store: Store, server: FileServer, tmp_path: Path) -> None:
    one = card(server.url("net.onnx"))
    path = store.path(pull(store, one, fetching=quick()))
    path.write_bytes(DATA[:-1])
    (path.parent / f"{NAME}.json").write_text("{")
    pull(store, one, fetching=quick())
    assert verify(store, NAME).ok
    path.unlink()
    pull(store, one, fetching=quick())
    assert path.read_bytes() == DATA
    other = card(server.url("net.onnx"), data=DATA + b"x")
    with pytest.raises(
        OptionsError, match=r"^arcface_w600k_r50: a file of yours is installed under this name; `mien mod"
    ):
        pull(store, other, fetching=quick())
    assert path.read_bytes() == DATA


def test_a_file_that_does_not_work_is_not_installed(store: Store) -> None:
    data = standin("embedder", "dlib_resnet")
    with serving({"net.onnx": data}) as server:
        url = server.url("net.onnx")
        with pytest.raises(
            ModelError, match=rf"^{url}: is not arcface_w600k_r50: expected .*; it looks like dlib_resnet"
        ):
            pull(store, card(url, data=data), fetching=quick())
    assert files(store) == []


def test_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIEN_MIRROR", "MIEN_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    assert Fetching.from_environment() == Fetching("", False)
    assert Fetching.from_environment(offline=True).offline
    monkeypatch.setenv("MIEN_MIRROR", " http://mirror.example/models ")
    assert Fetching.from_environment().mirror == "http://mirror.example/models"
    for text, offline in (("1", True), ("yes", True), ("0", False), ("", False), ("False", False), ("off", False)):
        monkeypatch.setenv("MIEN_OFFLINE", text)
        assert Fetching.from_environment().offline is offline


def test_the_proxy_of_the_environment_is_used(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"http://weights.invalid/net.onnx": DATA}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.address)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        pull(store, card("http://weights.invalid/net.onnx"), fetching=Fetching(attempts=1))
        assert proxy.asked == [("http://weights.invalid/net.onnx", None)]


def test_your_own_file_instead(store: Store, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(DATA)
    add(store, tmp_path / FILE, NAME)
    assert pull(store, card("http://127.0.0.1:9/x"), fetching=quick()).sha256 == SHA256
