"""Tracks, scene cuts, and smoothing that does not lag."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.tracking import GAP, SAMPLE_EVERY, Tracker, _assign, between, smooth, smoothed
from mien.types import ByteArray, Face, FloatArray
from tests.fakes import embedding, face, grey

PLAIN = grey().thumbnail(96)


def follow(tracker: Tracker, index: int, *faces: Face, thumbnail: ByteArray = PLAIN) -> list[int]:
    tracker.begin(index, tracker.cut(thumbnail))
    return [f.track for f in tracker.update(index, faces)]


def test_two_faces_keep_their_numbers_whatever_their_order() -> None:
    tracker = Tracker()
    assert follow(tracker, 0, face(100, 100), face(200, 100)) == [0, 1]
    assert follow(tracker, 1, face(196, 102), face(104, 98)) == [1, 0]
    assert follow(tracker, 2, face(108, 96)) == [0]
    assert follow(tracker, 3, face(112, 94), face(188, 104), face(40, 40)) == [0, 1, 2]


def test_a_moving_face_is_expected_where_it_goes() -> None:
    tracker = Tracker()
    numbers = [follow(tracker, i, face(50 + 30 * i, 100))[0] for i in range(8)]
    assert numbers == [0] * 8


@pytest.mark.parametrize(("missing", "same"), [(1, True), (GAP, True), (GAP + 1, False)])
def test_a_short_gap_keeps_the_track(missing: int, same: bool) -> None:
    tracker = Tracker()
    follow(tracker, 0, face(100, 100))
    for index in range(1, missing + 1):
        follow(tracker, index)
    assert follow(tracker, missing + 1, face(100, 100)) == [0 if same else 1]


def test_a_face_of_another_size_is_another_face() -> None:
    tracker = Tracker()
    follow(tracker, 0, face(100, 100, 60))
    assert follow(tracker, 1, face(100, 100, 20)) == [1]


def test_embeddings_decide_where_places_do_not() -> None:
    a, b = embedding(0), embedding(2)
    tracker = Tracker()
    follow(tracker, 0, face(100, 100, embedding=a), face(130, 100, embedding=b))
    # Both jumped onto the other's place.
    assert follow(tracker, 1, face(130, 100, embedding=a), face(100, 100, embedding=b)) == [0, 1]
    without = Tracker()
    follow(without, 0, face(100, 100), face(130, 100))
    assert follow(without, 1, face(130, 100), face(100, 100)) == [1, 0]


def test_embedding_is_asked_for_new_contested_and_sampled_faces_only() -> None:
    tracker = Tracker()
    tracker.begin(0, tracker.cut(PLAIN))
    assert tracker.unsure(0, [face(100, 100)]) == [True]
    tracker.update(0, [face(100, 100, embedding=embedding(0))])
    asked = []
    for index in range(1, SAMPLE_EVERY + 2):
        tracker.begin(index, False)
        asked += tracker.unsure(index, [face(100, 100)])
        tracker.update(index, [face(100, 100)])
    assert [i + 1 for i, ask in enumerate(asked) if ask] == [SAMPLE_EVERY]
    assert tracker.unsure(SAMPLE_EVERY + 2, [face(90, 100), face(115, 100), face(250, 100)]) == [True, True, True]


def test_a_stranger_who_jumps_in_is_a_new_face() -> None:
    """A cut between two people before the same wall; the colours hardly change."""
    for there, same in (
        (face(115, 100, embedding=embedding(1.4)), False),
        (face(115, 100, embedding=embedding(0.5)), True),
    ):
        tracker = Tracker()
        follow(tracker, 0, face(100, 100, embedding=embedding(0)))
        tracker.begin(1, False)
        assert tracker.unsure(1, [there]) == [True]
        assert [f.track for f in tracker.update(1, [there])] == [0 if same else 1]
    # In the same place, the landmarks tell.
    other = face(100, 100, embedding=embedding(1.4))
    other.mesh[::2, 0] += 2
    swapped = Tracker()
    follow(swapped, 0, face(100, 100, embedding=embedding(0)))
    assert swapped.unsure(1, [other]) == [True]
    assert follow(swapped, 1, other) == [1]
    # Where they stay too, something only hides the face.
    hidden = Tracker()
    follow(hidden, 0, face(100, 100, embedding=embedding(0)))
    assert follow(hidden, 1, face(102, 100, embedding=embedding(1.4))) == [0]


def test_a_cut_starts_new_tracks_and_a_pan_does_not() -> None:
    rng = np.random.default_rng(3)
    picture = np.clip(np.cumsum(rng.normal(0, 3, (96, 300, 3)), 1) + 120, 0, 255).astype(np.uint8)
    other = np.ascontiguousarray(255 - picture[:, :96])
    tracker = Tracker()
    cuts = [tracker.cut(np.ascontiguousarray(picture[:, 2 * i : 2 * i + 96])) for i in range(20)]
    assert cuts == [False] * 20
    tracker.update(19, [face(100, 100)])
    assert tracker.cut(other)
    tracker.begin(20, True)
    assert [f.track for f in tracker.update(20, [face(100, 100)])] == [1]
    assert not tracker.cut(other)


def test_a_flash_of_brightness_noise_is_no_cut() -> None:
    rng = np.random.default_rng(4)
    base = rng.integers(30, 200, (54, 96, 3)).astype(np.int16)
    tracker = Tracker()
    for _ in range(10):
        noisy = np.clip(base + rng.normal(0, 4, base.shape), 0, 255).astype(np.uint8)
        assert not tracker.cut(noisy)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 10_000))
def test_assignment_matches_brute_force(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0, 3, (rows, columns)).astype(np.float32)
    costs[rng.random((rows, columns)) < 0.3] = np.inf
    pairs = _assign(costs)
    assert len({r for r, _ in pairs}) == len({c for _, c in pairs}) == len(pairs)
    filled = np.full((max(rows, columns),) * 2, 1e6)
    filled[:rows, :columns] = np.where(np.isfinite(costs), costs, 1e6)
    best = min((sum(filled[i, p[i]] for i in range(len(p))) for p in permutations(range(len(filled)))), default=0.0)
    paired = sum(float(costs[r, c]) for r, c in pairs)
    assert paired + 1e6 * (len(filled) - len(pairs)) == pytest.approx(best, rel=1e-6, abs=1e-3)


def points(*xy: tuple[float, float]) -> FloatArray:
    return np.array([(x, y, 0) for x, y in xy], np.float32)


def test_a_still_face_stays_exactly() -> None:
    window = {offset: face(100, 100).mesh for offset in range(-2, 3)}
    np.testing.assert_array_equal(smooth(window, 60), face(100, 100).mesh)


@settings(deadline=None, max_examples=30)
@given(st.floats(-40, 40), st.floats(-40, 40))
def test_a_steady_motion_is_not_lagged_at_any_speed(dx: float, dy: float) -> None:
    window = {offset: face(100 + dx * offset, 100 + dy * offset).mesh for offset in range(-2, 3)}
    np.testing.assert_allclose(smooth(window, 60), face(100, 100).mesh, atol=1e-3)


def test_the_first_and_last_frames_of_a_moving_track_are_not_lagged() -> None:
    window = {offset: face(100 + 10 * offset, 100).mesh for offset in range(3)}
    np.testing.assert_array_equal(smooth(window, 60), face(100, 100).mesh)


def test_jitter_is_reduced_and_its_mean_kept() -> None:
    rng = np.random.default_rng(1)
    size, still = 200.0, face(100, 100, 200).mesh
    noisy = still + rng.normal(0, 0.003 * size, (300, *still.shape)).astype(np.float32)
    done = np.stack([smooth({o: noisy[i + o] for o in range(-2, 3)}, size) for i in range(2, 298)])
    assert (done - still)[..., :2].std() < 0.6 * (noisy - still)[..., :2].std()
    np.testing.assert_allclose(done[..., :2].mean(0), noisy[2:298, :, :2].mean(0), atol=0.0015 * size)


def test_a_blink_is_kept_and_the_rest_of_the_face_smoothed() -> None:
    # The first point is an eyelid that closes for one frame by 4 % of the face; the second shakes by 0.3 %.
    size = 100.0
    window = {o: points((0, 0), (50, 50 + 0.3 * (-1) ** o)) for o in range(-2, 3)}
    window[0] = points((0, 4), (50, 50.3))
    done = smooth(window, size)
    assert done[0, 1] == pytest.approx(4, abs=0.01)
    assert abs(done[1, 1] - 50) < 0.1


def test_smoothed_keeps_everything_but_the_landmarks() -> None:
    window = {o: face(100 + o * o, 100, track=7) for o in range(-2, 3)}
    done = smoothed(window)
    assert (done.track, done.score) == (7, window[0].score)
    assert done.bbox is window[0].bbox
    assert done.keypoints[0, 0] > window[0].keypoints[0, 0]


def test_a_missing_face_lies_between_its_neighbours() -> None:
    made = between(face(100, 100, 60, track=3, score=0.9), face(130, 160, 90, track=3, score=0.7), 1 / 3)
    expected = face(110, 120, 70, track=3)
    np.testing.assert_allclose(made.mesh, expected.mesh, atol=1e-3)
    np.testing.assert_allclose(made.bbox, expected.bbox, atol=1e-3)
    assert (made.track, made.score, made.embedding) == (3, 0.7, None)
