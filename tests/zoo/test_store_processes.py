"""The store under several processes, and under kills in the middle of a change."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mien.zoo.install import add, remove, verify
from mien.zoo.store import Store
from tests.servers import serving
from tests.standins import standin

NAME = "arcface_w600k_r50"
DATA = standin("embedder", NAME)
SHA256 = hashlib.sha256(DATA).hexdigest()

START = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from mien.runtime.download import http_opener
from mien.zoo import install, intake
from mien.zoo.cards import Weights
from mien.zoo.install import add
from mien.zoo.pull import Fetching, pull
from mien.zoo.registry import registry
from mien.zoo.store import Store

store, name, what = Store(Path(sys.argv[1])), "arcface_w600k_r50", sys.argv[2:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
"""
ADD = START + "add(store, Path(what[0]), name, what[1])"
PULL = (
    START
    + """
weights = Weights("net.onnx", what[1], int(what[2]), (what[0],), bundled=False)
card = replace(registry()["embedder", name].card, weights=weights)
pull(store, card, accept_licence=True, fetching=Fetching(opener=http_opener({})))
"""
)
DEATHS = {
    "in the copy": "intake._copy = lambda path, to: (to.write_bytes(path.read_bytes()[:50]), die())",
    "in the check": "install.check_family = die",
    "before the file takes its place": "os.replace = die",
    "before the description does": "Store.install = die",
    "once the description has": "Store.clean = die",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(DATA)
    return path


def files(store: Store) -> list[str]:
    return sorted(path.name for path in store.folder.rglob("*") if path.is_file())


def started(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-W", "error", "-c", script, *map(str, arguments)])


def test_many_processes_add_the_same_name_and_others(store: Store, file: Path) -> None:
    names = ["tom"] * 4 + ["jerry"] * 2
    running = [started(ADD, store.folder, file, name) for name in names]
    assert [process.wait(120) for process in running] == [0] * len(names)
    assert [name for _, name in store.names()] == ["jerry", "tom"]
    assert all(verify(store, name).ok for name in ("tom", "jerry"))
    assert len(files(store)) == 4


def test_many_processes_pull_one_model_and_it_is_fetched_once(store: Store) -> None:
    with serving({"net.onnx": DATA}) as server:
        arguments = (store.folder, server.url("net.onnx"), SHA256, len(DATA))
        running = [started(PULL, *arguments) for _ in range(4)]
        assert [process.wait(120) for process in running] == [0] * 4
        assert server.asked == [("net.onnx", None)]
    assert verify(store, NAME).ok and files(store) == [f"{NAME}.{SHA256[:16]}.onnx", f"{NAME}.json"]


def test_a_killed_pull_leaves_only_a_part_and_the_next_goes_on_with_it(store: Store) -> None:
    with serving({"net.onnx": DATA}) as server:
        server.stalls.add("net.onnx")
        arguments = (store.folder, server.url("net.onnx"), SHA256, len(DATA))
        part = store.place("embedder", NAME, SHA256).with_suffix(".onnx.part")
        with started(PULL, *arguments) as process:
            until = time.monotonic() + 60
            while not part.exists() or part.stat().st_size < len(DATA) // 2:
                assert time.monotonic() < until
                time.sleep(0.01)
            process.kill()
        assert store.find("embedder", NAME) is None and dict(store.all()) == {}
        assert [name for name in files(store) if name.endswith((".onnx", ".json"))] == []
        assert started(PULL, *arguments).wait(60) == 0
        assert [asked for _, asked in server.asked] == [None, f"bytes={len(DATA) // 2}-"]
    assert verify(store, NAME).ok and files(store) == [f"{NAME}.{SHA256[:16]}.onnx", f"{NAME}.json"]


@pytest.mark.parametrize("moment", DEATHS)
@pytest.mark.parametrize("before", [False, True], ids=["new", "replacing"])
def test_a_killed_add_leaves_what_was_there(
    store: Store, file: Path, tmp_path: Path, moment: str, before: bool
) -> None:
    old = None
    if before:
        other = tmp_path / "other.onnx"
        other.write_bytes(standin("embedder", "arcface_glint_r100"))
        old = add(store, other, NAME, "tom").installed
    script = f"{START}\n{DEATHS[moment]}\nadd(store, Path(what[0]), name, what[1])"
    assert started(script, store.folder, file, "tom").wait(60) == -9
    found = store.find("embedder", "tom")
    if moment == "once the description has":
        assert found is not None and found.sha256 == SHA256
    else:
        assert found == old
    if found is not None:
        assert verify(store, "tom").ok
    add(store, file, NAME, "jerry")  # sweeps what the other left
    assert not [name for name in files(store) if name.endswith(".tmp")]
    new = add(store, file, NAME, "tom").installed
    remove(store, "jerry")
    assert files(store) == [new.file, "tom.json"] and verify(store, "tom").ok
