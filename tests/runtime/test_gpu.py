"""On a real GPU; left out where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from mien.runtime.cuda import find_gpus
from mien.runtime.devices import Settings
from mien.runtime.graph import available_devices
from mien.runtime.pool import Pool
from mien.runtime.session import Runtime, Session
from mien.zoo.embedders.mobilefacenet import MobileFaceNet
from mien.zoo.registry import Zoo
from tests import stand_ins

GPUS = find_gpus() if "cuda" in available_devices() else ()
pytestmark = pytest.mark.skipif(not GPUS, reason="no NVIDIA GPU, or an ONNX Runtime without CUDA")

rng = np.random.default_rng(0)
CROPS = rng.integers(0, 256, (5, 112, 112, 3), dtype=np.uint8)
WEIGHTS = rng.normal(size=(16, 3, 3, 3)).astype(np.float32)
CONV = stand_ins.graph(
    [stand_ins.node("Conv", ["x", "w"], "a"), stand_ins.node("Relu", ["a"], "y")],
    {"x": (1, 3, 32, 32)}, {"y": (1, 16, 30, 30)}, {}, w=WEIGHTS,
)  # fmt: skip


def test_an_embedder_gives_what_it_gives_on_the_cpu() -> None:
    there, here = MobileFaceNet("cuda:0")(CROPS), MobileFaceNet("cpu")(CROPS)
    np.testing.assert_allclose(there, here, atol=2e-3)


def test_auto_takes_the_gpu() -> None:
    zoo = Zoo("auto")
    zoo.load("embedder", "mobilefacenet")
    assert zoo.used_device == "cuda"


def test_a_recorded_graph_gives_what_it_gives_unrecorded() -> None:
    plain, recorded = (Session(CONV, Runtime("cuda:0", cuda_graphs=graphs)) for graphs in (False, True))
    for seed in range(4):
        x = np.random.default_rng(seed).random((1, 3, 32, 32), np.float32)
        np.testing.assert_allclose(recorded(x)[0], plain(x)[0], atol=1e-4)
    assert recorded.notes == ()


def test_a_limit_of_the_arena_is_kept() -> None:
    wide = stand_ins.graph(
        [stand_ins.node("Conv", ["x", "w"], "a"), stand_ins.node("ReduceMean", ["a"], "y", axes=[2, 3], keepdims=0)],
        {"x": ("n", 3, 512, 512)}, {"y": ("n", 16)}, {}, w=WEIGHTS,
    )  # fmt: skip
    session = Session(wide, Runtime("cuda:0", settings=Settings(gpu_memory=128 << 20)), name="wide")
    x = np.random.default_rng(0).random((32, 3, 512, 512), np.float32)  # 534 MB of results at once
    assert session(x)[0].shape == (32, 16)
    assert session.notes[0].startswith("wide: out of memory on cuda:0; at most ")


def test_graphs_that_are_closed_and_opened_again() -> None:
    runtime = Runtime("cuda:0", pool=Pool(limit=len(CONV) + 1))
    first, second = Session(CONV, runtime), Session(CONV, runtime)
    x = np.ones((1, 3, 32, 32), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(first(x)[0], second(x)[0])
    assert runtime.pool.closed >= 5


@pytest.mark.skipif(len(GPUS) < 2, reason="one GPU")
def test_two_gpus_share_a_batch() -> None:
    both, one = MobileFaceNet("cuda:0,1")(CROPS), MobileFaceNet("cuda:0")(CROPS)
    np.testing.assert_allclose(both, one, atol=1e-4)
