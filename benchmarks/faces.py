#!/usr/bin/env python3
"""Measures how well faces are found: detection, landmarks, embeddings, and tilt, size and crop stress.

usage: python -m benchmarks.faces --data DIR [--device cpu]

DIR holds portraits/*.jpg and hard/*.jpg (one person each), and london/NNN_neutral.jpg with 189
landmarks in NNN_neutral.txt and NNN_smiling.jpg (Face Research Lab London Set, CC BY 4.0).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from benchmarks import london189
from mien.evaluate.handplaced import read_points
from mien.faces import ArrayFrame, FaceFinder
from mien.geometry import transform
from mien.types import ByteArray, Face, FloatArray
from mien.zoo.registry import Zoo


def read(path: Path) -> ByteArray:
    image = cv2.imread(str(path))
    assert image is not None, path
    return np.ascontiguousarray(image[:, :, ::-1], np.uint8)


def detection(finder: FaceFinder, folder: Path) -> None:
    """One person a picture: who is missed, doubled or doubtful."""
    paths = sorted(folder.glob("*.jpg"))
    missed: list[str] = []
    several: list[str] = []
    doubtful: list[str] = []
    for path in paths:
        faces = finder.find_in_image(read(path), embeddings=False)
        if len(faces) != 1:
            (several if faces else missed).append(path.stem)
        doubtful += [path.stem for face in faces if face.presence < 0.5]
    print(f"{folder.name}: found in {len(paths) - len(missed)} of {len(paths)}; missed: {', '.join(missed) or '-'}; ")
    print(f"  several: {', '.join(several) or '-'}; mesh in doubt: {', '.join(doubtful) or '-'}")


def london(finder: FaceFinder, folder: Path) -> None:
    """Landmarks against hand-placed ones; same person against different people."""
    ids, meshes, points = list[int](), list[FloatArray](), list[FloatArray]()
    embeddings: dict[str, list[FloatArray]] = {"neutral": [], "smiling": []}
    smile: dict[str, list[float]] = {"neutral": [], "smiling": []}
    for truth in sorted(folder.glob("*_neutral.txt")):
        ids.append(int(truth.stem[:3]))
        placed = read_points(truth)
        assert placed is not None, truth
        points.append(placed)
        for mood in embeddings:
            face = finder.find_in_image(read(folder / f"{truth.stem[:3]}_{mood}.jpg"), expressions=True)[0]
            assert face.embedding is not None and face.blendshapes is not None
            embeddings[mood].append(face.embedding)
            smile[mood].append(float(face.blendshapes[44:46].mean()))
            if mood == "neutral":
                meshes.append(face.mesh)
    print("\n".join(london189.report(np.array(ids), np.stack(meshes), np.stack(points))))
    similar = np.stack(embeddings["neutral"]) @ np.stack(embeddings["smiling"]).T
    same, other = np.diag(similar), similar[~np.eye(len(similar), dtype=bool)]
    print(f"london cosine, same person: mean {same.mean():.3f}, min {same.min():.3f}")
    found = float((similar.argmax(1) == np.arange(len(same))).mean())
    print(f"  different people: mean {other.mean():.3f}, 99.9th percentile {np.percentile(other, 99.9):.3f}")
    print(f"  max {other.max():.3f}; nearest is the same person: {found:.3f}")
    print(f"london smile blendshape: neutral {np.mean(smile['neutral']):.3f}, smiling {np.mean(smile['smiling']):.3f}")


def turned(image: ByteArray, degrees: float) -> tuple[ByteArray, FloatArray]:
    """The image turned clockwise on a grey canvas that holds it, and the (2, 3) matrix that did it."""
    height, width = image.shape[:2]
    side = math.ceil(math.hypot(height, width))
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), -degrees, 1).astype(np.float32)
    matrix[:, 2] += [(side - width) / 2, (side - height) / 2]
    canvas = cv2.warpAffine(image, matrix, (side, side), borderValue=(110, 110, 110))
    return np.asarray(canvas, np.uint8), matrix


def score(faces: Sequence[Face], keypoints: FloatArray) -> float:
    """Mean keypoint error over the distance of the eyes; NaN when not exactly one face was found."""
    if len(faces) != 1:
        return math.nan
    apart = np.linalg.norm(faces[0].keypoints - keypoints, axis=1).mean()
    return float(apart / np.linalg.norm(keypoints[0] - keypoints[1]))


def stress(finder: FaceFinder, paths: Sequence[Path]) -> Iterator[tuple[str, bool, list[float]]]:
    """Errors of tilted, scaled and tightly cropped faces against those of the plain picture."""
    images = [read(path) for path in paths]
    known = [finder.find_in_image(image, embeddings=False)[0] for image in images]

    def errors(made: Sequence[tuple[ByteArray, FloatArray]], thorough: bool) -> list[float]:
        return [
            score(finder(ArrayFrame(image), thorough=thorough, embeddings=False), transform(face.keypoints, matrix))
            for (image, matrix), face in zip(made, known, strict=True)
        ]

    for thorough in (True, False):
        for degrees in range(0, 360, 45):
            yield f"{degrees}°", thorough, errors([turned(image, degrees) for image in images], thorough)
        for height in (16, 20, 24, 32):
            small = [shrunk(image, face, height) for image, face in zip(images, known, strict=True)]
            yield f"{height} px in 1920×1080", thorough, errors(small, thorough)
        for part in (1.0, 0.8, 0.7, 0.6):
            tight = [cropped(image, face, part) for image, face in zip(images, known, strict=True)]
            yield f"crop of {part} × box", thorough, errors(tight, thorough)
    known = known[:2]
    large = [resized(image, 4000 / (face.bbox[3] - face.bbox[1])) for image, face in zip(images, known, strict=False)]
    yield "4000 px", True, errors(large, True)


def resized(image: ByteArray, scale: float) -> tuple[ByteArray, FloatArray]:
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    matrix = np.array([[scale, 0, (scale - 1) / 2], [0, scale, (scale - 1) / 2]], np.float32)
    image = np.asarray(
        cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC), np.uint8
    )
    return image, matrix


def shrunk(image: ByteArray, face: Face, height: float) -> tuple[ByteArray, FloatArray]:
    small, matrix = resized(image, height / float(face.bbox[3] - face.bbox[1]))
    canvas = np.full((1080, 1920, 3), 110, np.uint8)
    canvas[400 : 400 + small.shape[0], 900 : 900 + small.shape[1]] = small
    matrix[:, 2] += [900, 400]
    return canvas, matrix


def cropped(image: ByteArray, face: Face, part: float) -> tuple[ByteArray, FloatArray]:
    centre, half = (face.bbox[:2] + face.bbox[2:]) / 2, (face.bbox[2:] - face.bbox[:2]) * part / 2
    x0, y0 = np.maximum(centre - half, 0).astype(int)
    x1, y1 = (centre + half).astype(int)
    return image[y0:y1, x0:x1].copy(), np.array([[1, 0, -x0], [0, 1, -y0]], np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", choices=("detection", "london", "stress"))
    arguments = parser.parse_args()
    finder = FaceFinder(Zoo(arguments.device))
    if arguments.only in (None, "detection"):
        for name in ("portraits", "hard", "london"):
            detection(finder, arguments.data / name)
    if arguments.only in (None, "london"):
        london(finder, arguments.data / "london")
    if arguments.only in (None, "stress"):
        paths = sorted((arguments.data / "portraits").glob("*.jpg"))[::14]
        print(f"{len(paths)} faces: exactly one found; worst and median keypoint error over the distance of the eyes:")
        for name, thorough, values in stress(finder, paths):
            good = [value for value in values if not math.isnan(value)]
            figures = f"{max(good):.3f} {np.median(good):.3f}" if good else ""
            print(f"  {name:22} {'thorough' if thorough else 'quick':8} {len(good)}/{len(values)} {figures}")


if __name__ == "__main__":
    main()
