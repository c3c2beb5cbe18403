"""The search of one picture: what a detector finds in views of it, confirmed by a landmarker, each face once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mien.geometry import invert, scale_of, transform
from mien.mesh import IRISES, MOUTH_CORNERS, NOSE_TIP
from mien.types import Detection, Face, FloatArray
from mien.views import Frame, Region, View, angle_of, crop_of, region_of_detection, region_of_mesh
from mien.zoo.nms import nms

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
STEP, GROWTH = 0.35, 1.25
"""How far a face moves from frame to frame at most, as a share of its size, and how much it grows."""
BATCH = 16


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A detector and a landmarker, and what counts as a face."""

    detector: Any
    landmarker: Any
    min_score: float
    """Detector score below which nothing is looked at."""
    smallest: float
    """Longer side of a box in pixels below which it is left out."""
    trusting: bool = True
    """Whether a detector that is sure outweighs a landmarker in doubt, as it must for profiles."""

    def detect(self, views: Iterator[View]) -> list[Detection]:
        """Detections of all views, in frame pixels, overlapping ones removed."""
        hits = [(hit, hit.score - view.handicap - hit.guessed) for view in views for hit in self._look(view)]
        if not hits:
            return []
        keep = nms(np.stack([hit.bbox for hit, _ in hits]), np.array([rank for _, rank in hits], np.float32))
        return [hits[i][0] for i in keep]

    def _look(self, view: View) -> Iterator[Detection]:
        height, width = view.image.shape[:2]
        edges = np.array([2, 2, width - 3, height - 3], np.float32)
        for hit in self.detector(view.image, self.min_score):
            outside = np.array([*(hit.bbox[:2] < edges[:2]), *(hit.bbox[2:] > edges[2:])])
            if (outside & view.inner).any():
                continue  # cut by a tile's edge; a neighbour or the coarse look has it whole
            x0, y0, x1, y1 = hit.bbox
            corners = transform(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float32), view.to_frame)
            bbox = np.concatenate([corners.min(0), corners.max(0)])
            if max(bbox[2:] - bbox[:2]) >= self.smallest:
                yield Detection(bbox, hit.score, transform(hit.keypoints, view.to_frame), hit.guessed)

    def confirm(self, frame: Frame, base: View, hits: list[Detection]) -> list[Face]:
        """Faces of the detections that the landmarker confirms, each face once."""
        hits = [self._righted(frame, base, hit) for hit in hits]
        hits = [hit for hit in hits if hit.score >= min(SURE, self.min_score + GAIN)]
        regions = [region_of_detection(hit) for hit in hits]
        for _ in range(PASSES):
            meshes, presence = self._landmarks(frame, base, regions)
            regions = [region_of_mesh(mesh) for mesh in meshes]
        return unique([
            Face(hit.bbox, hit.score, keypoints_of_mesh(mesh), mesh, float(sure))
            for hit, mesh, sure in zip(hits, meshes, presence, strict=True)
            if _agree(hit, mesh, float(sure), self.trusting)
        ])  # fmt: skip

    def follow(self, frame: Frame, faces: Sequence[Face]) -> list[Face | None]:
        """Faces of the frame before or after, each where it is in this one; None where that is in doubt.

        The landmarker looks where its mesh was, as in MediaPipe's face mesh (Kartynnik et al. 2019); no detector does.
        """
        meshes, presence = self._landmarks(frame, None, [region_of_mesh(face.mesh) for face in faces])
        found = [_moved(face, mesh, float(sure)) for face, mesh, sure in zip(faces, meshes, presence, strict=True)]
        apart = {id(face) for face in unique([face for face in found if face is not None])}
        return [face if id(face) in apart else None for face in found]

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
            for found in self.detector(crop_of(frame, matrix, CLOSE, base), max(score, self.min_score)):
                middle = (found.bbox[:2] + found.bbox[2:]) / 2
                if np.abs(middle - CLOSE / 2).max() < CLOSE / 6:
                    score = found.score
                    best = Detection(hit.bbox, score, transform(found.keypoints, invert(matrix)))
                    break
        return best

    def _landmarks(self, frame: Frame, base: View | None, regions: Sequence[Region]) -> tuple[FloatArray, FloatArray]:
        """(N, 478, 3) meshes in frame pixels and (N,) presence."""
        size = self.landmarker.size
        meshes, presence = np.zeros((len(regions), 478, 3), np.float32), np.zeros(len(regions), np.float32)
        for start in range(0, len(regions), BATCH):
            part = slice(start, start + BATCH)
            matrices = [region.matrix(size) for region in regions[part]]
            points, presence[part] = self.landmarker(np.stack([crop_of(frame, m, size, base) for m in matrices]))
            for mesh, crop, matrix in zip(meshes[part], points, matrices, strict=True):
                mesh[:, :2] = transform(crop[:, :2], invert(matrix))
                mesh[:, 2] = crop[:, 2] / scale_of(matrix)
        return meshes, presence


def keypoints_of_mesh(mesh: FloatArray) -> FloatArray:
    """(5, 2) iris centres, nose tip and mouth corners of a (478, 2+) mesh, in template order."""
    return np.ascontiguousarray(mesh[[IRISES[0][0], IRISES[1][0], NOSE_TIP, *MOUTH_CORNERS], :2])


def _agree(hit: Detection, mesh: FloatArray, presence: float, trusting: bool) -> bool:
    """Whether the mesh lies where the detector's keypoints are; closely, where the landmarker is in doubt."""
    apart = np.linalg.norm(keypoints_of_mesh(mesh) - hit.keypoints, axis=1).mean()
    limit = 0.2 if presence >= PRESENCE else 0.1 * (trusting and hit.score >= SURE)
    return bool(apart < limit * max(hit.bbox[2:] - hit.bbox[:2]))


def _moved(face: Face, mesh: FloatArray, presence: float) -> Face | None:
    """The face with a mesh of another frame, unless it is no face any more, or leapt."""
    before, now = face.mesh[:, :2], mesh[:, :2]
    old, new = (np.stack([points.min(0), points.max(0)]) for points in (before, now))
    size, grown = float(np.ptp(old, axis=0).max()), float(np.ptp(new, axis=0).max())
    step = float(np.linalg.norm(new.mean(0) - old.mean(0)))
    ratio = grown / max(size, 1e-3)
    if presence < PRESENCE or step > STEP * size or not 1 / GROWTH < ratio < GROWTH:
        return None
    corners = (face.bbox.reshape(2, 2) - old.mean(0)) * ratio + new.mean(0)
    bbox = corners.reshape(4).astype(np.float32)
    return Face(bbox, face.score, keypoints_of_mesh(mesh), mesh, presence)


def unique(faces: Sequence[Face], first: int = 0) -> list[Face]:
    """Faces whose meshes do not coincide; of two that do, the better detection stays, or one of the `first`."""
    if not faces:
        return []
    boxes = np.stack([np.concatenate([f.mesh[:, :2].min(0), f.mesh[:, :2].max(0)]) for f in faces])
    ranks = np.array([face.score + (place < first) for place, face in enumerate(faces)], np.float32)
    return [faces[i] for i in nms(boxes, ranks)]
