"""Finds and describes the faces of a frame: detection, mesh, keypoints, embedding, expression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mien.errors import OptionsError
from mien.geometry import template_matrix
from mien.mesh import POINTS
from mien.options import AnalyzeOptions
from mien.robust import retried, retried_near
from mien.search import SLACK, Search, keypoints_of_mesh, unique
from mien.types import ByteArray, Face, FloatArray, Image
from mien.views import ArrayFrame, Frame, View, crop_of, padded, tiles, turned, view_of
from mien.zoo.cascade import load_detector
from mien.zoo.contracts import Landmarker
from mien.zoo.registry import Zoo

__all__ = ["ArrayFrame", "FaceFinder", "Frame", "keypoints_of_mesh"]

EXPRESSION = "blendshapes52"
"""The model that reads expressions."""
SECOND = "retinaface_mnet025"
"""The detector that robust search asks too."""
RECOVERED = 2
"""Lost faces of one frame that are searched for."""
COARSE = 640
"""Longest side of the first look; it finds faces of 1/40 of the frame up to all of it."""
QUICK = 1280
"""Longest side of the second look when a frame is not searched thoroughly."""
SMALLEST = 20
"""Side in pixels at which the detector still finds most faces."""


class FaceFinder:
    """Finds the faces of one frame and describes each: `finder(frame)`.

    Raises:
        OptionsError: a landmarker that gives no mesh, and as for `Zoo.load`.
        ModelError, DeviceError: see `Zoo.load`.
    """

    def __init__(self, zoo: Zoo, options: AnalyzeOptions | None = None) -> None:
        self._options = options or AnalyzeOptions()
        self._zoo = zoo
        self._search = Search(
            load_detector(zoo, self._options.detector),
            _mesh_model(zoo, self._options.landmarker),
            self._options.min_score,
            self._options.min_face - SLACK,
        )

    def __call__(
        self,
        frame: Frame,
        *,
        thorough: bool = True,
        embeddings: bool = True,
        expressions: bool = False,
        robust: bool | None = None,
    ) -> tuple[Face, ...]:
        """Faces by area, largest first.

        `thorough` also looks for faces upside down or lying, for small ones at full resolution, and for
        faces without background; without it, the cost of a frame without faces is that of one or two detections.
        `robust`: whether the option's `auto` may retry on restored pictures when nothing is found; as `thorough`
        unless given.
        """
        base = _look_at(frame, self._options.detect_size or COARSE)
        faces = self._search.confirm(frame, base, self._search.detect(self._views(frame, base, thorough)))
        if not faces and thorough:
            faces = self._search.confirm(frame, base, self._search.detect(turned(padded(base, COARSE))))
        mode, may = self._options.robust, thorough if robust is None else robust
        if mode == "on" or (mode == "auto" and may and not faces):
            faces = unique([*faces, *retried(self._search, self._both, frame)], first=len(faces))
        if faces and embeddings:
            crops = [self._aligned(frame, face, base) for face in faces]
            faces = [replace(f, embedding=e) for f, e in zip(faces, self._embedder(np.stack(crops)), strict=True)]
        return self._told(faces, expressions)

    def follow(self, frame: Frame, faces: Sequence[Face], *, expressions: bool = False) -> list[Face | None]:
        """Faces of the frame before or after, each where it is in this one; None where that is in doubt.

        At a fifth of the cost of finding them; faces that were not there are not seen.
        """
        if not faces:
            return []
        found = self._search.follow(frame, faces)
        if not expressions:
            return found
        seen = iter(self._expressive([face for face in found if face is not None]))
        return [None if face is None else next(seen) for face in found]

    def recover(self, frame: Frame, places: Sequence[FloatArray], *, expressions: bool = False) -> tuple[Face, ...]:
        """Faces that robust search finds where some were last seen, (4,) boxes in pixels; none where it is off.

        At most `RECOVERED` places are searched, the largest first, each by itself.
        """
        if self._options.robust == "off":
            return ()
        chosen = sorted(places, key=_area, reverse=True)[:RECOVERED]
        found = [retried_near(self._search, self._both, frame, place) for place in chosen]
        return self._told(unique([face for face in found if face is not None]), expressions)

    def _told(self, faces: Sequence[Face], expressions: bool) -> tuple[Face, ...]:
        """The faces, largest first, with their expressions if asked for."""
        faces = self._expressive(faces) if expressions else faces
        return tuple(sorted(faces, key=lambda face: -_area(face.bbox)))

    def _expressive(self, faces: Sequence[Face]) -> list[Face]:
        """The faces with their expressions."""
        scores = self._expression(np.stack([face.mesh for face in faces])) if faces else ()
        return [replace(face, blendshapes=each) for face, each in zip(faces, scores, strict=True)]

    def find_in_image(self, image: Image, *, embeddings: bool = True, expressions: bool = False) -> tuple[Face, ...]:
        """Faces of an H×W×3 RGB array, uint8 or float32 0–1."""
        return self(ArrayFrame(image), embeddings=embeddings, expressions=expressions)

    def embed(self, frame: Frame | Image, face: Face) -> FloatArray:
        """(D,) L2-normalised embedding of a face, from the frame or RGB array that it lies in."""
        source = ArrayFrame(frame) if isinstance(frame, np.ndarray) else frame
        embedding: FloatArray = self._embedder(self._aligned(source, face)[None])[0]
        return embedding

    @property
    def _both(self) -> Any:
        """The detectors of the option and the second one."""
        return load_detector(self._zoo, f"{self._options.detector}+{SECOND}")

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


def _mesh_model(zoo: Zoo, name: str) -> Landmarker:
    """A landmarker that can lead a search; others describe faces that were found, see `mien.landmarks`."""
    model: Landmarker = zoo.load("landmarker", name)
    if model.crop != "mesh" or model.points != POINTS:
        raise OptionsError(
            f"landmarker={name}: gives {model.points} points and no mesh of {POINTS}, which finding faces needs; "
            "use mesh478"
        )
    return model


def _area(bbox: FloatArray) -> float:
    return float((bbox[2] - bbox[0]) * (bbox[3] - bbox[1]))


def _look_at(frame: Frame, side: int) -> View:
    return view_of(frame.thumbnail(side), frame.width, frame.height)
