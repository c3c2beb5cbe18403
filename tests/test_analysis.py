"""Faces on disk: what goes in comes out, memory does not grow, short gaps are filled."""

from __future__ import annotations

import gc
import json
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mien.analysis import Analysis, AnalysisWriter
from mien.analyzer import GROUP, LOOK_EVERY, FrameAnalyzer, analyze_frames
from mien.errors import MediaError, ModelError, OutputError
from mien.faces import FaceFinder
from mien.shape import neutral
from mien.tracking import GAP, SAMPLE_EVERY, overlap
from mien.types import Face
from tests import heads
from tests.fakes import FakeFrame, embedding, face, grey


def store(*frames: Sequence[Face], cuts: Sequence[int] = ()) -> Analysis:
    writer = AnalysisWriter((320, 240))
    for index, faces in enumerate(frames):
        writer.add(index / 25, faces, cut=index in cuts)
    return writer.finish()


def same(a: Face, b: Face) -> bool:
    def equal(x: Any, y: Any) -> bool:
        return (x is None and y is None) or bool(np.array_equal(x, y))

    names = ("bbox", "score", "keypoints", "mesh", "presence", "embedding", "blendshapes", "track")
    return all(
        equal(getattr(a, name), np.float32(v) if isinstance(v := getattr(b, name), float) else v) for name in names
    )


def test_faces_come_back_as_they_were() -> None:
    full = replace(face(100, 90, track=1, embedding=embedding(1)), blendshapes=np.linspace(0, 1, 52, dtype=np.float32))
    bare = face(200, 90, track=0)
    with store([full], [], [bare, full], cuts=[2]) as analysis:
        assert (len(analysis), analysis.face_count, analysis.frames_with_faces) == (3, 3, 2)
        assert [len(analysis.raw(i)) for i in range(3)] == [1, 0, 2]
        assert same(analysis.raw(0)[0], full)
        assert same(analysis.raw(2)[0], bare)
        assert same(analysis.raw(-1)[1], full)
        assert (analysis.width, analysis.height, analysis.cuts, analysis.time(2)) == (320, 240, [2], 0.08)
        with pytest.raises(IndexError):
            analysis[3]


def test_tracks_say_where_each_face_was() -> None:
    left, right = [face(50, 50, track=0)], [face(200, 90, track=1)]
    with store(left, left + right, right, *[[]] * 9, [face(9, 9, track=2)]) as made:
        assert [(t.id, t.first, t.last, t.faces) for t in made.tracks] == [(0, 0, 1, 2), (1, 1, 2, 2), (2, 12, 12, 1)]
        np.testing.assert_array_equal(made.tracks[1].bbox, face(200, 90).bbox)
        assert (made.tracks[0].embedding, made.tracks[0].shape) == (None, None)


def test_every_face_of_a_track_has_the_tracks_embedding_and_shape() -> None:
    scores = np.zeros(52, np.float32)
    known = [None if i == 1 else embedding(i * 0.2) for i in range(3)]
    # The first settles the length of the store's embeddings.
    faces = [
        replace(face(50 + i, 50, 60 + 20 * i, track=0, embedding=e), blendshapes=scores) for i, e in enumerate(known)
    ]
    with store(*([f] for f in faces[:2]), [], [faces[2]]) as made:
        assert [f.embedding is None for i in range(4) for f in made.raw(i)] == [False, True, False]
        for index in range(4):
            (each,) = made[index]
            assert each.embedding is not None
            assert each.shape is not None
            np.testing.assert_allclose(each.embedding, embedding(0.2), atol=1e-6)
            np.testing.assert_allclose(each.shape, neutral(face(50, 50).mesh, scores), atol=1e-3)


def test_iterating_gives_what_indexing_gives() -> None:
    with store(*([face(50 + i * i, 50, track=0)] for i in range(6))) as analysis:
        for index, faces in enumerate(analysis):
            np.testing.assert_array_equal(faces[0].mesh, analysis[index][0].mesh)


