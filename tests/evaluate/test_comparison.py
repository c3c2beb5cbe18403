"""Figures of made-up rows, and paired differences between two reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mien.errors import InputError, MediaError
from mien.evaluate.comparison import ALL, Difference, compare
from mien.evaluate.report import SCHEMA, EvalReport, Row, summarise
from mien.evaluate.tables import comparison, lines, markdown

JUDGES = ("one",)


def rows(count: int = 60, gain: float = 0.0, seed: int = 0) -> list[Row]:
    """Swaps between 20 people, whose cosines differ much by person; `gain` is added to each."""
    chance = np.random.default_rng(seed)
    level = chance.uniform(0.4, 0.8, 20)
    found = []
    for i in range(count):
        source, target = i % 20, (i * 7 + 3) % 20
        cosine = float(level[source] + gain)
        values = {
            "result": 1.0,
            "one.source": cosine,
            "one.like": float(cosine > 0.8),
            "seam": float(chance.uniform(0.2, 0.4)),
            "swapped_before": float(chance.normal()),
            "swapped_after": float(chance.normal() + 2),
            "expression": 0.1,
            "expression_before": 0.2 if i % 2 else 0.4,
        }
        tone = "dark" if target < 5 else "light"
        names = (f"a/{source}.jpg", f"b/{target}_{i}.jpg", f"a/{source}", f"b/{target}")
        found.append(Row("swap", *names, {"target skin_tone": tone}, values))
    return found


def by_name(differences: tuple[Difference, ...], name: str, part: str = ALL) -> Difference:
    (found,) = [each for each in differences if (each.measure, each.slice) == (name, part)]
    return found


def test_figures_are_of_their_rows() -> None:
    members = rows()
    report = summarise(members, JUDGES, {"seed": 1})
    cosines = np.array([row.values["one.source"] for row in members])
    assert report.summary["identity.one"].mean == pytest.approx(cosines.mean())
    assert report.summary["identity.one"].low < cosines.mean() < report.summary["identity.one"].high
    assert report.summary["like.one"].mean == pytest.approx((cosines > 0.8).mean())
    assert report.summary["expression"].mean == pytest.approx(0.1 / 0.3)  # a ratio of means
    assert 0.8 < report.summary["naturalness"].mean < 1
    assert "pose" not in report.summary  # nothing was measured of it
    dark = [row.values["one.source"] for row in members if row.slices["target skin_tone"] == "dark"]
    assert report.slices["target skin_tone: dark"]["identity.one"].mean == pytest.approx(np.mean(dark))
    assert report.slices["target skin_tone: dark"]["identity.one"].count == len(dark)


def test_a_slice_that_falls_behind_is_told() -> None:
    members = [
        replace(row, values={**row.values, "seam": 0.4 if row.slices["target skin_tone"] == "dark" else 0.2})
        for row in rows()
    ]
    report = summarise(members, JUDGES, {})
    seam = next(each for each in report.behind if each.measure == "seam")
    mean = report.summary["seam"].mean
    assert seam.slice == "target skin_tone: dark"
    assert seam.percent == pytest.approx(100 * (0.4 - mean) / mean, abs=0.01)
    assert (seam.flagged, seam.sure, seam.count) == (True, True, 15)
    level = summarise([replace(row, values={**row.values, "seam": 0.2}) for row in members], JUDGES, {})
    assert [each.flagged for each in level.behind if each.measure == "seam"] == [False]


def test_small_slices_are_not_compared() -> None:
    members = [replace(row, slices={"target pose": "turned"} if i < 9 else {}) for i, row in enumerate(rows())]
    assert summarise(members, JUDGES, {}).behind == ()


def test_a_report_read_again_is_the_same(tmp_path: Path) -> None:
    report = summarise(rows(), JUDGES, {"seed": 3, "pairs": 60}, ["b/x.jpg: no face"], 12.5)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report.to_dict()))
    assert EvalReport.load(path) == report
    told = report.to_dict()
    assert told["schema"] == SCHEMA == "mien.eval/1"
    assert set(told) == {"schema", "settings", "judges", "summary", "slices", "behind", "skipped", "rows", "seconds"}
    assert set(told["rows"][0]) == {"kind", "source", "target", "source_person", "target_person", "slices", "values"}
    assert set(told["summary"]["seam"]) == {"mean", "low", "high", "count"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "is no JSON"),
        ("[]", "has the schema None"),
        ('{"schema": "mien.eval/99"}', "has the schema 'mien.eval/99'"),
        ('{"schema": "mien.eval/1"}', "is a damaged report"),
        ('{"schema": "mien.eval/1", "rows": [{"kind": "x"}], "judges": [], "settings": {}}', "is a damaged report"),
    ],
)  # fmt: skip
def test_what_is_no_report_is_told(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        EvalReport.load(path)


def test_a_missing_report_is_told(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="cannot be read"):
        EvalReport.load(tmp_path / "report.json")


def test_a_small_gain_on_the_same_pairs_is_seen_though_its_intervals_overlap() -> None:
    old, new = summarise(rows(), JUDGES, {}), summarise(rows(gain=0.02), JUDGES, {})
    assert new.summary["identity.one"].low < old.summary["identity.one"].high
    found = by_name(compare(new, old), "identity.one")
    assert found.difference.mean == pytest.approx(0.02)
    assert found.difference.low == pytest.approx(0.02) == pytest.approx(found.difference.high)
    assert found.verdict == "better"
    assert by_name(compare(old, new), "identity.one").verdict == "worse"
    assert by_name(compare(old, old), "identity.one").verdict == "same"


def test_lower_is_better_for_seams_and_noise_is_no_difference() -> None:
    old, noise = summarise(rows(), JUDGES, {}), summarise(rows(seed=1), JUDGES, {})
    less = [replace(row, values={**row.values, "seam": row.values["seam"] - 0.05}) for row in rows()]
    assert by_name(compare(summarise(less, JUDGES, {}), old), "seam").verdict == "better"
    assert by_name(compare(noise, old), "seam").verdict == "same"


def test_naturalness_is_compared_as_an_area() -> None:
    old = summarise(rows(), JUDGES, {})
    hidden = [replace(row, values={**row.values, "swapped_after": row.values["swapped_after"] - 2}) for row in rows()]
    found = by_name(compare(summarise(hidden, JUDGES, {}), old), "naturalness")
    assert found.mean == pytest.approx(0.5, abs=0.12)
    assert found.other > 0.8
    assert found.difference.mean == pytest.approx(found.mean - found.other)
    assert found.verdict == "better"


def test_slices_are_compared_too() -> None:
    better = [
        replace(row, values={**row.values, "seam": 0.1}) if row.slices["target skin_tone"] == "dark" else row
        for row in rows()
    ]
    differences = compare(summarise(better, JUDGES, {}), summarise(rows(), JUDGES, {}))
    assert by_name(differences, "seam", "target skin_tone: dark").verdict == "better"
    assert by_name(differences, "seam", "target skin_tone: light").difference.mean == 0
    text = comparison(differences)
    assert "| target skin_tone: dark: edges added at the border, ln of energy | 0.100 |" in text
    assert "target skin_tone: light" not in text


def test_only_swaps_that_both_have_are_compared() -> None:
    old = summarise(rows()[:30], JUDGES, {})
    found = by_name(compare(summarise(rows(gain=0.1), JUDGES, {}), old), "identity.one")
    assert found.difference.count == 30
    assert found.other == pytest.approx(old.summary["identity.one"].mean)
    stranger = summarise([replace(row, source=f"x/{row.source}") for row in rows()], JUDGES, {})
    with pytest.raises(InputError, match="share no pair"):
        compare(stranger, old)


def test_the_report_as_text_tells_each_figure_once() -> None:
    report = summarise(rows(), JUDGES, {"pairs": 60}, ["b/x.jpg: no face was found"], 61.4)
    text = markdown(report, ["seam.jpg"])
    found = report.summary["seam"]
    row = (
        f"| edges added at the border, ln of energy | ↓ | {found.mean:.3f} | {found.low:.3f} to {found.high:.3f} | 60 |"
    )
    assert text.count(row) == 1
    assert "| pairs | 60 |" in text and "| seconds | 61 |" in text
    assert "![seam.jpg](seam.jpg)" in text and "- b/x.jpg: no face was found" in text
    assert f"cosine to the source, one: {report.summary['identity.one'].text}, n 60" in list(lines(report))
