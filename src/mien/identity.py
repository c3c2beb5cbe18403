"""One person, made from one or more photos: embedding, texture and shape."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from mien.errors import MediaError, NoFaceError
from mien.facemask import face_masks
from mien.faces import FaceFinder
from mien.identity_data import IdentityData
from mien.media import open_reader
from mien.media.atomic import atomic_output
from mien.mesh import POINTS, SURFACE
from mien.options import SwapOptions
from mien.paste import mesh_box, moved
from mien.shape import neutral
from mien.source import portrait, raw_embedding
from mien.texture import Texture, fuse, texture_size, unwrap
from mien.types import ByteArray, Face, FloatArray, Image
from mien.zoo.registry import Zoo

MARGIN = 1.6
"""Side of the crop that a photo's face is unwrapped from, over the extent of its mesh."""
FORMAT = 2
FARTHEST = 1e6
"""No point of a face is farther out, in pixels or cm; in a damaged file one may be."""
_NAMES = ("embedding", "texture", "trust", "mesh", "shape")
_RAW = "raw:"
"""Begins the names under which raw embeddings are saved."""
_DAMAGE = (
    ValueError, LookupError, EOFError, TypeError, AttributeError, RuntimeError, zipfile.BadZipFile, zlib.error,
    TokenError,
)  # fmt: skip
"""What NumPy and zipfile raise on files that are damaged or none of theirs."""


@dataclass(frozen=True, slots=True, eq=False)
class _Photo:
    """One photo of the person."""

    image: Image
    """The face with the margin that it is unwrapped with."""
    face: Face
    """In pixels of `image`."""
    portrait: ByteArray
    keypoints: FloatArray
    """In pixels of `portrait`."""


class Identity:
    """One person. Make it with `from_images`, or `load` what was saved."""

    def __init__(self, data: IdentityData) -> None:
        self.data = data

    @property
    def embedding(self) -> FloatArray:
        """(D,) L2-normalised."""
        return self.data.embedding

    @classmethod
    def from_images(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        zoo: Zoo | None = None,
        options: SwapOptions | None = None,
    ) -> Identity:
        """Fuse photos of one person; of each, the largest face counts.

        What the options' swapper needs beside mien's own features is made from all photos as well; for another
        swapper it is made later, from the best photo alone.

        Raises:
            MediaError: a photo cannot be read.
            NoFaceError: a photo shows no face.
        """
        chosen = options or SwapOptions()
        models = zoo or Zoo.of(chosen)
        finder = FaceFinder(models, chosen)
        found = []
        for path in paths:
            with open_reader(path) as reader:
                frame = next(iter(reader))
                faces = finder(frame, expressions=True)
                if not faces:
                    raise NoFaceError(f"{path}: no face was found in the source; use a photo that shows one clearly")
                box = mesh_box(faces[0].mesh, MARGIN).clip(frame.width, frame.height)
                image, shift = frame.read(box), np.array([[1, 0, -box.x0], [0, 1, -box.y0]], np.float32)
                found.append(_Photo(image, moved(faces[0], shift), *portrait(frame, faces[0].keypoints)))
        if not found:
            raise NoFaceError("no source photo was given; pass at least one")
        return cls(_fused(found, models, chosen))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to an `.npz` file, all of it or nothing.

        Raises:
            OutputError: the file cannot be written.
        """
        values: dict[str, Any] = {name: getattr(self.data, name) for name in _NAMES}
        if self.data.photo is not None and self.data.keypoints is not None:
            values |= {"photo": self.data.photo, "keypoints": self.data.keypoints}
        values |= {_RAW + name: vector for name, vector in self.data.embeddings.items()}
        values["texture"] = np.rint(self.data.texture * 65535).astype(np.uint16)
        values["trust"] = np.rint(self.data.trust * 255).astype(np.uint8)
        with atomic_output(Path(path).absolute()) as partial, partial.open("xb") as out:
            np.savez_compressed(out, allow_pickle=False, format=np.int32(FORMAT), **values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Identity:
        """Read what `save` wrote.

        Raises:
            MediaError: not such a file, or damaged.
        """
        try:
            content = io.BytesIO(Path(path).read_bytes())
        except OSError as error:
            raise MediaError(f"{path}: cannot read the identity ({error.strerror}); check the path") from error
        try:
            with np.load(content, allow_pickle=False) as stored:
                version = int(stored["format"])
                values = _read(stored) if version == FORMAT else {}
        except _DAMAGE as error:
            raise MediaError(f"{path}: not an identity made by mien; make it again from its photos") from error
        if version != FORMAT:
            raise MediaError(f"{path}: an identity of another version; make it again from its photos")
        if not _fit(values):
            raise MediaError(f"{path}: not an identity made by mien; make it again from its photos")
        values["texture"] /= 65535
        values["trust"] /= 255
        return cls(IdentityData(**values))


def _read(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `IdentityData` as `save` wrote them."""
    names = [*_NAMES, *(name for name in ("keypoints",) if name in stored)]
    values: dict[str, Any] = {name: stored[name].astype(np.float32) for name in names}
    if "photo" in stored:
        values["photo"] = stored["photo"]
    raw = {name.removeprefix(_RAW): stored[name].astype(np.float32) for name in stored if name.startswith(_RAW)}
    return {**values, "embeddings": raw}


