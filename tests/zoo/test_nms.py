from __future__ import annotations

import numpy as np

from mien.zoo.nms import iou, nms


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array(rows, np.float32)


def test_iou_of_a_half_shifted_a_contained_and_a_distant_box() -> None:
    other = boxes((5, 0, 15, 10), (0, 0, 5, 5), (20, 20, 30, 30), (0, 0, 10, 10))
    np.testing.assert_allclose(iou(boxes((0, 0, 10, 10))[0], other), [1 / 3, 0.25, 0, 1], atol=1e-6)


def test_the_first_box_is_kept_when_it_is_the_best() -> None:
    kept = nms(boxes((0, 0, 10, 10), (1, 0, 11, 10), (50, 0, 60, 10)), np.array([0.9, 0.8, 0.7], np.float32))
    assert kept.tolist() == [0, 2]


def test_the_best_box_wins_wherever_it_stands_and_the_order_is_by_score() -> None:
    kept = nms(boxes((0, 0, 10, 10), (50, 0, 60, 10), (1, 0, 11, 10)), np.array([0.5, 0.6, 0.9], np.float32))
    assert kept.tolist() == [2, 1]


def test_a_box_that_only_a_dropped_box_overlaps_is_kept() -> None:
    chain = boxes((0, 0, 10, 10), (4, 0, 14, 10), (8, 0, 18, 10))
    assert nms(chain, np.array([0.9, 0.8, 0.7], np.float32)).tolist() == [0, 2]


def test_overlap_at_the_threshold_is_allowed() -> None:
    pair = boxes((0, 0, 10, 10), (0, 0, 10, 4))
    scores = np.array([0.9, 0.8], np.float32)
    assert nms(pair, scores, 0.4).tolist() == [0, 1]
    assert nms(pair, scores, 0.39).tolist() == [0]


def test_boxes_of_a_part_of_a_pixel_and_of_nothing() -> None:
    small, nothing = (0, 0, 0.05, 0.05), (3, 3, 3, 3)
    kept = nms(boxes(small, small, nothing, nothing), np.array([0.9, 0.8, 0.7, 0.6], np.float32))
    assert kept.tolist() == [0, 2, 3]


def test_many_equal_scores_stay_in_their_order() -> None:
    apart = np.array([(20 * i, 0, 20 * i + 9, 9) for i in range(300)], np.float32)
    assert nms(apart, np.tile(np.array([0.5, 0.7], np.float32), 150)).tolist() == [*range(1, 300, 2), *range(0, 300, 2)]


def test_equal_scores_keep_the_earlier_and_none_is_none() -> None:
    assert nms(boxes((0, 0, 9, 9), (0, 0, 9, 9)), np.array([0.5, 0.5], np.float32)).tolist() == [0]
    assert nms(np.zeros((0, 4), np.float32), np.zeros(0, np.float32)).tolist() == []
