"""Swapping faces of arrays in a few lines, as tutorials for other tools have it, over mien's pipeline.

    from mien.compat.facefusion import FaceSwapper, load_image, save_image

    swapper = FaceSwapper("inswapper_128.onnx").to("cpu")
    result = swapper.forward(load_image("source.jpg"), load_image("target.jpg"))
    save_image(result, "result.jpg")

Pictures are H×W×3 BGR uint8 arrays, as OpenCV has them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np

from mien.analyzer import FrameAnalyzer, analyze_frames
from mien.api import parse_options
from mien.color import as_bytes
from mien.errors import InputError, MediaError, ModelError, NoFaceError, OptionsError
from mien.faces import FaceFinder
from mien.identity import Identity
from mien.media import open_reader
from mien.media.atomic import atomic_output
from mien.media.frame import ImageFrame
from mien.options import SwapOptions
from mien.pipeline import Pipeline
from mien.runtime.devices import parse_device
from mien.types import Box, ByteArray
from mien.zoo.cards import ModelCard, Task
from mien.zoo.contracts import SourceNeeds
from mien.zoo.lookalike import check_family, known, lookalikes
from mien.zoo.registry import Zoo, registry

__all__ = ["FaceSwapper", "load_image", "save_image"]

DEFAULT = "texture"
"""The swapper that ships with mien and needs no other file."""


class FaceSwapper:
    """Puts the face of one picture on every face of another.

    Args:
        model_path: a swapper's .onnx or .dfm file, or the name of one that is installed; None or `default`: the one
            that ships. What a file needs beside it, such as arcface_w600k_r50, is looked for in its folder and then in
            mien's store.
        device: as for `--device`; see `to`.
        options: fields of `SwapOptions`.

    Raises:
        OptionsError: no such file, model, device or option, or a file that fits no swapper.
        ModelError: a file that is not what it is named after.
    """

    def __init__(self, model_path: str | os.PathLike[str] | None = None, device: str = "auto", **options: Any) -> None:
        self._file, self.name = _swapper(model_path)
        """What runs: a registered name, or that of an installed model."""
        self._chosen = options
        self._known: tuple[bytes, Identity] | None = None
        self.to(device)

    def to(self, device: str) -> FaceSwapper:
        """Run on this device from then on: cpu, cuda, cuda:1 …; models are loaded when they are first used.

        Raises:
            OptionsError: no such device, or an option that does not exist.
        """
        name = str(device)
        parse_device(name)
        self._options = parse_options(SwapOptions, {**self._chosen, "device": name, "swapper": self.name})
        self._zoo = Zoo.of(self._options)
        if self._file is not None:
            self._zoo.lend("swapper", self.name, self.name, self._file)
            self._lend_companions(self._file.parent)
        return self

    def forward(self, source: ByteArray | Sequence[ByteArray], target: ByteArray) -> ByteArray:
        """The target with the source's face; neither array is changed. The source may be several photos of one person.

        Raises:
            InputError: arrays that are no pictures.
            NoFaceError: no face in the source, or none in the target.
            OptionsError, ModelError, DeviceError: see `Zoo.load`.
        """
        photos = [source] if isinstance(source, np.ndarray) else list(source)
        for name, image in (("target", target), *(("source", photo) for photo in photos)):
            _check(name, image)
        identity = self._identity(photos)
        frame = ImageFrame(np.ascontiguousarray(target[:, :, ::-1]))
        analyzer = FrameAnalyzer(FaceFinder(self._zoo, self._options), thorough=True)
        with analyze_frames([frame], analyzer) as analysis:
            if not analysis.face_count:
                raise NoFaceError("target: no face was found; try a lower min_score or min_face")
            with Pipeline(self._options, self._zoo, identity.data, analysis).run([frame]) as run:
                (swapped,) = run
        return np.ascontiguousarray(swapped.array[:, :, ::-1], np.uint8)

    __call__ = forward

    def _identity(self, photos: Sequence[ByteArray]) -> Identity:
        """The source; the last one is remembered, so that many targets cost it once."""
        digest = hashlib.sha256()
        for photo in photos:
            digest.update(repr(photo.shape).encode() + np.ascontiguousarray(photo).tobytes())
        if self._known is None or self._known[0] != digest.digest():
            with TemporaryDirectory(prefix="mien-") as folder:
                paths = [Path(folder) / f"source{number}.png" for number in range(len(photos))]
                for path, photo in zip(paths, photos, strict=True):
                    path.write_bytes(_encoded(photo, ".png"))
                try:
                    identity = Identity.from_images(paths, zoo=self._zoo, options=self._options)
                except NoFaceError as error:
                    raise NoFaceError("source: no face was found; use a photo that shows one clearly") from error
            self._known = (digest.digest(), identity)
        return self._known[1]

    def _lend_companions(self, folder: Path) -> None:
        """Let models that a swapper's file needs be those beside it."""
        needs: SourceNeeds = registry()["swapper", self.name].needs
        wanted: tuple[tuple[Task, str], ...] = (("embedder", needs.embedder), ("converter", needs.converter))
        for task, name in wanted:
            if name:
                card: ModelCard = registry()[task, name].card
                usual = card.weights.file if card.weights is not None else ""
                for file in (folder / f"{name}.onnx", folder / usual):
                    if file.is_file():
                        self._zoo.lend(task, name, name, file)
                        break