def test_landmarks_are_smoothed_at_look_up_and_the_store_stays_raw() -> None:
    shaken = [face(100 + 0.2 * (-1) ** i, 100, track=0) for i in range(9)]
    with store(*([f] for f in shaken)) as analysis:
        np.testing.assert_array_equal(analysis.raw(4)[0].mesh, shaken[4].mesh)
        assert abs(analysis[4][0].mesh[0, 0] - 70) < 0.1
        np.testing.assert_array_equal(analysis[0][0].mesh, shaken[0].mesh)
    steady = [face(100 + 12 * i, 100, track=0) for i in range(9)]
    with store(*([f] for f in steady)) as analysis:
        for index in range(9):
            np.testing.assert_allclose(analysis[index][0].mesh, steady[index].mesh, atol=1e-4)


@pytest.mark.parametrize(("missing", "filled"), [(1, True), (GAP, True), (GAP + 1, False)])
def test_a_short_gap_of_a_track_is_filled(missing: int, filled: bool) -> None:
    gap: list[list[Face]] = [[] for _ in range(missing)]
    with store([face(40, 100, track=0)], *gap, [face(40 + 12 * (missing + 1), 100, track=0)]) as analysis:
        for index in range(1, missing + 1):
            assert analysis.raw(index) == ()
            assert len(analysis[index]) == filled
            if filled:
                np.testing.assert_allclose(analysis[index][0].mesh, face(40 + 12 * index, 100).mesh, atol=1e-3)


@pytest.mark.parametrize(("x", "filled"), [(100.0, False), (125.0, False), (400.0, True)])
def test_a_face_behind_another_is_not_filled_in(x: float, filled: bool) -> None:
    """Where one that was found lies over it, it is hidden, and nothing of it may be painted."""
    behind, front = face(100, 90, track=0), face(x, 90, track=1)
    with store([behind], [front], [behind]) as analysis:
        assert [f.track for f in analysis[1]] == ([1, 0] if filled else [1])


def test_a_gap_between_two_tracks_stays_a_gap() -> None:
    with store([face(40, 100, track=0)], [], [face(40, 100, track=1)]) as analysis:
        assert analysis[1] == ()


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    frames = [[face(50 + i, 60, track=0, embedding=embedding(i))] if i % 3 else [] for i in range(20)]
    with store(*frames, cuts=[5, 9]) as made:
        made.save(tmp_path / "clip.analysis")
        with Analysis.load(tmp_path / "clip.analysis") as loaded:
            assert loaded.to_dict() == made.to_dict()
            assert loaded.cuts == [5, 9]
            assert all(same(a, b) for i in range(20) for a, b in zip(loaded.raw(i), made.raw(i), strict=True))
    assert os.listdir(tmp_path) == ["clip.analysis"]


def test_many_threads_may_read_one_loaded_file(tmp_path: Path) -> None:
    with store(*([face(10 + i, 60, track=-1)] for i in range(200))) as made:
        made.save(tmp_path / "a")
    wrong: list[int] = []

    def read(analysis: Analysis) -> None:
        wrong.extend(i for i in range(200) if abs(analysis[i][0].bbox[0] - (10 + i - 30)) > 1e-3)

    with Analysis.load(tmp_path / "a") as loaded:
        threads = [threading.Thread(target=read, args=(loaded,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:-1], lambda d: d + b"x", lambda d: b"x" + d[1:]])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    with store([face(50, 50, track=0)]) as made:
        made.save(tmp_path / "a")
    (tmp_path / "a").write_bytes(damage((tmp_path / "a").read_bytes()))
    with pytest.raises(MediaError, match="not a whole mien analysis"):
        Analysis.load(tmp_path / "a")


def test_it_cannot_be_saved_where_there_is_no_folder(tmp_path: Path) -> None:
    with store([]) as made, pytest.raises(OutputError, match="does not exist; make it first"):
        made.save(tmp_path / "none" / "a")


def test_a_temporary_store_vanishes_with_its_object() -> None:
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else pytest.skip("needs /proc")
    made = store([face(50, 50, track=0)])
    unfinished = AnalysisWriter((10, 10))
    assert len(os.listdir("/proc/self/fd")) == opened + 6
    del made, unfinished
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == opened


def test_embeddings_of_two_models_do_not_mix() -> None:
    with pytest.raises(ModelError, match=r"embedding of shape \(4,\) after \(8,\)"):
        store([face(50, 50, embedding=embedding(0))], [face(50, 50, embedding=embedding(0, 4))])


