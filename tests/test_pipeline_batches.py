"""Crops of several frames as one batch: which, how many, and that nothing else changes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mien.analysis import Analysis
from mien.options import SwapOptions
from mien.pipeline import Pipeline, batch_frames
from mien.runtime.devices import DeviceSpec, Prepared
from mien.runtime.graph import PROVIDERS, Graph, open_graph
from mien.runtime.where import Runtime
from mien.types import Patch
from mien.zoo.registry import registry
from tests.fakes import FakeFrame, FakeSwapper, FakeZoo, NetworkSwapper, grey, identity, network
from tests.stand_ins import graph, node
from tests.test_pipeline import THREADS, analysed, clip, painted, places


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name in THREADS] == []


@pytest.fixture(scope="module")
def thirty() -> Iterator[Analysis]:
    with analysed(30) as analysis:
        yield analysis


@dataclass
class Watching(NetworkSwapper):
    """Records the frames of each batch, which the crops' colour tells, and fails at one of them."""

    margin: float = 1.2
    fails_at: int = -1
    frames: list[list[int]] = field(default_factory=list)

    def __call__(self, crops: Any, *rest: Any) -> list[Patch]:
        frames = [round(int(crop[len(crop) // 2, crop.shape[1] // 2, 1]) / 5) for crop in crops]
        self.frames.append(list(dict.fromkeys(frames)))
        if self.fails_at in frames:
            raise ZeroDivisionError(f"at {self.fails_at}")
        return super().__call__(crops, *rest)


def pipeline(analysis: Analysis, zoo: FakeZoo, **options: Any) -> Pipeline:
    return Pipeline(SwapOptions(**options), zoo, identity(), analysis)


def rendered(analysis: Analysis, swapper: Any, frames: Any = None, **options: Any) -> list[FakeFrame]:
    return list(pipeline(analysis, FakeZoo(swapper), **options).run(clip(14) if frames is None else frames))


@pytest.mark.parametrize(
    ("batch", "segment", "expected"),
    [
        (1, 250, [[index] for index in range(14)]),
        (4, 250, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13]]),
        (4, 6, [[0, 1, 2, 3], [4, 5], [6, 7, 8, 9], [10, 11], [12, 13]]),
        (3, 6, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [12, 13]]),
        (32, 5, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13]]),
    ],
)
def test_frames_are_counted_from_their_segments_start(
    thirty: Analysis, batch: int, segment: int, expected: list[list[int]]
) -> None:
    swapper = Watching(needs_mask=True)
    zoo = FakeZoo(swapper)
    made = pipeline(thirty, zoo, batch_frames=batch, segment_frames=segment)
    frames = list(made.run(clip(14)))
    assert [frame.index for frame in frames] == list(range(14))
    assert swapper.frames == expected
    assert [len(tracks) for tracks in swapper.batches] == [3 * len(each) for each in expected]
    assert zoo.masker.batches == [3 * len(each) for each in expected]
    assert made.frames_with_faces == 14


@pytest.mark.parametrize("batch", [2, 4, 32])
def test_every_face_gets_its_own_patch_and_mask(thirty: Analysis, batch: int) -> None:
    plain, swapper = FakeSwapper(margin=1.2, needs_mask=True), Watching(needs_mask=True)
    before, after = rendered(thirty, plain), rendered(thirty, swapper, batch_frames=batch)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.pixels, other.pixels)
    for mask, other_mask in zip(plain.masks, swapper.masks, strict=True):
        assert mask is not None and other_mask is not None
        np.testing.assert_array_equal(mask["x"], other_mask["x"])


def test_a_run_that_goes_on_at_a_segment_has_the_same_batches(thirty: Analysis) -> None:
    whole, rest = Watching(), Watching()
    rendered(thirty, whole, batch_frames=4, segment_frames=6)
    rendered(thirty, rest, (painted(i, places(i)) for i in range(6, 14)), batch_frames=4, segment_frames=6)
    assert rest.frames == whole.frames[2:]


