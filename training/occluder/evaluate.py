"""Figures of an exported occluder masker: IoU on held-out composites, false alarms on faces without occluders.

usage: python -m training.occluder.evaluate FILE --data DIR [--work DIR] [--plain DIR]
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import cv2
import numpy as np

from mien.mesh import SURFACE
from mien.runtime.session import Session
from mien.zoo.tensors import to_nchw
from training.occluder.crops import SIZE, STORED, Array, load_or_make
from training.occluder.dataset import MAKERS, Composer

HALF = (0.5, 0.5, 0.5)
log = logging.getLogger("occluder")


def predict(session: Session, image: Array) -> Array:
    """SIZE×SIZE probabilities of one crop."""
    return np.asarray(session(to_nchw(image[None], HALF, HALF))[0][0, 0], np.float32)


def iou(said: Array, label: Array, weight: Array) -> tuple[float, float]:
    """Pixels in common and in either, where the label is known."""
    known = weight > 0.2
    a, b = (said > 0.5) & known, (label > 0.5) & known
    return float((a & b).sum()), float((a | b).sum())


def composites(session: Session, composer: Composer, count: int) -> None:
    """IoU by kind of occluder, and false alarms of composites without one."""
    for kind in [name for _, name, _ in MAKERS]:
        stream, both, either = composer.samples(7, kind), 0.0, 0.0
        for _ in range(count):
            sample = next(stream)
            said = predict(session, sample.image)
            common, union = iou(said, sample.label, sample.weight)
            both, either = both + common, either + union
        log.info("%-12s IoU %.3f", kind, both / max(either, 1))
    stream, wrong, free = composer.samples(7, "none"), 0.0, 0.0
    for _ in range(4 * count):
        sample = next(stream)
        said = predict(session, sample.image)
        plain = (sample.weight > 0.9) & (sample.label < 0.05)
        wrong, free = wrong + float((said[plain] > 0.5).sum()), free + float(plain.sum())
    log.info("none         false alarms %.3f %% of the pixels", 100 * wrong / free)


def face_only(mesh: Array, top: float) -> Array:
    """SIZE×SIZE 0/1 inside the mesh's hull, below `top` (0 the brows' height … 1 the top of the mesh)."""
    points = mesh[:SURFACE, :2]
    mask = np.zeros((SIZE, SIZE), np.uint8)
    cv2.fillConvexPoly(mask, cv2.convexHull(np.round(points).astype(np.int32)), 1)
    brow, high = points[[105, 334], 1].mean(), points[10, 1]
    mask[: max(0, int(brow + (high - brow) * top))] = 0
    return mask


def plain_faces(session: Session, folder: Path, cache: Path) -> None:
    """False alarms on photos of faces that nothing covers, away from the hair."""
    crops, edge = load_or_make(folder, cache), (STORED - SIZE) // 2
    rates = []
    for image, mesh in zip(crops.images, crops.meshes, strict=True):
        said = predict(session, image[edge : edge + SIZE, edge : edge + SIZE])
        inside = face_only(mesh - np.array([edge, edge, 0], np.float32), 0.4) > 0
        rates.append(float((said[inside] > 0.5).mean()))
    worst = sorted(zip(rates, crops.names, strict=True), reverse=True)[:8]
    log.info("plain faces  false alarms %.3f %% of the pixels, median %.3f %%, worst: %s",
             100 * float(np.mean(rates)), 100 * float(np.median(rates)),
             ", ".join(f"{name} {100 * rate:.1f} %" for rate, name in worst))  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure an occluder masker.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the training photos")
    parser.add_argument("--work", type=Path, default=Path("occluder-work"))
    parser.add_argument("--plain", type=Path, help="folder of faces that nothing covers")
    parser.add_argument("--count", type=int, default=60, help="composites of each kind")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    session = Session(options.file, "cpu", threads=1)
    blank, times = np.zeros((1, 3, SIZE, SIZE), np.float32), []
    for _ in range(40):
        began = time.perf_counter()
        session(blank)
        times.append(time.perf_counter() - began)
    log.info(
        "one crop %.1f ms (fastest %.1f), %d bytes",
        1e3 * np.median(times),
        1e3 * min(times),
        options.file.stat().st_size,
    )
    composites(session, Composer(load_or_make(options.data, options.work / "crops.npz"), held_out=True), options.count)
    if options.plain:
        plain_faces(session, options.plain, options.work / "plain.npz")


if __name__ == "__main__":
    main()
