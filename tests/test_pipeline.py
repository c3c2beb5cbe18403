"""The swap over frames: every face of every frame gets its own patch, in order, and stopping is safe."""

from __future__ import annotations

import faulthandler
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mien.analysis import Analysis, AnalysisWriter
from mien.errors import InputError, ModelError, OptionsError
from mien.options import SwapOptions
from mien.pipeline import Pipeline
from mien.shape import neutral
from mien.types import Face, Patch
from mien.zoo.contracts import SourceNeeds
from tests.fakes import FakeFrame, FakeSwapper, FakeZoo, embedding, face, grey, identity

THREADS = tuple(f"mien-{name}" for name in ("decode", "find", "mask", "swap", "paste"))


@pytest.fixture(autouse=True)
def _no_deadlock() -> Iterator[None]:
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    assert [t.name for t in threading.enumerate() if t.name in THREADS] == []


def places(index: int) -> list[Face]:
    """Three faces that move and change their order; each keeps its track."""
    faces = [face(60 + index, 60, 40, track=0), face(200 - index, 70, 50, track=1), face(120, 180, 60, track=2)]
    return faces[index % 3 :] + faces[: index % 3]


def colour(index: int, track: int) -> tuple[int, int, int]:
    """What is painted on a face, so that a mixed-up face or frame shows."""
    return (10 + 80 * track, 5 * index, 40)


def painted(index: int, faces: Sequence[Face]) -> FakeFrame:
    frame = grey(index=index)
    for each in faces:
        (x0, y0, x1, y1), pad = (int(v) for v in each.bbox), int(each.bbox[2] - each.bbox[0]) // 2
        frame.pixels[max(0, y0 - pad) : y1 + pad, max(0, x0 - pad) : x1 + pad] = colour(index, each.track)
    return frame


def clip(count: int) -> Iterator[FakeFrame]:
    return (painted(index, places(index)) for index in range(count))


def analysed(count: int) -> Analysis:
    writer = AnalysisWriter((320, 240))
    for index in range(count):
        writer.add(index / 25, places(index))
    return writer.finish()


@pytest.fixture(scope="module")
def thirty() -> Iterator[Analysis]:
    with analysed(30) as analysis:
        yield analysis


def pipeline(analysis: Analysis | None, zoo: FakeZoo | None = None, **options: Any) -> Pipeline:
    return Pipeline(SwapOptions(**options), zoo or FakeZoo(), identity(), analysis)


@pytest.mark.parametrize("swapper", [FakeSwapper(margin=1.2), FakeSwapper(template="arcface_128", size=64)])
def test_every_face_of_every_frame_gets_its_own_patch(thirty: Analysis, swapper: FakeSwapper) -> None:
    made = pipeline(thirty, FakeZoo(swapper))
    frames = list(made.run(clip(30)))
    assert [frame.index for frame in frames] == list(range(30))
    for frame in frames:
        assert isinstance(frame, FakeFrame)
        for each in places(frame.index):
            x, y = (int(v) for v in each.mesh[:4, :2].mean(0))
            expected = 255 - np.array(colour(frame.index, each.track))
            assert np.abs(frame.pixels[y, x].astype(int) - expected).max() <= 1
        assert tuple(frame.pixels[5, 5]) == (90, 90, 90)
    assert made.frames_with_faces == 30
    assert all(sorted(batch) == [0, 1, 2] for batch in swapper.batches)
    assert len(swapper.batches) == 30


def test_the_nearest_face_is_pasted_last() -> None:
    near, far = face(100, 100, 80, track=0), face(130, 100, 40, track=1)
    with one(near, far) as analysis:
        zoo = FakeZoo()
        list(pipeline(analysis, zoo).run([painted(0, [near, far])]))
    assert zoo.swapper.batches == [[1, 0]]


def one(*faces: Face) -> Analysis:
    writer = AnalysisWriter((320, 240))
    writer.add(0, faces)
    return writer.finish()


