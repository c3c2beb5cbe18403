"""Fit the linear effect of expressions on the canonical mesh: `python -m training.shape_basis --data DIR`.

Ridge regression of each vertex (canonical frame, cm) on the 52 blendshape scores, over photos of many
people: what varies with the scores is expression, what is left is the person. Only photos set apart
for training are read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mien.faces import FaceFinder
from mien.media import open_reader
from mien.mesh import SURFACE
from mien.shape import pose
from mien.zoo.registry import Zoo
from training.occluder.labels import known


def main() -> None:
    """Read the photos, fit, write the basis."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of training photos")
    parser.add_argument("--out", type=Path, default=Path("src/mien/weights/expression_basis.npz"))
    parser.add_argument("--ridge", type=float, default=1.0)
    args = parser.parse_args()
    finder = FaceFinder(Zoo("cpu"))
    shapes, scores = [], []
    held_out = known()["test"]  # the hard cases of the tests, which lie in the training set too
    for path in sorted(p for p in args.data.glob("*.jpg") if p.stem not in held_out):
        with open_reader(path) as reader:
            faces = finder(next(iter(reader)), thorough=False, embeddings=False, expressions=True)
        for face in faces[:1]:
            if face.presence > 0.9 and face.blendshapes is not None:
                placed = pose(face.mesh)
                shapes.append((face.mesh[:SURFACE] - placed.shift) @ placed.rotation / placed.scale)
                scores.append(face.blendshapes)
    x, y = np.c_[np.array(scores), np.ones(len(scores))], np.array(shapes).reshape(len(shapes), -1)
    penalty = args.ridge * np.diag([1.0] * 52 + [0.0])
    effect = np.linalg.solve(x.T @ x + penalty, x.T @ y)[:52].reshape(52, SURFACE, 3)
    left = (y - x @ np.linalg.solve(x.T @ x + penalty, x.T @ y)).var(0).sum() / y.var(0).sum()
    print(f"{len(shapes)} faces; expression explains {1 - left:.1%} of the variance")
    np.savez_compressed(args.out, expression=effect.astype(np.float16))


if __name__ == "__main__":
    main()