def test_memory_does_not_grow_with_the_clip() -> None:
    def peak(frames: int) -> int:
        faces = [face(50, 50, track=0, embedding=embedding(0)), face(200, 80, track=1)]
        gc.collect()
        tracemalloc.start()
        writer = AnalysisWriter((320, 240))
        for index in range(frames):
            writer.add(index / 25, faces)
        with writer.finish() as analysis:
            assert sum(len(found) for found in (analysis[i] for i in range(0, frames, 37))) == 2 * len(
                range(0, frames, 37)
            )
            assert analysis.frames_with_faces == frames
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(100)
    assert peak(4000) < 1.3 * peak(400)


class FakeFinder:
    """Gives the faces of a list by frame index; `hidden` ones only when thorough."""

    def __init__(self, faces: dict[int, Sequence[Face]], hidden: dict[int, Sequence[Face]] | None = None) -> None:
        self.faces, self.hidden = faces, hidden or {}
        self.thorough: list[int] = []
        self.robust: list[int] = []
        self.lost: dict[int, list[list[float]]] = {}
        self.recovered: dict[int, Sequence[Face]] = {}
        self.embedded: list[int] = []
        self.searched: list[int] = []

    def __call__(
        self, frame: FakeFrame, *, thorough: bool, embeddings: bool, expressions: bool, robust: bool
    ) -> tuple[Face, ...]:
        assert (embeddings, expressions) == (False, True)
        self.searched.append(frame.index)
        if thorough:
            self.thorough.append(frame.index)
        if robust:
            self.robust.append(frame.index)
        found = self.faces.get(frame.index, ())
        return tuple(found) or (tuple(self.hidden.get(frame.index, ())) if thorough else ())

    def follow(self, frame: FakeFrame, faces: Sequence[Face], *, expressions: bool) -> list[Face | None]:
        assert expressions
        here = [*self.faces.get(frame.index, ()), *self.hidden.get(frame.index, ())]
        return [next((f for f in here if overlap(f.bbox, face.bbox) > 0.3), None) for face in faces]

    def recover(self, frame: FakeFrame, places: Sequence[Any], *, expressions: bool) -> tuple[Face, ...]:
        assert expressions
        self.lost[frame.index] = [place.tolist() for place in places]
        return tuple(self.recovered.get(frame.index, ()))

    def embed(self, frame: FakeFrame, face: Face) -> Any:
        self.embedded.append(frame.index)
        return embedding(0)


def analyzer(finder: FakeFinder, **options: bool) -> FrameAnalyzer:
    return FrameAnalyzer(cast(FaceFinder, finder), **options)


def frames(count: int, closed: list[bool] | None = None) -> Iterator[FakeFrame]:
    try:
        for index in range(count):
            yield grey(index=index)
    finally:
        if closed is not None:
            closed.append(True)


def test_frames_become_an_analysis_with_tracks_and_sampled_embeddings() -> None:
    finder = FakeFinder({i: [face(50 + i, 60)] for i in range(30)})
    told: list[int] = []
    timings: dict[str, float] = {}
    with analyze_frames(frames(30), analyzer(finder), timings=timings, progress=told.append) as made:
        assert [f.track for faces in made for f in faces] == [0] * 30
        assert [i for i in range(30) if made.raw(i)[0].embedding is not None] == finder.embedded == [0, 12, 24]
        assert made.time(10) == pytest.approx(0.4)
    assert told == list(range(1, 31))
    assert set(timings) == {"decode", "cut", "analyze"}
    assert SAMPLE_EVERY == 12


def test_hidden_faces_are_looked_for_now_and_then_and_then_followed() -> None:
    hidden: dict[int, Sequence[Face]] = {i: [face(50, 60)] for i in range(LOOK_EVERY - 3, LOOK_EVERY + 5)}
    finder = FakeFinder({}, hidden)
    with analyze_frames(frames(LOOK_EVERY + 8), analyzer(finder)) as made:
        assert [i for i in range(len(made)) if made.raw(i)] == list(range(LOOK_EVERY, LOOK_EVERY + 5))
    assert finder.thorough == [0, LOOK_EVERY, LOOK_EVERY + GROUP - 1, LOOK_EVERY + 7]
    assert finder.robust == [0, LOOK_EVERY]


