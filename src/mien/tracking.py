"""Tracks: which face of a frame is which face of the frame before, and where a new scene begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from mien.geometry import fit_similarity, transform
from mien.shape import neutral
from mien.types import ByteArray, Face, FloatArray

GAP = 5
"""Frames that a face may be missing within one track."""
SAMPLE_EVERY = 12
"""A track's face is embedded at each appearance that is a multiple of this."""
REACH = 2
"""Frames on each side that smoothing looks at."""
THUMBNAIL = 96
"""Side in pixels of the thumbnail that scene cuts are found in."""
CUT = 0.5
"""Share of the picture whose colours must differ for a cut."""
JUMP, CHANGE = 0.15, 0.015
"""Shares of its size that a face's box moves or grows beyond what was expected, and that its landmarks change
among themselves (rms), above which it may be another face: a cut that the colours do not show."""
STRANGER = 0.3
"""Cosine of embeddings below which it is another one."""
JITTER = 0.008
"""Landmark noise as a share of the face's size: smaller departures from a steady motion are noise."""


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One face followed through one scene."""

    id: int
    first: int
    """Frame index of the first appearance."""
    last: int
    """Frame index of the last appearance."""
    faces: int
    """Appearances."""
    bbox: FloatArray
    """(4,) x0, y0, x1, y1 of the first appearance, in pixels."""
    embedding: FloatArray | None = None
    """(D,) L2-normalised mean over the track."""
    shape: FloatArray | None = None
    """(468, 3) mean over the track; see `mien.shape`."""

    def described(self, face: Face) -> Face:
        """A face of this track with the track's embedding and shape, which do not change from frame to frame."""
        return replace(face, embedding=self.embedding, shape=self.shape)


class TrackTally:
    """A track in the making: its extent, and sums for its means."""

    def __init__(self, index: int, face: Face) -> None:
        self._id, self._first, self._bbox = face.track, index, face.bbox.copy()
        self.last, self._faces, self._shapes = index, 0, 0
        self._embedding: FloatArray | None = None
        self._shape: FloatArray | None = None

    def add(self, index: int, face: Face) -> None:
        """Count an appearance."""
        self.last, self._faces = index, self._faces + 1
        if face.embedding is not None:
            self._embedding = face.embedding if self._embedding is None else self._embedding + face.embedding
        if face.blendshapes is not None:
            shape = neutral(face.mesh, face.blendshapes)
            self._shapes += 1
            before = shape if self._shape is None else self._shape
            self._shape = np.asarray(before + (shape - before) / self._shapes, np.float32)

    def track(self) -> Track:
        """The track so far."""
        mean = self._embedding
        if mean is not None:
            mean = np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9), np.float32)
        return Track(self._id, self._first, self.last, self._faces, self._bbox, mean, self._shape)


@dataclass(slots=True, eq=False)
class _Live:
    """A track that may still go on."""

    id: int
    bbox: FloatArray
    mesh: FloatArray
    last: int
    velocity: FloatArray
    """(2,) pixels per frame of the centre."""
    count: int = 1
    embedding: FloatArray | None = None

    def predicted(self, index: int) -> FloatArray:
        """(4,) where the face should be."""
        return self.bbox + np.tile(self.velocity * (index - self.last), 2)

    def follow(self, index: int, face: Face) -> None:
        """Take in the next appearance."""
        moved = (_centre(face.bbox) - _centre(self.bbox)) / max(1, index - self.last)
        # A steady mean: one jittery box must not throw the prediction.
        self.velocity = (0.5 * self.velocity + 0.5 * moved).astype(np.float32)
        self.bbox, self.mesh, self.last, self.count = face.bbox, face.mesh, index, self.count + 1
        if face.embedding is not None:
            self.embedding = face.embedding