def test_frames_with_gaps_and_frames_without_faces(thirty: Analysis) -> None:
    swapper = Watching()
    picked = [0, 2, 3, 5, 9, 13, 17, 21]
    got = rendered(thirty, swapper, (painted(i, places(i)) for i in picked), batch_frames=4)
    assert [frame.index for frame in got] == picked
    assert swapper.frames == [[0, 2, 3], [5, 9, 13, 17], [21]]
    swapper = Watching()
    with analysed(1) as analysis:
        empty = _Empty(analysis)
        got = rendered(empty, swapper, [grey(index=i) for i in range(6)], batch_frames=4)  # type: ignore[arg-type]
    assert [frame.index for frame in got] == list(range(6))
    assert swapper.frames == [] and not any(frame.writes for frame in got)


class _Empty:
    """No faces in any frame."""

    width, height = 320, 240

    def __init__(self, analysis: Analysis) -> None:
        self.tracks = analysis.tracks

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[()]:
        return ()


def test_many_large_crops_are_no_larger_batch_than_memory_bears(
    thirty: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapper = Watching(template="arcface_128", size=32)
    monkeypatch.setattr("mien.pipeline.MOST_PIXELS", 4 * 32 * 32)
    got = rendered(thirty, swapper, batch_frames=5, pixel_boost=1)
    assert [len(batch) for batch in swapper.batches] == [6, 6, 3, 6, 6, 3, 6, 6]
    plain = rendered(thirty, FakeSwapper(template="arcface_128", size=32), pixel_boost=1)
    for one, other in zip(plain, got, strict=True):
        np.testing.assert_array_equal(one.pixels, other.pixels)


@pytest.mark.parametrize("at", [4, 5, 7])
def test_the_frames_before_one_that_fails_in_a_batch_arrive(thirty: Analysis, at: int) -> None:
    swapper, frames, got = Watching(fails_at=at), clip(30), list[FakeFrame]()
    with pytest.raises(ZeroDivisionError, match=f"at {at}"):
        for frame in pipeline(thirty, FakeZoo(swapper), batch_frames=4).run(frames):
            got.append(frame)
    assert [frame.index for frame in got] == list(range(at))
    for frame, plain in zip(got, rendered(thirty, FakeSwapper(margin=1.2)), strict=False):
        np.testing.assert_array_equal(frame.pixels, plain.pixels)
    assert swapper.frames[:3] == [[0, 1, 2, 3], [4, 5, 6, 7], [4]]
    assert next(frames, None) is None  # the source was closed


def test_an_error_of_the_frames_comes_after_the_frames_of_an_unfinished_batch(thirty: Analysis) -> None:
    def broken() -> Iterator[FakeFrame]:
        yield from clip(6)
        raise OSError("disk gone")

    got, swapper = [], Watching()
    with pytest.raises(OSError, match="disk gone"):
        for frame in pipeline(thirty, FakeZoo(swapper), batch_frames=4).run(broken()):
            got.append(frame.index)
    assert got == [0, 1, 2, 3, 4, 5]
    assert swapper.frames == [[0, 1, 2, 3], [4, 5]]


def test_a_slow_consumer_bounds_what_is_decoded(thirty: Analysis) -> None:
    pulled = []

    def source() -> Iterator[FakeFrame]:
        for frame in clip(30):
            pulled.append(frame.index)
            yield frame

    with pipeline(thirty, FakeZoo(Watching()), queue_size=1, batch_frames=4).run(source()) as run:
        for taken in range(1, 4):
            next(run)
            time.sleep(0.05)
            assert len(pulled) <= taken + 5 * 2 + 2 * 3


def test_hundred_early_closes_at_random_moments(thirty: Analysis) -> None:
    rng = random.Random(17)
    for _ in range(100):
        closed: list[bool] = []

        def source(closed: list[bool] = closed) -> Iterator[FakeFrame]:
            try:
                yield from clip(30)
            finally:
                closed.append(True)

        made = pipeline(thirty, FakeZoo(Watching()), queue_size=rng.randint(1, 3), batch_frames=rng.randint(2, 7))
        run = made.run(source())
        for _ in range(rng.randint(0, 5)):
            next(run)
        time.sleep(rng.random() * 0.002)
        started = run._started
        run.close()
        assert closed == [True] * started
        assert list(run) == []


class Counting:
    """Opens the real graph on the CPU, whatever was asked for, and records the items of each inference."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def open(self, model: Path | bytes, device: str, threads: int) -> Graph:
        graph, owner = open_graph(model, "cpu", threads), self

        class Counted:
            get_inputs, get_outputs = graph.get_inputs, graph.get_outputs

            def get_providers(self) -> Sequence[str]:
                return [PROVIDERS["cuda" if device.startswith("cuda") else "cpu"]]

            def run(
                self, names: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]], options: Any
            ) -> Sequence[npt.NDArray[np.float32]]:
                owner.sizes.append(len(next(iter(feeds.values()))))
                return graph.run(names, feeds, options)

        return Counted()


def halving() -> bytes:
    """inswapper's layout, free batch: half the target and half a colour; sums of halves are exact in any batch."""
    return graph(
        [
            node("Slice", ["source", "from", "to", "axis"], "first"), node("Reshape", ["first", "pixel"], "pixels"),
            node("Add", ["pixels", "target"], "sum"), node("Mul", ["sum", "half"], "output"),
        ],
        {"target": ("n", 3, 128, 128), "source": ("n", 512)}, {"output": ("n", 3, 128, 128)},
        **{"from": np.array([0]), "to": np.array([3]), "axis": np.array([1])},
        half=np.array(0.5, np.float32), pixel=np.array([-1, 3, 1, 1]), emap=np.eye(512, dtype=np.float32),
    )  # fmt: skip


@pytest.mark.parametrize("boost", [0, 1])
def test_a_template_swapper_gives_the_same_pixels_in_any_batch(thirty: Analysis, boost: int) -> None:
    known = np.zeros(512, np.float32)
    known[:4] = 3, 2, 1, 4
    who = replace(identity(), embeddings={"arcface_w600k_r50": known})
    frames: dict[int, list[FakeFrame]] = {}
    sizes: dict[int, list[int]] = {}
    for batch in (1, 4):
        counting = Counting()
        swapper = registry()["swapper", "inswapper_128"](Runtime("cpu", opener=counting.open), halving())
        options = SwapOptions(batch_frames=batch, segment_frames=6, pixel_boost=boost)
        made = Pipeline(options, FakeZoo(swapper), who, thirty)
        frames[batch], sizes[batch] = list(made.run(clip(10))), counting.sizes
    assert sizes[1] == [sizes[1][0]] * 10
    assert sizes[4] == [sizes[1][0] * count for count in (4, 2, 4)]
    assert sizes[1][0] == 3 if boost else sizes[1][0] >= 3
    for one, other in zip(frames[1], frames[4], strict=True):
        np.testing.assert_array_equal(one.pixels, other.pixels)
    assert frames[1][0].pixels[60, 60].tolist() != painted(0, places(0)).pixels[60, 60].tolist()


def chosen(where: Any, **options: Any) -> int:
    return batch_frames(SwapOptions(**options), FakeZoo(NetworkSwapper(network=network(where))))


def measured(device: str, *sizes: int) -> Runtime:
    """A network for whose devices these sizes were measured, in turn."""
    left = list(sizes)

    def prepare(model: Path | bytes, spec: DeviceSpec) -> Prepared:
        return Prepared(model, (), left.pop(0))

    return Runtime(device, opener=Counting().open, prepare=prepare)


def test_the_option_counts_where_there_is_a_network() -> None:
    assert [chosen("cpu", batch_frames=count) for count in (1, 3, 32)] == [1, 3, 32]
    assert chosen(measured("cuda:0", 8), batch_frames=2) == 2
    assert batch_frames(SwapOptions(batch_frames=8), FakeZoo()) == 1


def test_auto_is_what_was_measured_for_the_swappers_network() -> None:
    assert chosen("cpu") == 1
    assert batch_frames(SwapOptions(), FakeZoo()) == 1
    assert [chosen(measured("cuda:0", size)) for size in (0, 1, 4, 16, 64)] == [1, 1, 4, 16, 16]
    assert [chosen(measured("cuda:0,1", *pair)) for pair in ((4, 4), (4, 2), (16, 16), (4, 0))] == [8, 6, 16, 1]