def test_lost_faces_are_searched_for_where_they_should_be_until_their_track_ends() -> None:
    finder = FakeFinder({0: [face(50, 60)], 1: [face(54, 60), face(200, 90)], 2: [face(200, 90)]})
    finder.recovered = {3: [face(200, 90)]}
    with analyze_frames(frames(GAP + 12), analyzer(finder)) as made:
        assert [[f.track for f in made.raw(i)] for i in range(5)] == [[0], [0, 1], [1], [1], []]
    assert finder.lost[2] == [[26, 30, 86, 90]]  # it moved by half of 4 pixels a frame, the tracker thinks
    assert sorted(finder.lost) == list(range(2, 3 + GAP + 2))
    assert [len(finder.lost[i]) for i in (3, 4)] == [2, 2]
    assert finder.robust == []  # no look found nothing


def test_the_detector_looks_at_one_frame_of_a_group() -> None:
    finder = FakeFinder({i: [face(50 + i, 60)] for i in range(3 * GROUP)})
    analyze_frames(frames(3 * GROUP), analyzer(finder)).close()
    assert finder.searched == [0, GROUP - 1, 2 * GROUP - 1, 3 * GROUP - 1]


@pytest.mark.parametrize("first", range(1, GROUP + 2))
def test_a_new_face_is_found_back_to_where_it_came_from(first: int) -> None:
    faces: dict[int, Sequence[Face]] = {
        i: [face(50, 60), *([face(200, 90)] if i >= first else [])] for i in range(2 * GROUP)
    }
    with analyze_frames(frames(2 * GROUP), analyzer(FakeFinder(faces))) as made:
        assert [i for i in range(2 * GROUP) if len(made.raw(i)) == 2] == list(range(first, 2 * GROUP))
        assert {f.track for i in range(first, 2 * GROUP) for f in made.raw(i)} == {0, 1}


@pytest.mark.parametrize("last", range(GROUP - 1, 2 * GROUP))
def test_a_face_that_leaves_is_searched_for_once_it_is_lost(last: int) -> None:
    finder = FakeFinder({i: [face(50, 60)] for i in range(last + 1)})
    with analyze_frames(frames(3 * GROUP), analyzer(finder)) as made:
        assert [i for i in range(3 * GROUP) if made.raw(i)] == list(range(last + 1))
    assert last + 1 in finder.searched


@pytest.mark.parametrize("cut", range(1, GROUP))
def test_nothing_is_followed_across_a_cut(cut: int) -> None:
    def clip() -> Iterator[FakeFrame]:
        for index in range(GROUP):
            yield grey(index=index, level=40 if index < cut else 200)

    finder = FakeFinder({i: [face(50 if i < cut else 60, 60)] for i in range(GROUP)})
    with analyze_frames(clip(), analyzer(finder)) as made:
        assert [f.track for i in range(GROUP) for f in made.raw(i)] == [0] * cut + [1] * (GROUP - cut)
    assert cut in finder.searched


def test_a_thorough_search_is_thorough_on_every_frame() -> None:
    finder = FakeFinder({1: [face(50, 60)]})
    analyze_frames(frames(3), analyzer(finder, thorough=True)).close()
    assert finder.thorough == finder.robust == [0, 1, 2]


def test_no_frame_is_an_error_and_an_error_closes_the_frames() -> None:
    with pytest.raises(MediaError, match="no frame"):
        analyze_frames([], analyzer(FakeFinder({})))
    closed: list[bool] = []

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        analyze_frames(frames(500, closed), analyzer(FakeFinder({})), progress=stop)
    assert closed == [True]


def test_the_pose_of_a_head_is_told_in_degrees() -> None:
    turned = heads.face(heads.mesh(rotation=heads.turn(yaw=-20, roll=10)))
    nowhere = heads.face(np.zeros((478, 3), np.float32))
    with store([turned], [nowhere]) as made:
        first, second = made.to_dict()["frames"]
    pose = first["faces"][0]["pose"]
    assert (pose["yaw"], pose["roll"]) == pytest.approx((20, 10), abs=4)
    assert abs(pose["pitch"]) < 10
    assert second["faces"][0]["pose"] is None


def test_the_dictionary_is_ready_for_json() -> None:
    with store([face(50, 60, track=0)], []) as made:
        read = json.loads(json.dumps(made.to_dict()))
    assert read["frame_count"] == 2
    assert read["tracks"] == [{"track": 0, "first": 0, "last": 0, "faces": 1, "bbox": [20, 30, 80, 90]}]
    assert [len(frame["faces"]) for frame in read["frames"]] == [1, 0]
    assert read["frames"][0]["faces"][0]["bbox"] == [20, 30, 80, 90]
