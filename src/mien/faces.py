"""Finds and describes the faces of a frame: detection, mesh, keypoints, embedding, expression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import cv2
import numpy as np

from mien.geometry import invert, scale_of, template_matrix, transform, warp
from mien.mesh import EYE_CORNERS, IRISES, MOUTH_CORNERS, NOSE_TIP
from mien.options import AnalyzeOptions
from mien.types import Box, ByteArray, Detection, Face, FloatArray, Image
from mien.zoo.nms import nms
from mien.zoo.registry import Zoo

COARSE = 640
"""Longest side of the first look; it finds faces of 1/40 of the frame up to all of it."""
TILE, OVERLAP = 1280, 192
"""Larger looks are cut into tiles, so that memory does not grow with the frame."""
QUICK = 1280
"""Longest side of the second look when a frame is not searched thoroughly."""
SMALLEST = 20
"""Side in pixels at which the detector still finds most faces."""
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
EXTENT = 1.5
"""Side of a landmark crop over the extent of the mesh."""
BATCH = 16


class Frame(Protocol):
    """What the finder needs of a frame; `media.frame.Frame` and `ArrayFrame` have it."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def height(self) -> int:
        """Rows."""

    def thumbnail(self, side: int) -> ByteArray:
        """The whole frame as RGB uint8, longest side at most `side`, never enlarged."""

    def read(self, box: Box) -> Image:
        """RGB of a box inside the frame, uint8 or float32 0–1."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayFrame:
    """An RGB array as a frame."""

    image: Image

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.image.shape[0])

    def thumbnail(self, side: int) -> ByteArray:
        """RGB uint8, longest side at most `side`."""
        scale = min(1.0, side / max(self.width, self.height))
        size = (max(1, round(self.width * scale)), max(1, round(self.height * scale)))
        return to_uint8(cv2.resize(self.image, size, interpolation=cv2.INTER_AREA) if scale < 1 else self.image)

    def read(self, box: Box) -> Image:
        """A copy of the box."""
        return self.image[box.y0 : box.y1, box.x0 : box.x1].copy()


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """A picture of the frame that the detector looks at."""

    image: ByteArray
    to_frame: FloatArray
    """(2, 3) from the picture's pixels to the frame's."""
    inner: tuple[bool, bool, bool, bool] = (False, False, False, False)
    """Whether the left, top, right and bottom edge cuts through the frame."""
    handicap: float = 0.0
    """What hits in this picture yield to overlapping hits in others."""


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """A tilted square that a landmark crop is taken from."""

    centre: FloatArray
    """(2,) pixels."""
    side: float
    angle: float
    """Radians, clockwise on screen; 0 is upright."""

    def matrix(self, size: int) -> FloatArray:
        """(2, 3) from frame pixels to a size × size upright crop."""
        scale = size / self.side
        cos, sin = scale * np.cos(self.angle), scale * np.sin(self.angle)
        linear = np.array([[cos, sin], [-sin, cos]])
        return np.c_[linear, (size - 1) / 2 - linear @ self.centre].astype(np.float32)


class FaceFinder:
    """Finds the faces of one frame and describes each: `finder(frame)`.

    Raises:
        OptionsError, ModelError, DeviceError: see `Zoo.load`.
    """

    def __init__(self, zoo: Zoo, options: AnalyzeOptions | None = None) -> None:
        self._options = options or AnalyzeOptions()
        self._zoo = zoo
        self._detector = zoo.load("detector", self._options.detector)
        self._landmarker = zoo.load("landmarker", self._options.landmarker)

    def __call__(
        self, frame: Frame, *, thorough: bool = True, embeddings: bool = True, expressions: bool = False
    ) -> tuple[Face, ...]:
        """Faces by area, largest first.

        `thorough` also looks for faces upside down or lying, for small ones at full resolution, and for
        faces without background; without it, the cost of a frame without faces is that of one or two detections.
        """
        base = _thumbnail_view(frame, self._options.detect_size or COARSE)
        faces = self._describe(frame, base, self._detect(self._views(frame, base, thorough)))
        if not faces and thorough:
            faces = self._describe(frame, base, self._detect(_turned(_padded(base))))
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
        return self._zoo.load("expression", "blendshapes52")

    def _aligned(self, frame: Frame, face: Face, base: _View | None = None) -> ByteArray:
        model = self._embedder
        return _crop(frame, template_matrix(face.keypoints, model.template, model.size), model.size, base)

    def _views(self, frame: Frame, base: _View, thorough: bool) -> Iterator[_View]:
        yield from _turned(base) if thorough else (base,)
        longest = max(frame.width, frame.height)
        fine = min(longest, round(longest * SMALLEST / self._options.min_face))
        if not thorough:
            fine = min(fine, QUICK)
        if not self._options.detect_size and fine > 1.2 * COARSE:
            yield from _tiles(_thumbnail_view(frame, fine))

    def _detect(self, views: Iterator[_View]) -> list[Detection]:
        """Detections of all views, in frame pixels, overlapping ones removed."""
        hits = [(hit, hit.score - view.handicap) for view in views for hit in self._look(view)]
        if not hits:
            return []
        keep = nms(np.stack([hit.bbox for hit, _ in hits]), np.array([rank for _, rank in hits], np.float32))
        return [hits[i][0] for i in keep]

    def _look(self, view: _View) -> Iterator[Detection]:
        height, width = view.image.shape[:2]
        edges = np.array([2, 2, width - 3, height - 3], np.float32)
        for hit in self._detector(view.image, self._options.min_score):
            outside = np.array([*(hit.bbox[:2] < edges[:2]), *(hit.bbox[2:] > edges[2:])])
            if (outside & view.inner).any():
                continue  # cut by a tile's edge; a neighbour or the coarse look has it whole
            x0, y0, x1, y1 = hit.bbox
            corners = transform(np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float32), view.to_frame)
            bbox = np.concatenate([corners.min(0), corners.max(0)])
            if max(bbox[2:] - bbox[:2]) >= 0.85 * self._options.min_face:
                yield Detection(bbox, hit.score, transform(hit.keypoints, view.to_frame))

    def _describe(self, frame: Frame, base: _View, hits: list[Detection]) -> list[Face]:
        """Faces of the detections that the landmarker confirms, each face once."""
        hits = [self._righted(frame, base, hit) for hit in hits]
        hits = [hit for hit in hits if hit.score >= min(SURE, self._options.min_score + GAIN)]
        regions = [_region_of_detection(hit) for hit in hits]
        for _ in range(PASSES):
            meshes, presence = self._landmarks(frame, base, regions)
            regions = [_region_of_mesh(mesh) for mesh in meshes]
        return _unique([
            Face(hit.bbox, hit.score, keypoints_of_mesh(mesh), mesh, float(sure))
            for hit, mesh, sure in zip(hits, meshes, presence, strict=True)
            if _agree(hit, mesh, float(sure))
        ])  # fmt: skip

    def _righted(self, frame: Frame, base: _View, hit: Detection) -> Detection:
        """The detection with keypoints from an upright look at it.

        The detector finds lying faces too, but with a lower score and keypoints of an upright face, and the
        landmarker is happy to put a mesh on a face the wrong way up. So doubtful faces are looked at again,
        each by itself at eight angles: the best score tells which way is up.
        """
        if hit.score >= UPRIGHT and abs(_angle(hit.keypoints)) < np.pi / 8:
            return hit
        x0, y0, x1, y1 = hit.bbox
        centre, side = np.array([(x0 + x1) / 2, (y0 + y1) / 2], np.float32), 2 * float(max(x1 - x0, y1 - y0))
        best, score = hit, hit.score - 0.05
        for angle in np.arange(8) * np.pi / 4:
            matrix = _Region(centre, side, float(angle)).matrix(CLOSE)
            for found in self._detector(_crop(frame, matrix, CLOSE, base), max(score, self._options.min_score)):
                middle = (found.bbox[:2] + found.bbox[2:]) / 2
                if np.abs(middle - CLOSE / 2).max() < CLOSE / 6:
                    score = found.score
                    best = Detection(hit.bbox, score, transform(found.keypoints, invert(matrix)))
                    break
        return best

    def _landmarks(self, frame: Frame, base: _View, regions: Sequence[_Region]) -> tuple[FloatArray, FloatArray]:
        """(N, 478, 3) meshes in frame pixels and (N,) presence."""
        size = self._landmarker.size
        meshes, presence = np.zeros((len(regions), 478, 3), np.float32), np.zeros(len(regions), np.float32)
        for start in range(0, len(regions), BATCH):
            part = slice(start, start + BATCH)
            matrices = [region.matrix(size) for region in regions[part]]
            points, presence[part] = self._landmarker(np.stack([_crop(frame, m, size, base) for m in matrices]))
            for mesh, crop, matrix in zip(meshes[part], points, matrices, strict=True):
                mesh[:, :2] = transform(crop[:, :2], invert(matrix))
                mesh[:, 2] = crop[:, 2] / scale_of(matrix)
        return meshes, presence


def keypoints_of_mesh(mesh: FloatArray) -> FloatArray:
    """(5, 2) iris centres, nose tip and mouth corners of a (478, 2+) mesh, in template order."""
    return np.ascontiguousarray(mesh[[IRISES[0][0], IRISES[1][0], NOSE_TIP, *MOUTH_CORNERS], :2])


def to_uint8(image: Image) -> ByteArray:
    """uint8 of an RGB array that is uint8 or float32 0–1."""
    if image.dtype == np.uint8:
        return image
    return np.asarray(np.clip(image * 255 + 0.5, 0, 255), np.uint8)


def _area(bbox: FloatArray) -> float:
    return float((bbox[2] - bbox[0]) * (bbox[3] - bbox[1]))


def _thumbnail_view(frame: Frame, side: int) -> _View:
    image = frame.thumbnail(side)
    fx, fy = frame.width / image.shape[1], frame.height / image.shape[0]
    return _View(image, np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2]], np.float32))


def _chain(first: FloatArray, second: FloatArray) -> FloatArray:
    """`second` after `first`, both (2, 3)."""
    return np.c_[second[:, :2] @ first[:, :2], second[:, :2] @ first[:, 2] + second[:, 2]].astype(np.float32)


def _turned(view: _View) -> Iterator[_View]:
    """The view and its three quarter turns."""
    for _ in range(4):
        yield view
        back = np.array([[0, -1, view.image.shape[1] - 1], [1, 0, 0]], np.float32)
        view = _View(np.ascontiguousarray(np.rot90(view.image)), _chain(back, view.to_frame), handicap=0.05)


def _padded(view: _View) -> _View:
    """The view at half size inside a border, for faces that fill the frame."""
    height, width = view.image.shape[:2]
    half = cv2.resize(view.image, (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA)
    x, y = width // 4, height // 4
    image = cv2.copyMakeBorder(half, y, y, x, x, cv2.BORDER_REPLICATE)
    fx, fy = width / half.shape[1], height / half.shape[0]
    back = np.array([[fx, 0, (fx - 1) / 2 - fx * x], [0, fy, (fy - 1) / 2 - fy * y]], np.float32)
    return _View(image, _chain(back, view.to_frame))


def _tiles(view: _View) -> Iterator[_View]:
    height, width = view.image.shape[:2]
    for y in _starts(height):
        for x in _starts(width):
            image = view.image[y : y + TILE, x : x + TILE]
            inner = (x > 0, y > 0, x + TILE < width, y + TILE < height)
            shift = np.array([[1, 0, x], [0, 1, y]], np.float32)
            yield _View(image, _chain(shift, view.to_frame), inner)


def _starts(length: int) -> list[int]:
    count = max(1, -(-(length - OVERLAP) // (TILE - OVERLAP)))
    return [round(i * (length - TILE) / (count - 1)) if count > 1 else 0 for i in range(count)]


def _crop(frame: Frame, matrix: FloatArray, size: int, base: _View | None = None) -> ByteArray:
    """size × size RGB uint8 crop by a frame→crop matrix; from the thumbnail where that is sharp enough."""
    if base is not None and scale_of(matrix) * scale_of(base.to_frame) < 1:
        return to_uint8(warp(base.image, _chain(base.to_frame, matrix), size, size))
    corners = np.array([[0, 0], [size, 0], [size, size], [0, size]], np.float32)
    quad = transform(corners, invert(matrix))
    low, high = np.floor(quad.min(0)) - 2, np.ceil(quad.max(0)) + 3
    box = Box(int(low[0]), int(low[1]), int(high[0]), int(high[1])).clip(frame.width, frame.height)
    if box.empty:
        return np.zeros((size, size, 3), np.uint8)
    shift = np.array([[1, 0, box.x0], [0, 1, box.y0]], np.float32)
    return to_uint8(warp(frame.read(box), _chain(shift, matrix), size, size))


def _region_of_detection(hit: Detection) -> _Region:
    x0, y0, x1, y1 = (float(v) for v in hit.bbox)
    centre = np.array([(x0 + x1) / 2, (y0 + y1) / 2], np.float32)
    return _Region(centre, EXTENT * max(x1 - x0, y1 - y0), _angle(hit.keypoints))


def _region_of_mesh(mesh: FloatArray) -> _Region:
    points = mesh[:, :2]
    angle = _angle(points[list(EYE_CORNERS)])
    cos, sin = np.cos(angle), np.sin(angle)
    upright = points @ np.array([[cos, -sin], [sin, cos]], np.float32)
    low, high = upright.min(0), upright.max(0)
    centre = np.array([[cos, -sin], [sin, cos]]) @ ((low + high) / 2)
    return _Region(centre.astype(np.float32), EXTENT * float(max(high - low)), angle)


def _angle(eyes: FloatArray) -> float:
    """Radians, clockwise on screen, from the left to the right of (2+, 2) points."""
    across = eyes[1] - eyes[0]
    return float(np.arctan2(across[1], across[0]))


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
