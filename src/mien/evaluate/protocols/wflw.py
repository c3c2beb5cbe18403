"""WFLW: error of 98 landmarks over the distance of the outer eye corners.

Wu et al., "Look at Boundary: A Boundary-Aware Face Alignment Algorithm", 2018: NME, failure rate (NME above 10 %) and
the area under the curve of cumulative errors up to 10 %, over the test set and its six subsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mien.errors import InputError, OptionsError
from mien.evaluate.landmarks import errors, inter_ocular
from mien.evaluate.protocols.common import Report, Work, centre, faces_of, nearest, number, percent, pixels, read_lines
from mien.faces import FaceFinder
from mien.landmarks import landmarks
from mien.mesh import SURFACE, view98
from mien.types import Box, ByteArray, FloatArray
from mien.views import ArrayFrame
from mien.zoo.contracts import Landmarker

Array = npt.NDArray[np.float64]

POINTS = 98
ATTRIBUTES = ("pose", "expression", "illumination", "make-up", "occlusion", "blur")
FAILED = 0.1
LISTS = tuple(
    f"{folder}{name}"
    for folder in ("WFLW_annotations/list_98pt_rect_attr_train_test/", "WFLW_annotations/list_98pt_test/", "")
    for name in ("list_98pt_rect_attr_test.txt", "list_98pt_test.txt")
)
ROOM = 1.0
"""What is looked at around the annotated box, over its longer side, on each of its sides."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A face of the list."""

    name: str
    points: FloatArray
    """(98, 2) pixels."""
    bbox: FloatArray
    """(4,) x0, y0, x1, y1; around the points where the list has none."""
    attributes: tuple[bool, ...]
    """For each of `ATTRIBUTES`; empty where the list has none."""


@dataclass(frozen=True, slots=True)
class Subset:
    """Errors over some faces."""

    name: str
    faces: int
    missed: int
    """Faces that were not found: failures, but not in `nme`."""
    nme: float
    """Mean over the faces found; NaN where there is none."""
    failure_rate: float
    """Share with an error above 10 %, or not found."""
    auc: float
    """Area under the cumulative errors up to 10 %, over that of a perfect landmarker."""


@dataclass(frozen=True, slots=True)
class WflwReport(Report):
    """Landmarks on WFLW."""

    protocol: ClassVar[str] = "wflw"
    landmarker: str
    subsets: tuple[Subset, ...]

    def table(self) -> list[list[str]]:
        """A row for each subset."""
        rows = [
            [s.name, str(s.faces), str(s.missed), percent(s.nme), percent(s.failure_rate), percent(s.auc)]
            for s in self.subsets
        ]
        return [[self.landmarker, "faces", "missed", "NME", "FR at 10 %", "AUC at 10 %"], *rows]


def evaluate(work: Work) -> WflwReport:
    """Run the protocol; see `protocols.run`."""
    samples = parse(work.first(LISTS, "the list of landmarks"))[: work.options.limit or None]
    photos = work.first(["WFLW_images"], "the folder of photos")
    look = _look(work)
    found = np.full(len(samples), np.inf)
    for place, sample in enumerate(samples):
        points = look(pixels(photos / sample.name), sample.bbox)
        if points is not None:
            found[place] = nme(points, sample.points)
        work.tell(place + 1, len(samples))
    groups = {"all": np.ones(len(samples), bool)}
    if samples[0].attributes:
        groups |= dict(zip(ATTRIBUTES, np.array([sample.attributes for sample in samples]).T, strict=True))
    return WflwReport(
        folder=str(work.folder),
        models=work.models(),
        notes=_notes(work, bool(samples[0].attributes)),
        landmarker=work.options.points or work.options.landmarker,
        subsets=tuple(subset(name, found[which]) for name, which in groups.items()),
    )


