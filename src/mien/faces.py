"""Finds and describes the faces of a frame: detection, mesh, keypoints, embedding, expression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mien.geometry import invert, scale_of, template_matrix, transform
from mien.mesh import IRISES, MOUTH_CORNERS, NOSE_TIP
from mien.options import AnalyzeOptions
from mien.types import ByteArray, Detection, Face, FloatArray, Image
from mien.views import (
    ArrayFrame,
    Frame,
    Region,
    View,
    angle_of,
    crop_of,
    padded,
    region_of_detection,
    region_of_mesh,
    tiles,
    turned,
    view_of,
)
from mien.zoo.cascade import load_detector
from mien.zoo.nms import nms
from mien.zoo.registry import Zoo

__all__ = ["ArrayFrame", "FaceFinder", "Frame", "keypoints_of_mesh"]

EXPRESSION = "blendshapes52"
"""The model that reads expressions."""
COARSE = 640
"""Longest side of the first look; it finds faces of 1/40 of the frame up to all of it."""
QUICK = 1280
"""Longest side of the second look when a frame is not searched thoroughly."""
SMALLEST = 20
"""Side in pixels at which the detector still finds most faces."""
SLACK = 5
"""Boxes of the smallest faces are this many pixels too small at times."""
UPRIGHT = 0.93
"""Detector score that only upright faces reach: of 700 turned by 90° to 270°, the best had 0.92."""
SURE = 0.85
"""Detector score that outweighs a landmarker in doubt; profiles have it."""
CLOSE = 160
"""Side in pixels of a second look at one face."""
GAIN = 0.15
"""What a real face gains at least over `min_score` when looked at closely; leaves and wheels do not."""
PASSES = 2
"""The landmarker runs this often, each time on the upright crop that its last mesh asks for."""
PRESENCE = 0.5
BATCH = 16


class FaceFinder:
    """Finds the faces of one frame and describes each: `finder(frame)`.

    Raises:
        OptionsError, ModelError, DeviceError: see `Zoo.load`.
    """

    def __init__(self, zoo: Zoo, options: AnalyzeOptions | None = None) -> None:
        self._options = options or AnalyzeOptions()
        self._zoo = zoo
        self._detector = load_detector(zoo, self._options.detector)
        self._landmarker = zoo.load("landmarker", self._options.landmarker)

    def __call__(
        self, frame: Frame, *, thorough: bool = True, embeddings: bool = True, expressions: bool = False
    ) -> tuple[Face, ...]:
        """Faces by area, largest first.

        `thorough` also looks for faces upside down or lying, for small ones at full resolution, and for
        faces without background; without it, the cost of a frame without faces is that of one or two detections.
        """
        base = _look_at(frame, self._options.detect_size or COARSE)
        faces = self._describe(frame, base, self._detect(self._views(frame, base, thorough)))
        if not faces and thorough:
            faces = self._describe(frame, base, self._detect(turned(padded(base, COARSE))))
        if faces and embeddings:
            crops = [self._aligned(frame, face, base) for face in faces]
            faces = [replace(f, embedding=e) for f, e in zip(faces, self._embedder(np.stack(crops)), strict=True)]
        if faces and expressions:
            scores = self._expression(np.stack([face.mesh for face in faces]))
            faces = [replace(f, blendshapes=s) for f, s in zip(faces, scores, strict=True)]
        return tuple(sorted(faces, key=lambda face: -_area(face.bbox)))

    def find_in_image(self, image: Image, *, embeddings: bool = True, expressions: bool = False) -> tuple[Face, ...]:
        """Faces of an H×W×3 RGB array, uint8 or float32 0–1."""
        return self(ArrayFrame(image), embeddings=embeddings, expressions=expressions)

    def embed(self, frame: Frame | Image, face: Face) -> FloatArray:
        """(D,) L2-normalised embedding of a face, from the frame or RGB array that it lies in."""
        source = ArrayFrame(frame) if isinstance(frame, np.ndarray) else frame
        embedding: FloatArray = self._embedder(self._aligned(source, face)[None])[0]
        return embedding

    @property
    def _embedder(self) -> Any:
        return self._zoo.load("embedder", self._options.embedder)

    @property
    def _expression(self) -> Any:
        return self._zoo.load("expression", EXPRESSION)

    def _aligned(self, frame: Frame, face: Face, base: View | None = None) -> ByteArray:
        model = self._embedder
        return crop_of(frame, template_matrix(face.keypoints, model.template, model.size), model.size, base)

    def _views(self, frame: Frame, base: View, thorough: bool) -> Iterator[View]:
        """The coarse look first, then larger pictures: a face is well found from 16 to some 500 pixels."""
        yield from turned(base) if thorough else (base,)
        if self._options.detect_size:
            return
        longest = max(frame.width, frame.height)
        fine = longest * min(1.0, SMALLEST / self._options.min_face)
        if not thorough and fine > 1.2 * COARSE:
            yield _look_at(frame, min(round(fine), QUICK))
        while thorough and fine > 1.2 * COARSE:
            yield from tiles(frame, fine / longest)
            fine /= 4

    def _detect(self, views: Iterator[View]) -> list[Detection]:
        """Detections of all views, in frame pixels, overlapping ones removed."""
        hits = [(hit, hit.score - view.handicap - hit.guessed) for view in views for hit in self._look(view)]
        if not hits:
            return []
        keep = nms(np.stack([hit.bbox for hit, _ in hits]), np.array([rank for _, rank in hits], np.float32))
        return [hits[i][0] for i in keep]

    def _look(self, view: View) -> Iterator[Detection]:
        height, width = view.image.shape[:2]
        edges = np.array([2, 2, width - 3, height - 3], np.float32)
        for hit in self._detector(view.image, self._options.min_score):
            outside = np.array([*(hit.bbox[:2] < edges[:2]), *(hit.bbox[2:] > edges[2:])])
            if (outside & view.inner).any():
                continue  # cut by a tile's edge; a neighbour or the coarse look has it whole
            x0, y0, x1, y1 = hit.bbox
            corners = transform(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float32), view.to_frame)
            bbox = np.concatenate([corners.min(0), corners.max(0)])
            if max(bbox[2:] - bbox[:2]) >= self._options.min_face - SLACK:
                yield Detection(bbox, hit.score, transform(hit.keypoints, view.to_frame), hit.guessed)

    def _describe(self, frame: Frame, base: View, hits: list[Detection]) -> list[Face]:
        """Faces of the detections that the landmarker confirms, each face once."""
        hits = [self._righted(frame, base, hit) for hit in hits]
        hits = [hit for hit in hits if hit.score >= min(SURE, self._options.min_score + GAIN)]
        regions = [region_of_detection(hit) for hit in hits]
        for _ in range(PASSES):
            meshes, presence = self._landmarks(frame, base, regions)
            regions = [region_of_mesh(mesh) for mesh in meshes]
        return _unique([
            Face(hit.bbox, hit.score, keypoints_of_mesh(mesh), mesh, float(sure))
            for hit, mesh, sure in zip(hits, meshes, presence, strict=True)
            if _agree(hit, mesh, float(sure))
        ])  # fmt: skip

    def _righted(self, frame: Frame, base: View, hit: Detection) -> Detection:
        """The detection with keypoints from an upright look at it.

        The detector finds lying faces too, but with a lower score and keypoints of an upright face, and the
        landmarker is happy to put a mesh on a face the wrong way up. So doubtful faces are looked at again,
        each by itself at eight angles: the best score tells which way is up.
        """
        if hit.score >= UPRIGHT and not hit.guessed and abs(angle_of(hit.keypoints)) < np.pi / 8:
            return hit
        x0, y0, x1, y1 = hit.bbox
        centre, side = np.array([(x0 + x1) / 2, (y0 + y1) / 2], np.float32), 2 * float(max(x1 - x0, y1 - y0))
        best, score = hit, hit.score - 0.05
        for angle in np.arange(8) * np.pi / 4:
            matrix = Region(centre, side, float(angle)).matrix(CLOSE)
            for found in self._detector(crop_of(frame, matrix, CLOSE, base), max(score, self._options.min_score)):
                middle = (found.bbox[:2] + found.bbox[2:]) / 2
                if np.abs(middle - CLOSE / 2).max() < CLOSE / 6:
                    score = found.score
                    best = Detection(hit.bbox, score, transform(found.keypoints, invert(matrix)))
                    break
        return best

    def _landmarks(self, frame: Frame, base: View, regions: Sequence[Region]) -> tuple[FloatArray, FloatArray]:
        """(N, 478, 3) meshes in frame pixels and (N,) presence."""
        size = self._landmarker.size
        meshes, presence = np.zeros((len(regions), 478, 3), np.float32), np.zeros(len(regions), np.float32)
        for start in range(0, len(regions), BATCH):
            part = slice(start, start + BATCH)
            matrices = [region.matrix(size) for region in regions[part]]
            points, presence[part] = self._landmarker(np.stack([crop_of(frame, m, size, base) for m in matrices]))
            for mesh, crop, matrix in zip(meshes[part], points, matrices, strict=True):
                mesh[:, :2] = transform(crop[:, :2], invert(matrix))
                mesh[:, 2] = crop[:, 2] / scale_of(matrix)
        return meshes, presence


def keypoints_of_mesh(mesh: FloatArray) -> FloatArray:
    """(5, 2) iris centres, nose tip and mouth corners of a (478, 2+) mesh, in template order."""
    return np.ascontiguousarray(mesh[[IRISES[0][0], IRISES[1][0], NOSE_TIP, *MOUTH_CORNERS], :2])


def _area(bbox: FloatArray) -> float:
    return float((bbox[2] - bbox[0]) * (bbox[3] - bbox[1]))


def _look_at(frame: Frame, side: int) -> View:
    return view_of(frame.thumbnail(side), frame.width, frame.height)


def _agree(hit: Detection, mesh: FloatArray, presence: float) -> bool:
    """Whether the mesh lies where the detector's keypoints are; closely, where the landmarker is in doubt."""
    apart = np.linalg.norm(keypoints_of_mesh(mesh) - hit.keypoints, axis=1).mean()
    limit = 0.2 if presence >= PRESENCE else 0.1 * (hit.score >= SURE)
    return bool(apart < limit * max(hit.bbox[2:] - hit.bbox[:2]))


def _unique(faces: list[Face]) -> list[Face]:
    """Faces whose meshes do not coincide; of two that do, the better detection stays."""
    if not faces:
        return []
    boxes = np.stack([np.concatenate([f.mesh[:, :2].min(0), f.mesh[:, :2].max(0)]) for f in faces])
    return [faces[i] for i in nms(boxes, np.array([f.score for f in faces], np.float32))]