def test_frames_without_faces_pass_untouched() -> None:
    zoo = FakeZoo()
    with one() as analysis:
        (frame,) = pipeline(analysis, zoo).run([grey()])
    assert isinstance(frame, FakeFrame)
    assert frame.writes == []
    np.testing.assert_array_equal(frame.pixels, grey().pixels)
    assert zoo.swapper.batches == []


def test_faces_outside_the_frame_or_without_shape_are_left_out() -> None:
    flat = face(100, 100, track=1)
    flat.keypoints[:] = 3
    with one(face(-900, 50, track=0), flat, face(60, 60, track=2)) as analysis:
        zoo = FakeZoo(FakeSwapper(template="arcface_128", size=32))
        list(pipeline(analysis, zoo).run([grey()]))
    assert zoo.swapper.batches == [[2]]


def test_masks_come_in_one_batch_for_each_frame_where_the_swapper_needs_them(thirty: Analysis) -> None:
    zoo = FakeZoo(FakeSwapper(needs_mask=True))
    list(pipeline(thirty, zoo).run(clip(3)))
    assert zoo.masker.batches == [3, 3, 3]
    assert [sorted(mask or ()) for mask in zoo.swapper.masks] == [["x", "y"]] * 9
    without = FakeZoo()
    list(pipeline(thirty, without).run(clip(3)))
    assert without.masker.batches == []
    assert without.swapper.masks == [None] * 9
    assert ("masker", "occluder") not in without.asked


def test_any_part_of_a_clip_renders_to_the_same_pixels(thirty: Analysis) -> None:
    whole = {f.index: f.pixels for f in pipeline(thirty).run(clip(30)) if isinstance(f, FakeFrame)}
    part = [painted(index, places(index)) for index in range(11, 17)]
    for frame in pipeline(thirty).run(part):
        assert isinstance(frame, FakeFrame)
        np.testing.assert_array_equal(frame.pixels, whole[frame.index])


def test_an_analysis_of_another_clip_is_refused(thirty: Analysis) -> None:
    with pytest.raises(InputError, match="frame 30 of 320×240 is not in the analysis"):
        list(pipeline(thirty).run([grey(index=30)]))
    with pytest.raises(InputError, match="analyse this file again"):
        list(pipeline(thirty).run([grey(640, 480)]))


def test_without_an_analysis_faces_are_found_and_tracked_on_the_way() -> None:
    made = pipeline(None)
    made._finder = made._referee._finder = Finder()  # type: ignore[assignment]
    frames = list(made.run(clip(4)))
    assert [len(frame.writes) for frame in frames if isinstance(frame, FakeFrame)] == [3, 3, 3, 3]
    assert [verdict.frames for verdict in made.verdicts()] == [4, 4, 4]


class Finder:
    def __call__(self, frame: FakeFrame, **_: bool) -> tuple[Face, ...]:
        return tuple(replace(each, track=-1) for each in places(frame.index))

    def embed(self, frame: FakeFrame, each: Face) -> Any:
        return embedding(0)


def test_an_error_of_the_frames_reaches_the_consumer_after_the_good_frames(thirty: Analysis) -> None:
    def broken() -> Iterator[FakeFrame]:
        yield from clip(4)
        raise OSError("disk gone")

    got = []
    with pytest.raises(OSError, match="disk gone"):
        for frame in pipeline(thirty).run(broken()):
            got.append(frame.index)
    assert got == [0, 1, 2, 3]


@pytest.mark.parametrize("part", ["find", "mask", "swap", "paste"])
def test_an_error_of_a_stage_reaches_the_consumer(thirty: Analysis, part: str) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError(part)

    zoo = FakeZoo(FakeSwapper(needs_mask=True))
    made = pipeline(thirty, zoo)
    frames = clip(30)
    if part == "find":
        made._analysis = _Broken()  # type: ignore[assignment]
    elif part == "mask":
        fail.size, fail.margin = 64, 1.2  # type: ignore[attr-defined]
        made._maskers = [fail]  # type: ignore[list-item]
    elif part == "swap":
        made._swapper = _FailingSwapper(needs_mask=True)
    else:
        frames = (Locked(frame.pixels, frame.index) for frame in clip(30))
    with pytest.raises(ZeroDivisionError):
        list(made.run(frames))
    with pytest.raises(StopIteration):
        next(frames)  # the source was closed


