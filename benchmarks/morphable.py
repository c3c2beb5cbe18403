"""Pose, shape and light of rendered heads, against the truth: `python -m benchmarks.morphable --data DIR`.

DIR holds `ict_facekit_light.npz`. Heads of random people with random expressions (yaw within 45°, pitch within 25°) are
rendered to pixels under random lamps; the detector and the landmarker look at them as at any picture. None of these
scenes was used to measure the landmarker's errors. `projected` is the same without pictures: the true vertices, seen
by the camera, go straight to the fit.

Curvature: the mean curvature of the mesh as a map in the picture, normals blurred by 1/40 of the face, correlated with
that of the true head at the same points (see `tests.curvature.curvature_map`). `mean face` is the same with the
model's mean in place of the found shape, posed alike: what one has without any fit of shape.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import numpy.typing as npt

from mien.faces import FaceFinder
from mien.light import light_of
from mien.mesh import constants
from mien.morphable import Fit, Person, fit
from mien.types import FloatArray
from mien.zoo.registry import Zoo
from tests.curvature import curvature_correlation
from tests.rendered_heads import HeadModel, Rendered, Scene, render, scene

DoubleArray = npt.NDArray[np.float64]
FIRST = 10_000
"""Scenes below this are for training."""
FRAMES = 6
"""Pictures of one person that are explained together."""


def main() -> None:
    """Render, look, fit, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--heads", type=int, default=120)
    parser.add_argument("--people", type=int, default=8, help=f"of whom {FRAMES} pictures each are taken")
    args = parser.parse_args()
    model, finder = HeadModel.load(args.data / "ict_facekit_light.npz"), FaceFinder(Zoo("cpu"))
    rows, missed = [], 0
    for seed in range(FIRST, FIRST + args.heads):
        shown = scene(model, seed)
        picture = render(model, model.shape(shown.identity, shown.expression), shown.view)
        faces = finder.find_in_image(picture.image, embeddings=False)
        if len(faces) == 1:
            rows.append(measured(shown, picture, faces[0].mesh))
        else:
            missed += 1
    result: dict[str, object] = {name: summary([row[name] for row in rows]) for name in rows[0]}
    near = [row for row in rows if abs(row["yaw"]) < 20]
    result["heads"], result["not found"] = len(rows), missed
    result["pitch error, yaw within 20"] = summary([row["pitch error"] for row in near])
    result["shape rms of a person, cm"] = people(model, finder, args.people)
    print(json.dumps(result, indent=2, ensure_ascii=False))


def measured(shown: Scene, picture: Rendered, mesh: FloatArray) -> dict[str, float]:
    """The errors of one head."""
    fit(mesh)
    start = process_time()
    found = fit(mesh)
    spent = process_time() - start
    exact, lamp, view = fit(projected(picture)), shown.view.lamp, shown.view
    light = light_of(picture.image, mesh, found)
    towards = np.array(lamp.direction) / np.linalg.norm(lamp.direction)
    blank = replace(found, identity=found.identity * 0, expression=found.expression * 0)
    truth = true(picture)
    return {
        "yaw": view.yaw,
        "yaw error": abs(found.yaw + view.yaw),
        "pitch error": abs(found.pitch + view.pitch),
        "roll error": abs(found.roll - view.roll),
        "curvature": curvature_correlation(truth, seen(found)),
        "curvature, mean face": curvature_correlation(truth, seen(blank)),
        "light direction error": float(np.degrees(np.arccos(np.clip(light.direction @ towards, -1, 1)))),
        "ambient share error": abs(light.ambient - lamp.ambient / (lamp.ambient + lamp.power)),
        "residual, cm": found.residual,
        "fit, ms of CPU": 1000 * spent,
        "projected: yaw error": abs(exact.yaw + view.yaw),
        "projected: pitch error": abs(exact.pitch + view.pitch),
        "projected: curvature": curvature_correlation(truth, seen(exact)),
    }


def people(model: HeadModel, finder: FaceFinder, count: int) -> dict[str, float]:
    """How far neutral shapes are off, size apart: the mean face, one picture, all pictures of a person together."""
    errors: dict[str, list[float]] = {"mean face": [], "one picture": [], f"{FRAMES} pictures": []}
    for number in range(count):
        person, own = Person(), scene(model, FIRST + 5000 + number).identity
        truth = placed(model.shape(own))
        for frame in range(FRAMES):
            shown = scene(model, FIRST + 6000 + number * FRAMES + frame)
            picture = render(model, model.shape(own, shown.expression), shown.view)
            faces = finder.find_in_image(picture.image, embeddings=False)
            if len(faces) == 1:
                found = person.add(faces[0].mesh)
                errors["one picture"].append(apart(neutral(found.identity), truth))
        errors[f"{FRAMES} pictures"].append(apart(neutral(person.identity), truth))
        errors["mean face"].append(apart(neutral(person.identity * 0), truth))
    return {name: round(float(np.mean(values)), 3) for name, values in errors.items()} if count else {}


def projected(picture: Rendered) -> FloatArray:
    """(468, 3) the mesh that a landmarker without noise would give: the truth and its usual error in this pose."""
    points, camera = true(picture)
    blank = fit(np.c_[points, camera[:, 2] * picture.scale].astype(np.float32))
    truth = replace(blank, rotation=picture.rotation)
    usual = truth.landmarks() - truth.vertices()
    return np.asarray(np.c_[points, camera[:, 2] * picture.scale] + usual * picture.scale / truth.scale, np.float32)


def true(picture: Rendered) -> tuple[FloatArray, DoubleArray]:
    """(468, 2) pixels and (468, 3) cm in camera axes of the mesh's points on the rendered head."""
    corners, weights = constants("morphable.npz", "corners", "barycentric")
    points = np.einsum("nkc,nk->nc", picture.points[corners], weights)
    return points.astype(np.float32), placed(picture.vertices) @ picture.rotation.T


def placed(vertices: DoubleArray) -> DoubleArray:
    """(468, 3) the mesh's points on a head's vertices."""
    corners, weights = constants("morphable.npz", "corners", "barycentric")
    return np.asarray(np.einsum("nkc,nk->nc", vertices[corners], weights), np.float64)


def seen(found: Fit) -> tuple[FloatArray, DoubleArray]:
    """The same of a fit."""
    return found.vertices()[:, :2], found.head().astype(np.float64) @ found.rotation.T


def neutral(identity: FloatArray) -> DoubleArray:
    """(468, 3) cm."""
    mean, modes = constants("morphable.npz", "mean", "identity")
    return np.asarray(mean + np.tensordot(identity, modes.astype(np.float64), 1), np.float64)


def apart(points: DoubleArray, truth: DoubleArray) -> float:
    """Root mean square distance, cm, after the best similarity."""
    a, b = points - points.mean(0), truth - truth.mean(0)
    u, s, vt = np.linalg.svd(a.T @ b)
    return float(np.sqrt(((a @ u @ vt * (s.sum() / (a * a).sum()) - b) ** 2).sum(1).mean()))


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean with its 95 % interval, median, 95th percentile and the worst two ends."""
    array = np.array(values)
    return {
        "mean": round(float(array.mean()), 3),
        "±": round(float(1.96 * array.std() / np.sqrt(len(array))), 3),
        "median": round(float(np.median(array)), 3),
        "p95": round(float(np.percentile(array, 95)), 3),
        "least": round(float(array.min()), 3),
        "most": round(float(array.max()), 3),
    }


if __name__ == "__main__":
    main()
