"""Measures the classifier on people that it was not trained on, and shows what it judges by.

usage: python -m training.naturalness.evaluate FILE --data DIR [--work DIR] [--part held-out] [--sheets DIR]

For each kind of swap: the area under the ROC curve with its interval over people (0.5: swaps cannot be told from
photos), and how much less swapped a swap looks once a part of the untouched face is put back, which tells where the
classifier sees faults. Sheets show the least and the most natural swaps: photo, swap, source.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from mien.evaluate.statistics import Estimate, Resampler, auc_of
from mien.geometry import transform
from mien.mesh import BROWS, EYES, LIPS, OVAL, upright_matrix
from mien.runtime.session import Session
from mien.types import ByteArray, FloatArray
from training.naturalness.photos import Photo, chosen, look_at
from training.naturalness.swaps import JUDGED, KINDS, Swaps
from training.naturalness.train import bundled, material

NOSE = (168, 193, 122, 196, 198, 129, 98, 97, 2, 326, 327, 358, 420, 419, 351, 417)
"""Outline of the nose, on the mesh."""
RIM = 0.07
"""Width of the ring about the outline, as a share of the crop."""
SHOWN = 8
"""Rows of a sheet."""


def scores(network: Session, crops: ByteArray) -> FloatArray:
    """(N,) logits of (N, S, S, 3) crops."""
    planes = np.ascontiguousarray(crops.transpose(0, 3, 1, 2)).astype(np.float32) / 255
    parts = [network(planes[i : i + 32])[0][:, 0] for i in range(0, len(planes), 32)]
    return np.asarray(np.concatenate(parts), np.float32)


def area(found: Sequence[Photo], swaps: Swaps, before: FloatArray, after: FloatArray) -> Estimate:
    """Area under the ROC curve.

    Args:
        before: (N,) logits of the photos that were swapped.
        after: (N,) logits of the swaps.
    """
    sources, targets = ([found[i].person for i in column] for column in (swaps.source, swaps.target))
    used = np.ones(len(after), np.bool_)
    return Resampler(sources, targets).estimate(auc_of(before.astype(np.float64), after.astype(np.float64)), used)


def regions(photo: Photo) -> Mapping[str, FloatArray]:
    """(S, S) soft masks of the parts of a face in the classifier's crop; `rim`, about its outline, overlaps others."""
    matrix = upright_matrix(photo.face.mesh, JUDGED.margin, JUDGED.side)
    points = transform(photo.face.mesh[:, :2], matrix)
    side = JUDGED.side

    def hull(*outlines: Sequence[int], grown: float) -> FloatArray:
        mask = np.zeros((side, side), np.uint8)
        for outline in outlines:
            cv2.fillConvexPoly(mask, cv2.convexHull(points[list(outline)].round().astype(np.int32)), 1)
        reach = 2 * round(grown * side) + 1
        return np.asarray(cv2.dilate(mask, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))), np.float32)

    face, inner = hull(OVAL, grown=0.02), 1 - hull(OVAL, grown=0)
    rows = np.mgrid[:side, :side][0]
    eyes = np.maximum(hull(*EYES, grown=0.02), hull(*BROWS, grown=0.015))
    mouth, nose = hull(LIPS, grown=0.02), hull(NOSE, grown=0.01)
    brow = points[[*BROWS[0], *BROWS[1]], 1].min()
    forehead = face * (rows < brow) * (1 - eyes)
    reach = 2 * round(RIM * side / 2) + 1
    rim = cv2.dilate(face, np.ones((reach, reach))) - cv2.erode(1 - inner, np.ones((reach, reach)))
    rest = face * (1 - np.maximum.reduce([eyes, mouth, nose, forehead]))
    parts = {"rim": rim, "forehead": forehead, "eyes, brows": eyes, "nose": nose, "mouth": mouth, "cheeks, jaw": rest}
    return {name: np.asarray(cv2.GaussianBlur(part, (0, 0), 1.5), np.float32) for name, part in parts.items()}


def put_back(
    network: Session, found: Sequence[Photo], untouched: ByteArray, swaps: Swaps, after: FloatArray
) -> dict[str, float]:
    """Part → mean fall of the logit once the untouched part is put back into the swap."""
    masks = [regions(found[target]) for target in swaps.target]
    falls = {}
    for name in masks[0]:
        share = np.stack([mask[name] for mask in masks])[..., None]
        mixed = swaps.crops + share * (untouched[swaps.target].astype(np.float32) - swaps.crops)
        falls[name] = float((after - scores(network, np.asarray(np.rint(mixed), np.uint8))).mean())
    return falls


def sheet(found: Sequence[Photo], untouched: ByteArray, swaps: Swaps, after: FloatArray) -> ByteArray:
    """Least natural swaps on the left, most natural on the right; photo, swap and source of each."""
    order = np.argsort(-after)
    columns = []
    for chosen_ones in (order[: 2 * SHOWN], order[::-1][: 2 * SHOWN]):
        strips = [
            np.concatenate([untouched[swaps.target[i]], _told(swaps.crops[i], after[i]), untouched[swaps.source[i]]], 1)
            for i in chosen_ones
        ]
        columns += [np.concatenate(strips[:SHOWN]), np.concatenate(strips[SHOWN:])]
    return np.concatenate(columns, 1)


def _told(crop: ByteArray, logit: float) -> ByteArray:
    text = np.ascontiguousarray(crop)
    cv2.putText(text, f"{logit:.1f}", (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 0), 1, cv2.LINE_AA)
    return text


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the classifier of swapped faces.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("naturalness-work"))
    parser.add_argument("--part", choices=("training", "held-out"), default="held-out")
    parser.add_argument("--swapgan", type=Path, default=bundled(), help="weights of the blending network")
    parser.add_argument("--sheets", type=Path, help="folder for pictures")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    network = Session(options.file, "cpu")
    found = look_at(chosen(options.data, options.part, 0), options.work / "photos", options.jobs)
    seen = material(found, JUDGED, options.swapgan, options.work, options.jobs)
    before = scores(network, seen.untouched)
    for kind, swaps in zip(KINDS, seen.kinds, strict=True):
        after = scores(network, swaps.crops)
        print(f"{kind}: AUC {area(found, swaps, before[swaps.target], after).text} of {len(after)} swaps")
        falls = put_back(network, found, seen.untouched, swaps, after)
        print("  fall of the logit when put back: " + ", ".join(f"{name} {fall:.2f}" for name, fall in falls.items()))
        if options.sheets:
            options.sheets.mkdir(parents=True, exist_ok=True)
            picture = sheet(found, seen.untouched, swaps, after)
            cv2.imwrite(str(options.sheets / f"{kind}.png"), picture[..., ::-1])


if __name__ == "__main__":
    main()