class _Broken:
    width, height = 320, 240

    def __len__(self) -> int:
        return 1 // 0


class _FailingSwapper(FakeSwapper):
    def __call__(self, crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> list[Patch]:
        raise ZeroDivisionError("swap")


class Locked(FakeFrame):
    def write(self, *_: object) -> None:
        raise ZeroDivisionError("paste")


def test_faces_of_different_boosts_are_one_batch() -> None:
    """A small and a large face: the crops differ in size, the batch is one, and each comes back where it was."""

    seen: list[list[int]] = []

    class Sized(FakeSwapper):
        def __call__(self, crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> list[Patch]:
            seen.append([len(crop) for crop in crops])
            return super().__call__(crops, faces, masks, source, style)

    faces = [face(60, 60, 30, track=0), face(200, 130, 120, track=1)]
    swapper = Sized(template="arcface_128", size=32)
    for boost, sides in ((0, [32, 128]), (1, [32, 32]), (2, [64, 64])):
        seen.clear()
        with one(*faces) as analysis:
            (frame,) = pipeline(analysis, FakeZoo(swapper), pixel_boost=boost).run([grey()])
        assert seen == [sides]
        assert isinstance(frame, FakeFrame)
        for x, y in ((60, 60), (200, 130)):
            assert tuple(frame.pixels[y, x]) == (165, 165, 165)


def test_the_swapper_gets_the_source_that_it_needs() -> None:
    seen = []

    class Needy(FakeSwapper):
        def __call__(self, crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> list[Patch]:
            seen.append(source)
            return super().__call__(crops, faces, masks, source, style)

    zoo = FakeZoo(Needy(needs=SourceNeeds("fake", template="ffhq_512", size=16)))
    known = replace(
        identity(), photo=np.full((90, 90, 3), 7, np.uint8), keypoints=face(45, 45, 40).keypoints,
        embeddings={"fake": np.arange(4, dtype=np.float32)},
    )  # fmt: skip
    with analysed(2) as analysis:
        list(Pipeline(SwapOptions(), zoo, known, analysis).run(clip(2)))
    assert len(seen) == 2 and seen[0] is seen[1]  # made once
    np.testing.assert_array_equal(seen[0].embedding, [0, 1, 2, 3])
    np.testing.assert_array_equal(seen[0].photo, np.full((16, 16, 3), 7))


def test_a_swapper_that_loses_a_face_is_an_error(thirty: Analysis) -> None:
    class Careless(FakeSwapper):
        def __call__(self, crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> list[Patch]:
            return super().__call__(crops, faces, masks, source, style)[1:]

    with pytest.raises(ModelError, match="2 patches for 3 crops"):
        list(pipeline(thirty, FakeZoo(Careless())).run(clip(3)))


def test_a_swapper_that_gives_nan_is_an_error_that_names_it(thirty: Analysis) -> None:
    class Blind(FakeSwapper):
        def __call__(self, crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> list[Patch]:
            patches = super().__call__(crops, faces, masks, source, style)
            patches[-1].rgb[0, 0, 0] = np.nan
            return patches

    with pytest.raises(ModelError, match=r"^fake: the model gave values that are not finite; verify the file"):
        list(pipeline(thirty, FakeZoo(Blind())).run(clip(3)))


def test_a_slow_consumer_bounds_what_is_decoded(thirty: Analysis) -> None:
    pulled = []

    def source() -> Iterator[FakeFrame]:
        for frame in clip(30):
            pulled.append(frame.index)
            yield frame

    with pipeline(thirty, queue_size=1).run(source()) as run:
        for taken in range(1, 4):
            next(run)
            time.sleep(0.05)
            assert len(pulled) <= taken + 5 * 2


def test_hundred_early_closes_at_random_moments(thirty: Analysis) -> None:
    rng = random.Random(11)
    made = pipeline(thirty, queue_size=2)
    for _ in range(100):
        closed: list[bool] = []

        def source(closed: list[bool] = closed) -> Iterator[FakeFrame]:
            try:
                for index in range(30):
                    yield grey(index=index)
            finally:
                closed.append(True)

        run = made.run(source())
        for _ in range(rng.randint(0, 4)):
            next(run)
        time.sleep(rng.random() * 0.002)
        started = run._started
        run.close()
        assert closed == [True] * started
        assert list(run) == []


def test_stage_timings_add_up_over_runs(thirty: Analysis) -> None:
    made = pipeline(thirty)
    list(made.run(clip(3)))
    first = dict(made.timings)
    assert list(first) == ["decode", "find", "mask", "swap", "paste"]
    list(made.run(clip(3)))
    assert all(made.timings[name] > first[name] > 0 for name in first)


def test_the_referee_compares_each_track_with_source_and_target(thirty: Analysis) -> None:
    made = pipeline(thirty, FakeZoo(FakeSwapper(margin=1.7)), min_similarity=0.5)
    list(made.run(clip(30)))
    verdicts = made.verdicts()
    assert [(v.track, v.frames, v.first_frame, v.samples) for v in verdicts] == [(i, 30, 0, 3) for i in range(3)]
    for verdict in verdicts:
        # Crops of one colour: the embedding's angle is that of green over red.
        before = [np.arctan2(c[1], c[0]) for c in (colour(i, verdict.track) for i in (0, 12, 24))]
        after = [np.arctan2(255 - c[1], 255 - c[0]) for c in (colour(i, verdict.track) for i in (0, 12, 24))]
        assert verdict.similarity_source is not None
        assert verdict.similarity_source == pytest.approx(np.mean(np.cos(after)), abs=0.02)
        assert verdict.similarity_source_min == pytest.approx(np.min(np.cos(after)), abs=0.02)
        assert verdict.similarity_target == pytest.approx(np.mean(np.cos(np.subtract(after, before))), abs=0.02)
        assert verdict.doubtful == (verdict.similarity_source < 0.5)
    assert verdicts[0].bbox == (40.0, 40.0, 80.0, 80.0)
    assert {v.doubtful for v in verdicts} == {True, False}


def test_the_swapper_gets_the_tracks_embedding_and_shape_in_every_frame() -> None:
    seen: list[Face] = []

    class Curious(FakeSwapper):
        def __call__(self, crops: Any, faces: Any, masks: Any, source: Any, style: Any) -> list[Patch]:
            seen.extend(faces)
            return super().__call__(crops, faces, masks, source, style)

    scores = np.zeros(52, np.float32)
    writer = AnalysisWriter((320, 240))
    for index in range(3):
        known = embedding(0.0 if index == 0 else 0.4) if index != 1 else None
        writer.add(index, [replace(face(100, 100, track=0, embedding=known), blendshapes=scores)])
    with writer.finish() as analysis:
        list(pipeline(analysis, FakeZoo(Curious())).run([grey(index=index) for index in range(3)]))
    for each in seen:
        assert each.embedding is not None
        assert each.shape is not None
        np.testing.assert_allclose(each.embedding, embedding(0.2), atol=1e-6)
        np.testing.assert_allclose(each.shape, neutral(face(100, 100).mesh, scores), atol=1e-4)


def test_an_identity_of_another_embedder_is_refused() -> None:
    with one(face(100, 100, track=0)) as analysis:
        made = Pipeline(SwapOptions(), FakeZoo(), replace(identity(), embedding=embedding(0, 4)), analysis)
        with pytest.raises(OptionsError, match="has 4 values and the embedder's 8"):
            list(made.run([grey()]))
