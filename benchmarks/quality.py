"""Quality of the default swap, as numbers: `python -m benchmarks.quality --data DIR --evaluator FILE.onnx`.

Over random ordered pairs of the portraits and hard cases: does a result come out, is it nearer to the
source than to the target by an embedder that the swapper does not use, how near is it to the source by the
one that it does, and did expression and pose stay the target's. Over neutral and smiling photos of one person:
PSNR and SSIM against the untouched target inside the detector's box.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import mien
from mien.errors import NoFaceError
from mien.faces import FaceFinder
from mien.geometry import warp
from mien.media import open_reader
from mien.mesh import SURFACE
from mien.runtime.session import Session
from mien.shape import pose_difference
from mien.types import Box, ByteArray, Face, FloatArray
from mien.zoo.registry import Zoo

CROP = 1.25
"""Side of the evaluator's crop over the extent of the mesh."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is measured of one face."""

    face: Face
    embedding: FloatArray
    evaluation: FloatArray


class Judge:
    """Looks at photos, swaps and compares."""

    def __init__(self, data: Path, evaluator: Path) -> None:
        self.data = data
        self.zoo = Zoo("cpu")
        self._finder = FaceFinder(self.zoo)
        self._evaluator = Session(evaluator, "cpu")
        self._output = Path(tempfile.mkdtemp()) / "output.png"
        self.look = cache(self._look)
        self.identity = cache(self._identity)

    def pixels(self, path: Path) -> ByteArray:
        """The photo, RGB uint8."""
        with open_reader(path) as reader:
            frame = next(iter(reader))
            return np.asarray(frame.read(Box(0, 0, frame.width, frame.height)), np.uint8)

    def swap(self, source: Path, target: Path) -> tuple[ByteArray, Look | None]:
        """The output's pixels, and its face where the target has its own."""
        mien.swap(self.identity(source), target, self._output, zoo=self.zoo)
        pixels = self.pixels(self._output)
        return pixels, self._describe(pixels, near=self.look(target).face)

    def _look(self, path: Path) -> Look:
        found = self._describe(self.pixels(path), near=None)
        if found is None:
            raise NoFaceError(f"{path}: no face")
        return found

    def _identity(self, path: Path) -> mien.Identity:
        return mien.Identity.from_images([path], zoo=self.zoo)

    def _describe(self, pixels: ByteArray, near: Face | None) -> Look | None:
        faces = self._finder.find_in_image(pixels, expressions=True)
        if near is not None:
            faces = tuple(sorted(faces, key=lambda f: float(np.abs(f.bbox - near.bbox).sum())))
        if not faces:
            return None
        face = faces[0]
        assert face.embedding is not None
        return Look(face, face.embedding, self._evaluate(pixels, face))

    def _evaluate(self, pixels: ByteArray, face: Face) -> FloatArray:
        low, high = face.mesh[:SURFACE, :2].min(0), face.mesh[:SURFACE, :2].max(0)
        scale = 224 / (CROP * float((high - low).max()))
        middle = (low + high) / 2
        matrix = np.array([[scale, 0, 112 - scale * middle[0]], [0, scale, 112 - scale * middle[1]]], np.float32)
        outputs = self._evaluator(warp(pixels, matrix, 224, 224)[None].astype(np.float32))
        vector = max((o.ravel() for o in outputs), key=len)
        return np.asarray(vector / np.linalg.norm(vector), np.float32)


def pairs(data: Path, count: int, seed: int) -> Iterator[tuple[Path, Path]]:
    """Random ordered pairs of different people."""
    people = sorted(p for folder in ("portraits", "hard") for p in (data / folder).glob("*.jpg"))
    chance = random.Random(seed)
    for _ in range(count):
        source, target = chance.sample(people, 2)
        yield source, target


def strangers(judge: Judge, count: int, seed: int) -> dict[str, object]:
    """Swaps between different people."""
    rows, missing, far, undetected = [], [], [], 0
    for source, target in pairs(judge.data, count, seed):
        name = f"{source.stem} -> {target.stem}"
        try:
            s, t = judge.look(source), judge.look(target)
        except NoFaceError:
            undetected += 1
            continue
        _, out = judge.swap(source, target)
        if out is None:
            missing.append(name)
            continue
        row = (
            float(out.evaluation @ s.evaluation),
            float(out.evaluation @ t.evaluation),
            float(out.embedding @ s.embedding),
            float(out.embedding @ t.embedding),
            _expression(out.face, t.face),
            _expression(s.face, t.face),
            pose_difference(out.face.mesh, t.face.mesh),
        )
        rows.append(row)
        if row[0] <= row[1]:
            far.append(name)
    table = np.array(rows)
    means = [round(float(v), 4) for v in table.mean(0)]
    tried = len(rows) + len(missing)
    return {
        "pairs": count,
        "without a detectable face": undetected,
        "results": round(len(rows) / tried, 4),
        "nearer to the source (independent embedder)": round(float((table[:, 0] > table[:, 1]).mean()), 4),
        "cosine to source, to target (independent)": means[:2],
        "cosine to source, to target (own)": means[2:4],
        "nearer to the source (own)": round(float((table[:, 2] > table[:, 3]).mean()), 4),
        "blendshape difference output-target, source-target": means[4:6],
        "blendshape ratio": round(float(table[:, 4].mean() / table[:, 5].mean()), 4),
        "pose difference mean, median, p95 (degrees)": [
            round(float(v), 3) for v in (table[:, 6].mean(), np.median(table[:, 6]), np.percentile(table[:, 6], 95))
        ],
        "no result": missing,
        "not nearer": far,
    }


def same_person(judge: Judge) -> dict[str, object]:
    """Neutral on smiling and back, against the untouched target."""
    from skimage.metrics import structural_similarity  # the rest works without scikit-image

    psnr, ssim = [], []
    for neutral in sorted((judge.data / "london").glob("*_neutral.jpg")):
        smiling = neutral.with_name(neutral.name.replace("neutral", "smiling"))
        if not smiling.exists():
            continue
        for source, target in ((neutral, smiling), (smiling, neutral)):
            output, _ = judge.swap(source, target)
            truth = judge.pixels(target)
            box = judge.look(target).face.bbox.round().astype(int)
            part = np.s_[max(0, box[1]) : box[3], max(0, box[0]) : box[2]]
            psnr.append(_psnr(output[part], truth[part]))
            ssim.append(float(structural_similarity(output[part], truth[part], channel_axis=2)))
    return {
        "swaps": len(psnr),
        "PSNR mean, least (dB)": [round(float(np.mean(psnr)), 2), round(float(np.min(psnr)), 2)],
        "SSIM mean, least": [round(float(np.mean(ssim)), 4), round(float(np.min(ssim)), 4)],
    }


def _expression(a: Face, b: Face) -> float:
    assert a.blendshapes is not None and b.blendshapes is not None
    return float(np.abs(a.blendshapes - b.blendshapes).mean())


def _psnr(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> float:
    return float(10 * np.log10(255**2 / max(float(((a.astype(np.float32) - b) ** 2).mean()), 1e-9)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with portraits/, hard/ and london/")
    parser.add_argument("--evaluator", type=Path, required=True, help="ONNX embedder that the swapper does not use")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-same", action="store_true")
    args = parser.parse_args()
    judge = Judge(args.data, args.evaluator)
    result: dict[str, object] = {"strangers": strangers(judge, args.pairs, args.seed)}
    if not args.skip_same:
        result["same person"] = same_person(judge)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