class Tracker:
    """Numbers the faces of frames given in order; causal, so it serves live work too.

    For each frame call `begin` with what `cut` says of its thumbnail, embed the faces that `unsure` names, then call
    `update`.
    """

    def __init__(self) -> None:
        self._live: list[_Live] = []
        self._next = 0
        self._colours: FloatArray | None = None

    def cut(self, thumbnail: ByteArray) -> bool:
        """Whether a scene begins with the next frame; may be asked for some frames ahead, in order."""
        before, self._colours = self._colours, _colours(thumbnail)
        return before is not None and _difference(before, self._colours) > CUT

    def begin(self, index: int, cut: bool) -> None:
        """Go to frame `index`; a cut ends all tracks."""
        self._live = [] if cut else [track for track in self._live if index - track.last <= GAP + 1]

    def unsure(self, index: int, faces: Sequence[Face]) -> list[bool]:
        """For each face, whether `update` profits from its embedding: new, contested, jumped or due for a sample."""
        near = np.isfinite(self._costs(index, faces))
        due = np.array([track.count % SAMPLE_EVERY == 0 for track in self._live], bool)
        settled, alone = (near.sum(1) == 1) & ~due, near.sum(0) == 1
        known = [near[:, i] & settled for i in range(len(faces))]
        return [
            not (alone[i] and known[i].any() and not _jumped(self._live[int(known[i].argmax())], index, face))
            for i, face in enumerate(faces)
        ]

    def lost(self, index: int, faces: Sequence[Face]) -> list[FloatArray]:
        """(4,) boxes in pixels where faces of live tracks should be and none of these is."""
        near = np.isfinite(self._costs(index, faces))
        return [track.predicted(index) for track, row in zip(self._live, near, strict=True) if not row.any()]

    def update(self, index: int, faces: Sequence[Face]) -> tuple[Face, ...]:
        """The faces in the order given, each with its track number."""
        pairs = dict(_assign(self._costs(index, faces).T))
        numbered = []
        for i, face in enumerate(faces):
            if i in pairs:
                track = self._live[pairs[i]]
                track.follow(index, face)
            else:
                still = np.zeros(2, np.float32)
                track = _Live(self._next, face.bbox, face.mesh, index, still, embedding=face.embedding)
                self._next += 1
                self._live.append(track)
            numbered.append(replace(face, track=track.id))
        return tuple(numbered)

    def _costs(self, index: int, faces: Sequence[Face]) -> FloatArray:
        """(tracks, faces) cost of each pairing; infinite where the two cannot be the same face."""
        costs = np.full((len(self._live), len(faces)), np.inf, np.float32)
        for row, track in enumerate(self._live):
            for column, face in enumerate(faces):
                costs[row, column] = _cost(track, index, face)
        return costs


def _cost(track: _Live, index: int, face: Face) -> float:
    distance, growth = _apart(track, index, face)
    wait = index - track.last - 1
    if distance > 0.7 + 0.1 * wait or not 0.5 < growth < 2:
        return np.inf
    cost = (1 - overlap(face.bbox, track.predicted(index))) + distance
    if track.embedding is not None and face.embedding is not None:
        likeness = float(track.embedding @ face.embedding)
        if likeness < STRANGER and _jumped(track, index, face):
            return np.inf
        cost += 2 * (1 - likeness)
    return cost


def _apart(track: _Live, index: int, face: Face) -> tuple[float, float]:
    """Distance from where the track's face should be, in face sizes, and size over its size before."""
    expected = track.predicted(index)
    size, before = _size(face.bbox), _size(expected)
    return float(np.linalg.norm(_centre(face.bbox) - _centre(expected))) / max(size, before), size / before


def _jumped(track: _Live, index: int, face: Face) -> bool:
    distance, growth = _apart(track, index, face)
    if distance > JUMP or max(growth, 1 / growth) > 1 + JUMP:
        return True
    before, now = track.mesh[:, :2], face.mesh[:, :2]
    change = transform(before, fit_similarity(before, now)) - now
    return float(np.sqrt((change**2).sum(1).mean())) > CHANGE * _size(face.bbox)


