"""WIDER FACE on drawn faces whose curves of precision and recall are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mien.errors import InputError
from mien.evaluate.protocols import ProtocolOptions, run, widerface
from mien.evaluate.protocols.wider_ap import Found, Truth, area, average_precision, curve, match, overlap
from tests.evaluate.protocols.drawn import DrawnZoo, blank, draw, save
from tests.evaluate.protocols.matlab import write_mat

OPTIONS = ProtocolOptions(robust="off")
FIRST, SECOND = "0--Parade/0_Parade_marchingband_1_1.jpg", "1--Handshaking/1_Handshaking_2.jpg"
LIST = f"""{FIRST}
4
20 20 60 60 0 0 0 0 0 0
120 20 60 60 0 0 0 0 0 0
220 20 60 60 2 0 0 1 0 0
60 150 18 8 2 0 0 0 2 0
{SECOND}
1
40 40 20 20 1 0 0 0 0 0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Found, best first: a face, one that is too small to count, an invalid one, none, a face, a small face."""
    first = draw(blank(400, 300), 20, 20, 60, score=1.0)
    draw(first, 120, 20, 60, score=0.6)
    draw(first, 220, 20, 60, score=0.9)
    first[150:158, 60:78] = draw(blank(30, 30), 0, 0, 30, score=0.95)[0:8, 0:18]
    draw(first, 300, 200, 40, score=0.8)
    save(tmp_path / "WIDER_val/images" / FIRST, first)
    save(tmp_path / "WIDER_val/images" / SECOND, draw(blank(), 40, 40, 20, score=0.4))
    (tmp_path / "wider_face_split").mkdir()
    (tmp_path / "wider_face_split/wider_face_val_bbx_gt.txt").write_text(LIST)
    return tmp_path


def groups(folder: Path, options: ProtocolOptions = OPTIONS) -> dict[str, widerface.Group]:
    report = run("widerface", folder, options, zoo=DrawnZoo())
    assert isinstance(report, widerface.WiderReport)
    return {group.name: group for group in report.groups}


def test_average_precision_by_height_is_that_of_the_known_curve(folder: Path) -> None:
    found = groups(folder)
    assert {name: group.faces for name, group in found.items()} == {
        "all": 3, "small": 1, "medium height": 2, "large": 0,
    }  # fmt: skip
    # All: right, wrong, right, right: precision 1, 1/2, 2/3, 3/4 at recall 1/3, 1/3, 2/3, 1.
    assert found["all"].average_precision == pytest.approx((1 + 3 / 4 + 3 / 4) / 3)
    assert found["medium height"].average_precision == pytest.approx((1 + 2 / 3) / 2)
    assert found["small"].average_precision == pytest.approx(1 / 2)
    assert [found[name].recall for name in ("all", "small", "medium height")] == [1, 1, 1]
    assert np.isnan(found["large"].average_precision)


def test_published_difficulties_are_told_where_their_lists_are(folder: Path) -> None:
    events = {"event_list": ["0--Parade", "1--Handshaking"]}
    files = {"file_list": [["0_Parade_marchingband_1_1"], ["1_Handshaking_2"]]}
    kept = {"easy": [[1], []], "medium": [[1, 2], []], "hard": [[1, 2, 3], [1]]}
    for name, (one, two) in kept.items():
        lists = {"gt_list": [[np.array(one, float).reshape(-1, 1)], [np.array(two, float).reshape(-1, 1)]]}
        write_mat(folder / f"eval_tools/ground_truth/wider_{name}_val.mat", {**events, **files, **lists})
    found = groups(folder)
    assert list(found)[:3] == ["easy", "medium", "hard"]
    assert [found[name].faces for name in ("easy", "medium", "hard")] == [1, 2, 4]
    assert found["easy"].average_precision == pytest.approx(1)
    assert found["medium"].average_precision == pytest.approx((1 + 2 / 3) / 2)
    # Now the third face counts: right, right, wrong, right, right.
    assert found["hard"].average_precision == pytest.approx((1 + 1 + 4 / 5 + 4 / 5) / 4)


def test_lists_of_other_photos_are_refused(folder: Path) -> None:
    lists = {"event_list": ["0--Parade"], "file_list": [["other"]], "gt_list": [[np.array([[1.0]])]]}
    for name in widerface.DIFFICULTIES:
        write_mat(folder / f"ground_truth/wider_{name}_val.mat", lists)
    with pytest.raises(InputError, match=r"wider_easy_val\.mat: is not of the photos"):
        groups(folder)


def test_the_whole_search_can_be_judged(folder: Path) -> None:
    found = groups(folder, OPTIONS.model_copy(update={"search": True}))
    # The search asks for a score of 0.75, so it gives the face, the invalid one and the wrong place only.
    assert found["medium height"].recall == pytest.approx(1 / 2)
    assert found["medium height"].average_precision == pytest.approx(1 / 2)
    assert found["small"].recall == 0


def test_the_notes_tell_what_was_left_out(folder: Path) -> None:
    report = run("widerface", folder, OPTIONS.model_copy(update={"limit": 1}), zoo=DrawnZoo())
    assert "difficulties cannot be told" in report.notes[0] and "first 1 photos" in report.notes[-1]
    assert report.lines()[1].split() == ["yunet", "faces", "AP", "recall"]
    assert report.lines()[5].split() == ["large", "0", "–", "–"]
    assert report.to_dict()["groups"][3]["average_precision"] is None


def test_a_photo_without_faces_has_one_line_of_zeros(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"{FIRST}\n0\n0 0 0 0 0 0 0 0 0 0 \n{SECOND}\n1\n1 2 3 4 0 0 0 1 0 0 \n")
    none, one = widerface.parse(tmp_path / "list.txt")
    assert none.boxes.shape == (0, 4) and one.boxes.tolist() == [[1, 2, 3, 4]] and one.valid.tolist() == [False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("../../etc/x.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n", "is not followed by a number"),
        (f"{FIRST}\nx\n", "is not followed by a number"),
        (f"{FIRST}\n2\n1 2 3 4 0 0 0 0 0 0\n", "faces are not 10 numbers"),
        (f"{FIRST}\n1\n1 2 3 x 0 0 0 0 0 0\n", "'x' is no number"),
    ],
)
def test_a_list_that_is_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        widerface.parse(tmp_path / "list.txt")


def test_missing_parts_are_named(folder: Path) -> None:
    (folder / "WIDER_val").rename(folder / "other")
    with pytest.raises(InputError, match="looked for WIDER_val/images"):
        groups(folder)
    (folder / "wider_face_split/wider_face_val_bbx_gt.txt").unlink()
    with pytest.raises(InputError, match=r"looked for wider_face_split/wider_face_val_bbx_gt\.txt"):
        groups(folder)


def found(boxes: list[list[float]], scores: list[float]) -> Found:
    return Found(np.array(boxes, float).reshape(-1, 4), np.array(scores, float))


def test_a_second_box_of_a_face_counts_against_and_boxes_of_ignored_faces_do_not() -> None:
    truth = Truth(np.array([[0, 0, 99, 99], [200, 0, 99, 99]], float), np.array([True, False]))
    boxes = [[0, 0, 99, 99], [200, 0, 99, 99], [0, 0, 99, 89], [200, 0, 99, 89], [500, 0, 99, 99]]
    counted, hits = match(np.array(boxes, float), truth)
    assert counted.tolist() == [1, 1, 2, 2, 3]
    assert hits.tolist() == [1, 1, 1, 1, 1]


def test_overlap_counts_both_ends_of_a_box() -> None:
    a = np.array([[0, 0, 9, 9]], float)  # 10 × 10 pixels
    b = np.array([[5, 0, 9, 9], [0, 5, 9, 4], [10, 0, 9, 9]], float)
    np.testing.assert_allclose(overlap(a, b), [[50 / 150, 50 / 100, 0]])


def test_scores_are_stretched_over_the_whole_set() -> None:
    truth = [Truth(np.array([[0, 0, 9, 9]], float), np.array([True]))] * 2
    photos = [found([[0, 0, 9, 9]], [8.0]), found([[50, 0, 9, 9], [0, 0, 9, 9]], [5.0, 4.0])]
    precision, recall = curve(photos, truth, 2)
    # 8, 5 and 4 become 1, 1/4 and 0.
    assert (precision[748], recall[748]) == (1, 0.5)  # level 0.251
    assert (precision[750], recall[750]) == (0.5, 0.5)  # level 0.249
    assert (precision[998], recall[998]) == (0.5, 0.5) and (precision[999], recall[999]) == (2 / 3, 1)
    assert average_precision(photos, truth) == pytest.approx(((1 + 2 / 3) / 2, 1))


def test_nothing_found_is_zero_and_nothing_to_find_is_unknown() -> None:
    truth = [Truth(np.array([[0, 0, 9, 9]], float), np.array([True]))]
    assert average_precision([found([], [])], truth) == (0, 0)
    nothing = [Truth(np.zeros((0, 4)), np.zeros(0, bool))]
    assert np.isnan(average_precision([found([[0, 0, 9, 9]], [1])], nothing)).all()


def test_the_area_is_under_the_upper_envelope() -> None:
    assert area(np.array([1, 0.5, 0.6]), np.array([0.2, 0.4, 0.8])) == pytest.approx(0.2 + 0.6 * 0.6)


def by_the_official_code(photos: list[Found], truth: list[Truth]) -> float:
    """The loops of the set's own evaluation: `image_evaluation`, `image_pr_info`, `dataset_pr_info` and `voc_ap`."""
    everything = np.concatenate([photo.scores for photo in photos])
    low, high = everything.min(), everything.max()
    total, faces = np.zeros((1000, 2)), 0
    for photo, known in zip(photos, truth, strict=True):
        faces += int(known.counts.sum())
        recalled, proposals, so_far = np.zeros(len(known.boxes)), np.ones(len(photo.boxes)), np.zeros(len(photo.boxes))
        for h, box in enumerate(photo.boxes):
            overlaps = overlap(box[None], known.boxes)[0]
            best = int(overlaps.argmax())
            if overlaps[best] >= 0.5:
                if not known.counts[best]:
                    recalled[best], proposals[h] = -1, -1
                elif recalled[best] == 0:
                    recalled[best] = 1
            so_far[h] = (recalled == 1).sum()
        for t in range(1000):
            threshold = 1 - (t + 1) / 1000
            above = np.where((photo.scores - low) / (high - low) >= threshold)[0]
            if len(above):
                total[t] += (proposals[: above[-1] + 1] == 1).sum(), so_far[above[-1]]
    precision, recall = total[:, 1] / np.maximum(total[:, 0], 1e-9), total[:, 1] / faces
    right, height = np.concatenate([[0], recall, [1]]), np.concatenate([[0], precision, [0]])
    for i in range(len(height) - 1, 0, -1):
        height[i - 1] = max(height[i - 1], height[i])
    steps = np.where(right[1:] != right[:-1])[0]
    return float(((right[steps + 1] - right[steps]) * height[steps + 1]).sum())


@pytest.mark.parametrize("seed", range(8))
def test_random_sets_are_judged_as_by_the_official_code(seed: int) -> None:
    chance = np.random.default_rng(seed)
    photos, truth = [], []
    for _ in range(6):
        faces = np.c_[chance.uniform(0, 300, (7, 2)), chance.uniform(20, 60, (7, 2))]
        near = faces[chance.integers(0, 7, 12)] + chance.normal(0, 6, (12, 4))
        photos.append(Found(near, np.sort(chance.uniform(0.1, 0.9, 12))[::-1]))
        truth.append(Truth(faces, chance.random(7) < 0.7))
    assert average_precision(photos, truth)[0] == pytest.approx(by_the_official_code(photos, truth), abs=1e-9)