def parse(path: Path) -> list[Sample]:
    """The faces of a list: 196 coordinates, then a box and six attributes or neither, then the photo.

    Raises:
        InputError: the file is something else; names the line.
    """
    samples = []
    for row, line in enumerate(read_lines(path), 1):
        *values, name = line.split()
        where = f"{path}: line {row}"
        inside = not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts
        if len(values) not in (2 * POINTS, 2 * POINTS + 10) or not inside or len(values) != len(line.split()) - 1:
            raise InputError(f"{where}: is not {POINTS} points, with or without box and attributes, and a photo")
        told = np.array([number(value, where) for value in values], np.float32)
        points = told[: 2 * POINTS].reshape(-1, 2)
        rest = told[2 * POINTS :]
        bbox = rest[:4] if len(rest) else np.concatenate([points.min(0), points.max(0)])
        samples.append(Sample(name, points, bbox, tuple(bool(value) for value in rest[4:])))
    if not samples or len({len(sample.attributes) for sample in samples}) != 1:
        raise InputError(
            f"{path}: has no faces, or attributes for some of them only; take the list from WFLW_annotations"
        )
    return samples


def nme(points: FloatArray, truth: FloatArray) -> float:
    """Mean distance of (98, 2) points over that of the true outer eye corners."""
    return float(errors(points[None, :, :2], truth[None], inter_ocular(truth[None])).mean())


def subset(name: str, errors: Array) -> Subset:
    """Figures of (n,) NMEs, infinite where the face was not found.

    The area is exact: the mean over the faces of what is left of 10 % after their error.
    """
    found = np.isfinite(errors)
    if not len(errors):
        return Subset(name, 0, 0, np.nan, np.nan, np.nan)
    return Subset(
        name,
        len(errors),
        int((~found).sum()),
        float(errors[found].mean()) if found.any() else np.nan,
        float((errors > FAILED).mean()),
        float((np.maximum(FAILED - errors, 0) / FAILED).mean()),
    )


Look = Callable[[ByteArray, FloatArray], FloatArray | None]


def _look(work: Work) -> Look:
    """How (98, 2) points are had of a photo and a box."""
    name = work.options.points
    if not name:
        finder = FaceFinder(work.zoo, work.options)
        return lambda image, bbox: _from_mesh(finder, image, bbox)
    model: Landmarker = work.zoo.load("landmarker", name)
    if model.points != POINTS or model.crop != "bbox":
        raise OptionsError(f"points={name}: gives {model.points} points, WFLW needs {POINTS}; use pipnet_98, or none")
    return lambda image, bbox: landmarks(ArrayFrame(image), bbox, model)[0]


def _from_mesh(finder: FaceFinder, image: ByteArray, bbox: FloatArray) -> FloatArray | None:
    """Points of the face that lies in the box, found in a part of the photo around it; None if there is none."""
    room = ROOM * float(max(bbox[2:] - bbox[:2]))
    low, high = np.floor(bbox[:2] - room).astype(int), np.ceil(bbox[2:] + room).astype(int)
    box = Box(*low.tolist(), *high.tolist()).clip(image.shape[1], image.shape[0])
    if box.empty:
        return None
    part = np.ascontiguousarray(image[box.y0 : box.y1, box.x0 : box.x1])
    shift = np.array([box.x0, box.y0], np.float32)
    face = nearest(faces_of(finder, part), centre(bbox) - shift)
    if face is None:
        return None
    mesh = face.mesh[:SURFACE, :2] + shift
    low, high = mesh.min(0), mesh.max(0)
    inside = np.prod(np.maximum(np.minimum(high, bbox[2:]) - np.maximum(low, bbox[:2]), 0))
    if inside < 0.25 * min(np.prod(high - low), np.prod(bbox[2:] - bbox[:2])):
        return None  # somebody else's
    return np.asarray(view98(face.mesh)[:, :2] + shift, np.float32)


def _notes(work: Work, attributed: bool) -> tuple[str, ...]:
    told = []
    if work.options.points:
        told.append("faces were cut out by the annotated boxes, as is usual")
    else:
        told.append(
            "faces were found by mien's own search around the annotated boxes, which is harder than being given them"
        )
        told.append("points are places on the mesh, which was not trained on WFLW and marks the jaw by other rules")
    if not attributed:
        told.append("the list has no attributes, so there are no subsets; use list_98pt_rect_attr_test.txt")
    if work.options.limit:
        told.append(f"only the first {work.options.limit} faces were taken")
    return tuple(told)
