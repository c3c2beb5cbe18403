"""What is measured, in what sense it is good, and how it is made of the columns of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mien.evaluate.statistics import DoubleArray, Estimate, Resampler, Statistic, auc_of, mean_of, ratio_of

Kind: TypeAlias = Literal["swap", "same", "cycle", "clip", "landmarks"]
Better: TypeAlias = Literal["higher", "lower"]
LIKE = 0.8
"""Cosine from which a swap counts as very like its source."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a report."""

    name: str
    kind: Kind
    text: str
    better: Better
    columns: tuple[str, ...]
    how: Literal["mean", "ratio", "auc"] = "mean"

    def statistic(self, columns: Sequence[DoubleArray]) -> Statistic:
        """The figure as a statistic of weighted rows."""
        match self.how:
            case "mean":
                return mean_of(columns[0])
            case "ratio":
                return ratio_of(columns[0], columns[1])
            case "auc":
                return auc_of(columns[0], columns[1])

    def estimate(self, resampler: Resampler, columns: Sequence[DoubleArray]) -> Estimate:
        """The figure and its interval over the resampler's rows; rows that lack a column are left out."""
        used = np.asarray(np.isfinite(np.stack(columns)).all(0), np.bool_)
        if self.how == "mean":
            return resampler.mean(columns[0])
        return resampler.estimate(self.statistic(columns), used)


def measures_of(judges: Sequence[str]) -> tuple[Measure, ...]:
    """All figures, in the order in which reports tell them."""
    return (
        Measure("results", "swap", "a face is found in the output", "higher", ("result",)),
        *(measure for judge in judges for measure in _identity(judge)),
        Measure(
            "expression", "swap", "blendshape difference to the target over the source's own", "lower",
            ("expression", "expression_before"), "ratio",
        ),
        Measure("pose", "swap", "head pose difference to the target, degrees", "lower", ("pose",)),
        Measure("seam", "swap", "edges added at the border, ln of energy", "lower", ("seam",)),
        Measure("softened", "swap", "edges lost at the border, ln of energy", "lower", ("softened",)),
        Measure("cast", "swap", "colour cast of the rim, ΔE2000", "lower", ("cast",)),
        Measure(
            "naturalness", "swap", "AUC of a classifier of swapped faces; 0.5 cannot be told apart", "lower",
            ("swapped_before", "swapped_after"), "auc",
        ),
        Measure("same.psnr", "same", "same person: PSNR inside the face's box, dB", "higher", ("psnr",)),
        Measure("same.ssim", "same", "same person: SSIM inside the face's box", "higher", ("ssim",)),
        Measure("same.perceptual", "same", "same person: distance of inner features", "lower", ("perceptual",)),
        *(
            Measure(f"same.identity.{judge}", "same", f"same person: cosine to the target, {judge}", "higher",
                    (f"{judge}.target",))
            for judge in judges
        ),
        *(
            Measure(f"cycle.identity.{judge}", "cycle", f"there and back: cosine to the photo, {judge}", "higher",
                    (f"{judge}.target",))
            for judge in judges
        ),
        Measure("cycle.psnr", "cycle", "there and back: PSNR inside the face's box, dB", "higher", ("psnr",)),
        Measure("flicker", "clip", "flicker over the target's, ln of energy", "lower", ("flicker",)),
        Measure("landmarks", "landmarks", "landmarks: error to hand-placed points, % of the eyes' distance", "lower",
                ("landmarks",)),
        Measure("landmarks.jaw", "landmarks", "landmarks: the same of the jaw alone", "lower", ("jaw",)),
    )  # fmt: skip


def _identity(judge: str) -> tuple[Measure, ...]:
    return (
        Measure(f"identity.{judge}", "swap", f"cosine to the source, {judge}", "higher", (f"{judge}.source",)),
        Measure(f"target.{judge}", "swap", f"cosine to the target, {judge}", "lower", (f"{judge}.target",)),
        Measure(f"nearer.{judge}", "swap", f"nearer to the source, {judge}", "higher", (f"{judge}.nearer",)),
        Measure(f"like.{judge}", "swap", f"cosine to the source above {LIKE}, {judge}", "higher", (f"{judge}.like",)),
        Measure(f"top1.{judge}", "swap", f"source found first among all sources, {judge}", "higher",
                (f"{judge}.top1",)),
    )  # fmt: skip


def in_slices(judges: Sequence[str]) -> tuple[str, ...]:
    """Names of the figures that are told of each slice."""
    own = (name for judge in judges for name in (f"identity.{judge}", f"top1.{judge}"))
    return (*own, "expression", "pose", "seam", "softened", "cast", "naturalness")