def _fused(found: Sequence[_Photo], zoo: Zoo, options: SwapOptions) -> IdentityData:
    images, faces = [photo.image for photo in found], [photo.face for photo in found]
    maskers = [zoo.load("masker", name) for name in options.source_masker.split("+")]
    masks = face_masks(images, [face.mesh for face in faces], maskers)
    size = max(texture_size(face.mesh) for face in faces)
    textures: list[Texture] = [
        unwrap(image, face.mesh, mask, size) for image, face, mask in zip(images, faces, masks, strict=True)
    ]
    weights = np.array([float(t.trust.sum()) for t in textures]) + 1e-6
    best = found[int(weights.argmax())]
    embedding = np.average(np.stack([_known(face.embedding) for face in faces]), axis=0, weights=weights)
    shapes = np.stack([neutral(face.mesh, _known(face.blendshapes)) for face in faces])
    fused = fuse(textures)
    return IdentityData(
        embedding=(embedding / np.linalg.norm(embedding)).astype(np.float32),
        texture=fused.rgb,
        trust=fused.trust,
        mesh=best.face.mesh,
        shape=np.average(shapes, axis=0, weights=weights).astype(np.float32),
        photo=best.portrait,
        keypoints=best.keypoints,
        embeddings=_raw(found, zoo, options),
    )


def _raw(found: Sequence[_Photo], zoo: Zoo, options: SwapOptions) -> Mapping[str, FloatArray]:
    """The mean raw embedding by the embedder that the options' swapper was trained with, if any.

    The plain mean of all photos is what users of these swappers know.
    """
    name = zoo.load("swapper", options.swapper).needs.embedder
    if not name:
        return {}
    embedder = zoo.load("embedder", name)
    raw = [raw_embedding(embedder, photo.portrait, photo.keypoints) for photo in found]
    return {name: np.mean(raw, axis=0).astype(np.float32)}


def _fit(values: Mapping[str, Any]) -> bool:
    """Whether arrays have the shapes that `IdentityData` tells, and hold numbers."""
    raw = values["embeddings"].values()
    numbers = [array for name, array in values.items() if name not in ("embeddings", "photo")]
    if not all(np.isfinite(array).all() for array in (*numbers, *raw)) or any(array.ndim != 1 for array in raw):
        return False
    if ("photo" in values) != ("keypoints" in values):
        return False
    if any(np.abs(values[name]).max(initial=0) > FARTHEST for name in ("mesh", "shape", "keypoints") if name in values):
        return False
    side = values["trust"].shape[:1]
    shapes = {"texture": (*side, *side, 3), "trust": (*side, *side), "mesh": (POINTS, 3), "shape": (SURFACE, 3)}
    if "photo" in values:
        photo = values["photo"]
        if photo.dtype != np.uint8 or photo.ndim != 3 or 0 in photo.shape:
            return False
        shapes |= {"keypoints": (5, 2), "photo": (*photo.shape[:2], 3)}
    return values["embedding"].ndim == 1 and all(values[name].shape == shape for name, shape in shapes.items())


def _known(values: FloatArray | None) -> FloatArray:
    assert values is not None  # the finder was asked for them
    return values