def _assign(costs: FloatArray) -> list[tuple[int, int]]:
    """Pairs (row, column) that match as many as can be matched at the least total cost; infinite costs never match.

    The Hungarian method by shortest augmenting paths (Jonker and Volgenant, 1987).
    """
    count = max(costs.shape, default=0)
    forbidden = 1e6
    square = np.full((count, count), forbidden)
    square[: costs.shape[0], : costs.shape[1]] = np.where(np.isfinite(costs), costs, forbidden)
    row_cost, column_cost = np.zeros(count + 1), np.zeros(count + 1)
    row_of = np.full(count + 1, -1)
    for row in range(count):
        row_of[count] = row
        column, least = count, np.full(count, np.inf)
        came_from, done = np.full(count, count), np.zeros(count + 1, bool)
        while row_of[column] >= 0:
            done[column] = True
            reduced = square[row_of[column]] - row_cost[row_of[column]] - column_cost[:count]
            better = ~done[:count] & (reduced < least)
            least[better], came_from[better] = reduced[better], column
            following = int(np.argmin(np.where(done[:count], np.inf, least)))
            step = least[following]
            row_cost[row_of[done]] += step
            column_cost[done] -= step
            least[~done[:count]] -= step
            column = following
        while column != count:
            row_of[column] = row_of[came_from[column]]
            column = int(came_from[column])
    pairs = ((int(row_of[column]), column) for column in range(costs.shape[1]))
    return sorted((r, c) for r, c in pairs if r < costs.shape[0] and np.isfinite(costs[r, c]))


def smooth(window: Mapping[int, FloatArray], size: float) -> FloatArray:
    """Points (N, 2+) at offset 0 of a window of frames, with the jitter taken out and no lag.

    The mean of two points the same time before and after is where a steady motion would be now, so
    averaging it in leaves a still or steadily moving face where it is. Where the point departs from it
    by more than jitter (a blink, a sudden turn), it is left as measured.

    Args:
        window: points by frame offset; only offsets that are there on both sides count.
        size: side of the face in pixels.
    """
    here = window[0].astype(np.float64)
    total, weights = here.copy(), np.ones(len(here))
    for offset in range(1, REACH + 1):
        if offset not in window or -offset not in window:
            break
        steady = (window[offset].astype(np.float64) + window[-offset]) / 2
        departure = np.linalg.norm((steady - here)[:, :2], axis=1) / (JITTER * size)
        weight = 2 * np.exp(-0.5 * (offset / REACH) ** 2 - 0.5 * departure**2)
        total += weight[:, None] * steady
        weights += weight
    return np.asarray(total / weights[:, None], np.float32)


def smoothed(window: Mapping[int, Face]) -> Face:
    """The face at offset 0 of a window of one track's faces by frame offset, its landmarks smoothed."""
    face = window[0]
    size = _size(face.bbox)
    return replace(
        face,
        mesh=smooth({offset: other.mesh for offset, other in window.items()}, size),
        keypoints=smooth({offset: other.keypoints for offset, other in window.items()}, size),
    )


def between(before: Face, after: Face, share: float) -> Face:
    """The face that a track's missing frame should hold, `share` of the way from `before` to `after`."""

    def mix(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(a + share * (b - a), np.float32)

    return replace(
        before,
        bbox=mix(before.bbox, after.bbox),
        score=min(before.score, after.score),
        keypoints=mix(before.keypoints, after.keypoints),
        mesh=mix(before.mesh, after.mesh),
        presence=min(before.presence, after.presence),
        embedding=None,
        blendshapes=None,
    )


def _colours(thumbnail: ByteArray) -> FloatArray:
    """(4, 512) histogram of 8 × 8 × 8 colours of each quarter, each summing to 1."""
    height, width = thumbnail.shape[:2]
    parts = []
    for rows in (slice(None, (height + 1) // 2), slice(height // 2, None)):
        for columns in (slice(None, (width + 1) // 2), slice(width // 2, None)):
            part = np.ascontiguousarray(thumbnail[rows, columns])
            counts = cv2.calcHist([part], [0, 1, 2], None, [8, 8, 8], [0, 256] * 3).ravel()
            parts.append(counts / counts.sum())
    return np.asarray(parts, np.float32)


def _difference(a: FloatArray, b: FloatArray) -> float:
    """0–1: share of the pixels whose colours differ."""
    return float(np.abs(a - b).sum() / (2 * len(a)))


def _centre(bbox: FloatArray) -> FloatArray:
    return np.asarray((bbox[:2] + bbox[2:]) / 2, np.float32)


def _size(bbox: FloatArray) -> float:
    return max(1.0, float(np.sqrt(max(0.0, float((bbox[2] - bbox[0]) * (bbox[3] - bbox[1]))))))


def overlap(a: FloatArray, b: FloatArray) -> float:
    """Intersection over union."""
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    common = float(np.prod(np.maximum(high - low, 0)))
    union = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - common
    return common / union if union > 0 else 0.0
