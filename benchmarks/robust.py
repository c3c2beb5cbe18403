#!/usr/bin/env python3
"""Measures what robust search finds in degraded pictures that a plain search misses, and what it makes up.

usage: robust.py --data DIR [--people 8] [--half report|tune] [--sheet FILE.png]

DIR holds portraits/*.jpg and london/*_neutral.jpg, one person each; see `degrade` for what is made of them. People of
even places tune, those of odd places report. Faces down to 8 pixels are asked for. A face counts as found when its mesh
overlaps the known one by 0.4 or more and its keypoints are off by less than half the distance of the eyes; all others
that are reported, in pictures with a face and without, are false.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from benchmarks.degrade import STRENGTHS, Person, Scene, empty_scenes, people, read, scenes
from mien.faces import ArrayFrame, FaceFinder
from mien.options import AnalyzeOptions
from mien.robust import retried
from mien.search import SLACK, Search, unique
from mien.types import ByteArray, Face
from mien.zoo.cascade import load_detector
from mien.zoo.nms import iou
from mien.zoo.registry import Zoo

MODES = ("off", "auto", "on")
SMALLEST = 8


class Searcher:
    """Runs each search once and puts the modes together as `FaceFinder` does."""

    def __init__(self, device: str) -> None:
        zoo = Zoo(device)
        options = AnalyzeOptions(min_face=SMALLEST, robust="off")
        self.plain = FaceFinder(zoo, options)
        detector, landmarker = load_detector(zoo, options.detector), zoo.load("landmarker", options.landmarker)
        self._search = Search(detector, landmarker, options.min_score, options.min_face - SLACK)
        self._both = load_detector(zoo, f"{options.detector}+retinaface_mnet025")

    def __call__(self, image: ByteArray) -> dict[str, Sequence[Face]]:
        """Faces by mode."""
        frame = ArrayFrame(image)
        plain = self.plain(frame, embeddings=False)
        more = retried(self._search, self._both, frame)
        return {"off": plain, "auto": plain or more, "on": unique([*plain, *more], first=len(plain))}


def is_right(face: Face, scene: Scene) -> bool:
    if scene.box is None or scene.keypoints is None:
        return False
    box = np.concatenate([face.mesh[:, :2].min(0), face.mesh[:, :2].max(0)])
    apart = np.linalg.norm(face.keypoints - scene.keypoints, axis=1).mean()
    eyes = np.linalg.norm(scene.keypoints[0] - scene.keypoints[1])
    return bool(iou(scene.box, box[None])[0] >= 0.4 and apart < 0.5 * eyes)


class Tally:
    """Counts of one mode by kind and strength."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, float], list[bool]] = {}
        self.false: dict[tuple[str, float], int] = {}

    def add(self, scene: Scene, faces: Sequence[Face]) -> None:
        """Count what was reported of a scene."""
        key, right = (scene.kind, scene.strength), [is_right(face, scene) for face in faces]
        if scene.box is not None:
            self.found.setdefault(key, []).append(any(right))
        self.false[key] = self.false.get(key, 0) + right.count(False)

    def recall(self, kind: str | None = None) -> float:
        """Share of the scenes with a face in which it was found."""
        return float(np.mean([hit for key, hits in self.found.items() if kind in (None, key[0]) for hit in hits]))

    def mistakes(self, kind: str | None = None) -> int:
        """Faces reported where there is none."""
        return sum(count for key, count in self.false.items() if kind in (None, key[0]))


def report(tallies: dict[str, Tally], count: int) -> None:
    print(f"{count} people; recall (false faces) by mode")
    print(f"{'':10}" + "".join(f"{mode:>16}" for mode in MODES))
    for kind in (*STRENGTHS, None):
        cells = [f"{100 * tallies[m].recall(kind):.1f} % ({tallies[m].mistakes(kind)})" for m in MODES]
        print(f"{kind or 'all':10}" + "".join(f"{cell:>16}" for cell in cells))
    for kind, strengths in STRENGTHS.items():
        parts = [
            f"{s:g}: " + " ".join(f"{100 * np.mean(tallies[m].found[kind, s]):.0f}" for m in MODES) for s in strengths
        ]
        print(f"  {kind}: " + "; ".join(parts))


def drawn(scene: Scene, faces: Sequence[Face]) -> ByteArray:
    image = scene.image.copy()
    for face in faces:
        x0, y0, x1, y1 = (round(float(v)) for v in face.bbox)
        cv2.rectangle(image, (x0, y0), (x1, y1), (0, 255, 0) if is_right(face, scene) else (255, 0, 0), 2)
        for x, y in face.keypoints:
            cv2.circle(image, (round(float(x)), round(float(y))), 2, (255, 255, 0), -1)
    cv2.putText(image, f"{scene.name} {scene.kind} {scene.strength:g}", (5, 15), 0, 0.45, (255, 255, 0))
    return image


def write_sheet(path: Path, pictures: list[ByteArray]) -> None:
    blank = np.zeros_like(pictures[0])
    pictures = pictures + [blank] * (-len(pictures) % 6)
    rows = [np.concatenate(pictures[i : i + 6], 1) for i in range(0, len(pictures), 6)]
    cv2.imwrite(str(path), np.concatenate(rows)[:, :, ::-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--half", choices=("report", "tune"), default="report")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sheet", type=Path)
    arguments = parser.parse_args()
    paths = people(arguments.data, ("portraits", "london"))[arguments.half == "report" :: 2]
    step = max(1, len(paths) // arguments.people)
    search, tallies, count = Searcher(arguments.device), {mode: Tally() for mode in MODES}, 0
    pictures: list[ByteArray] = []
    for path in paths[step // 2 :: step][: arguments.people]:
        image = read(path)
        faces = search.plain.find_in_image(image, embeddings=False)
        if len(faces) != 1:
            continue
        count += 1
        person = Person(path.stem, image, faces[0])
        for scene in (*scenes(person), *empty_scenes(person)):
            found = search(scene.image)
            for mode in MODES:
                tallies[mode].add(scene, found[mode])
            if arguments.sheet and len(pictures) < 60 and len(found["on"]) != (scene.box is not None):
                pictures.append(drawn(scene, found["on"]))
        report(tallies, count)
    if arguments.sheet and pictures:
        write_sheet(arguments.sheet, pictures)


if __name__ == "__main__":
    main()