def load_image(path: str | os.PathLike[str]) -> ByteArray:
    """(H, W, 3) BGR uint8 of a photo, or of a video's first frame, the right way up; its alpha is left out.

    Raises:
        MediaError: it cannot be read.
    """
    with open_reader(path) as reader:
        frame = next(iter(reader), None)
        if frame is None:
            raise MediaError(f"{path}: holds no picture; check that it opens elsewhere")
        rgb = as_bytes(frame.read(Box(0, 0, frame.width, frame.height)))
    return np.ascontiguousarray(rgb[:, :, ::-1])


def save_image(image: ByteArray, path: str | os.PathLike[str]) -> None:
    """Write an H×W×3 BGR uint8 array; the ending chooses the format: .jpg, .png, .webp, .tif or .bmp.

    Raises:
        InputError: an array that is no picture, or an ending of no format.
        OutputError: it cannot be written there.
    """
    _check("image", image)
    place = Path(path).absolute()
    content = _encoded(image, place.suffix.lower())
    with atomic_output(place) as partial:
        partial.write_bytes(content)


def _check(name: str, image: ByteArray) -> None:
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(f"{name}: not an H×W×3 uint8 array in BGR; load it with load_image")


def _encoded(image: ByteArray, ending: str) -> bytes:
    try:
        done, content = cv2.imencode(ending, image)
    except cv2.error as error:
        raise InputError(f"{ending or 'no ending'}: not a picture's format; use .jpg, .png or .webp") from error
    if not done:
        raise InputError(f"{ending}: a picture of {image.shape[1]}×{image.shape[0]} does not fit; use .png")
    return content.tobytes()


def _swapper(path: str | os.PathLike[str] | None) -> tuple[Path | None, str]:
    """A file and the family that runs it, or the name of a model that mien knows."""
    text = os.fspath(path) if path is not None else ""
    if text in ("", "default"):
        return None, DEFAULT
    file = Path(os.path.expanduser(text))  # that of Path fails for users without a home
    if not file.suffix or not (file.is_file() or file.suffix.lower() in (".onnx", ".dfm")):
        return None, text  # an installed model; whoever loads it says where it is not
    if not file.is_file():
        raise OptionsError(f"{file}: does not exist; pass the path of a swapper's .onnx file")
    return file, _family(file)


def _family(file: Path) -> str:
    """By its sha256, its name, or else its shapes."""
    with file.open("rb") as content:
        card = known(hashlib.file_digest(content, "sha256").hexdigest())
    if card is not None and card.task == "swapper":
        return card.name
    if file.stem != DEFAULT and ("swapper", file.stem) in registry():
        check_family("swapper", file.stem, file, str(file), run=False)
        return file.stem
    found = lookalikes(file, "swapper")
    if found is None:
        raise ModelError(f"{file}: cannot be opened; verify the file, or fetch it again")
    fits = [name for name in found if ("swapper", name) in registry()]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise OptionsError(f"{file}: may be any of {', '.join(fits)}; name the file after the one it is")
    raise OptionsError(f"{file}: fits no swapper that mien knows; `mien models list --task swapper` shows them")
