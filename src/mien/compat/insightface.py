"""`FaceAnalysis` as InsightFace's users write it, over mien's sessions.

    from mien.compat.insightface import FaceAnalysis

    app = FaceAnalysis(name="buffalo_l")
    app.prepare(ctx_id=-1, det_size=(640, 640))
    faces = app.get(bgr)

With the files of a pack, boxes, crops and numbers are those of InsightFace's Python package; its mean head is not used,
so that `pose` may differ by a degree or two. Without them the models that ship with mien do what they can, and a
warning says so. Devices other than the CPU were not tried yet.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mien.color import as_bytes
from mien.compat.packs import MODULES, Found, advice, find_pack
from mien.compat.providers import Providers, Wish, wishes
from mien.errors import DeviceError, InputError, OptionsError
from mien.faces import FaceFinder
from mien.geometry import template_matrix, warp
from mien.landmarks import crop_matrix, pose, to_frame
from mien.options import AnalyzeOptions
from mien.runtime.devices import PROVIDERS
from mien.types import ByteArray, Detection, FloatArray
from mien.zoo.contracts import Attribute, Embedder, Landmarker
from mien.zoo.registry import Zoo

__all__ = ["Face", "FaceAnalysis"]

CPU = (Wish(PROVIDERS["cpu"], "cpu"),)


class Face(dict[str, Any]):
    """One face: `face["bbox"]` and `face.bbox` are the same, and what no model gave is None.

    `bbox` (4,) and `kps` (5, 2) in pixels, `det_score`; by recognition `embedding` (D,), not normalised; and where
    models are there `landmark_2d_106` (106, 2), `landmark_3d_68` (68, 3), `pose` (3,) pitch, yaw and roll in degrees,
    `gender` (0 female, 1 male) and `age` in years.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @property
    def embedding_norm(self) -> float | None:
        """Length of the embedding."""
        return None if self.embedding is None else float(np.linalg.norm(self.embedding))

    @property
    def normed_embedding(self) -> FloatArray | None:
        """(D,) of length 1."""
        return None if self.embedding is None else np.asarray(self.embedding / self.embedding_norm, np.float32)

    @property
    def sex(self) -> str | None:
        """M or F."""
        return None if self.gender is None else "FM"[self.gender]


class FaceAnalysis:
    """Finds and describes faces. Call `prepare` once, then `get` for each picture.

    Args:
        name: of a pack: buffalo_l, buffalo_m, buffalo_s, buffalo_sc or antelopev2, or a folder of such files.
        root: files are looked for in root/models/name first, and then in mien's store.
        allowed_modules: of `packs.MODULES`; `detection` must be one. None: all.
        providers: ONNX Runtime's, some perhaps as (name, options); the first that loads is used, and a warning tells of
            those that did not. Of their options only `device_id` counts. None: CUDA, then the CPU.
        provider_options: of each provider in turn.
        others: are left alone, as InsightFace does.

    Raises:
        OptionsError: no such pack, module or provider.
    """

    def __init__(
        self,
        name: str = "buffalo_l",
        root: str | os.PathLike[str] = "~/.insightface",
        allowed_modules: Collection[str] | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **others: Any,
    ) -> None:
        if allowed_modules is not None and "detection" not in allowed_modules:
            raise OptionsError("allowed_modules: detection is missing; add it, or nothing is found")
        folder = Path(os.path.expanduser(root))  # that of Path fails for users without a home
        zoo = Zoo("cpu")
        pack = find_pack(name, folder, zoo.store, allowed_modules)
        if pack.missing:
            warnings.warn(advice(name, folder, pack.missing), UserWarning, stacklevel=2)
        self._wishes = wishes(providers, provider_options)
        self._store, self._pack = zoo.store, pack.found
        self._wanted = tuple(module for module in MODULES if allowed_modules is None or module in allowed_modules)
        self.models: dict[str, Any] = {}
        """What each module runs, after `prepare`."""
        self.det_thresh, self.det_size = 0.5, (640, 640)

    def prepare(self, ctx_id: int, det_thresh: float = 0.5, det_size: tuple[int, int] = (640, 640)) -> None:
        """Load the models.

        Args:
            ctx_id: number of the GPU, unless the provider's options say another; negative: the CPU.
            det_thresh: score below which a face is ignored.
            det_size: width and height of what the detector sees, multiples of 32.

        Raises:
            DeviceError: none of the providers loads.
            OptionsError, ModelError: see `Zoo.load`.
        """
        if any(side <= 0 or side % 32 for side in det_size):
            raise OptionsError(f"det_size={tuple(det_size)}: sides must be multiples of 32, such as (640, 640)")
        self.det_thresh, self.det_size = det_thresh, (int(det_size[0]), int(det_size[1]))
        failed: list[tuple[str, DeviceError]] = []
        for wish in CPU if ctx_id < 0 else self._wishes:
            try:
                self.models = self._loaded(wish.device(ctx_id), wish.provider)
            except DeviceError as error:
                failed.append((wish.provider, error))
                continue
            if failed:
                reasons = "; ".join(f"{provider} did not load ({error})" for provider, error in failed)
                warnings.warn(f"running on {wish.provider}, since {reasons}", UserWarning, stacklevel=2)
            return
        first = failed[0][1]
        raise DeviceError(f"ctx_id={ctx_id}: {first}; ctx_id=-1 runs on the CPU") from first

    def _loaded(self, device: str, provider: str) -> dict[str, Any]:
        """What each module runs, on one device."""
        if not device:
            raise DeviceError(f"mien does not know {provider}")
        zoo = Zoo(device, store=self._store)
        options = AnalyzeOptions(device=device, min_score=self.det_thresh, detect_size=max(self.det_size))
        models = {module: self._load(zoo, module) for module in self._wanted if module in self._pack}
        if "detection" not in models:
            models["detection"] = FaceFinder(zoo, options)
        if "recognition" in self._wanted:
            models.setdefault("recognition", zoo.load("embedder", "mobilefacenet"))
        return models

    @property
    def det_model(self) -> Any:
        """What finds faces, after `prepare`."""
        return self.models["detection"]

    def get(self, img: ByteArray, max_num: int = 0, det_metric: str = "default") -> list[Face]:
        """Faces of an H×W×3 BGR uint8 picture, best score first.

        Args:
            max_num: keep at most so many, the largest ones; 0: all.
            det_metric: `max` measures the area alone, `default` takes off for the distance from the centre.

        Raises:
            InputError: no such picture. OptionsError: `prepare` was not called.
            ModelError: see `zoo.tensors.Network`.
        """
        if not isinstance(img, np.ndarray) or img.dtype != np.uint8 or img.ndim != 3 or img.shape[2] != 3:
            raise InputError("img: not an H×W×3 uint8 array in BGR; load it with cv2.imread")
        if "detection" not in self.models:
            raise OptionsError("the models are not loaded; call app.prepare(ctx_id=-1) first")
        rgb = np.ascontiguousarray(img[:, :, ::-1])
        faces = [
            Face(bbox=hit.bbox, kps=hit.keypoints, det_score=np.float32(hit.score))
            for hit in _chosen(self._detect(rgb), max_num, det_metric, rgb.shape[:2])
        ]
        if faces:
            for module in self._wanted:
                self._describe(module, rgb, faces)
        return faces

    def draw_on(self, img: ByteArray, faces: Sequence[Face]) -> ByteArray:
        """A copy of the BGR picture with boxes, keypoints, and sex and age where they are known."""
        drawn = img.copy()
        for face in faces:
            x0, y0, x1, y1 = (int(v) for v in face.bbox)
            cv2.rectangle(drawn, (x0, y0), (x1, y1), (0, 0, 255), 2)
            for index, (x, y) in enumerate(np.asarray(face.kps).astype(int).tolist()):
                cv2.circle(drawn, (x, y), 1, (0, 255, 0) if index in (0, 3) else (0, 0, 255), 2)
            if face.sex is not None and face.age is not None:
                text = f"{face.sex},{face.age}"
                cv2.putText(drawn, text, (x0 - 1, y0 - 4), cv2.FONT_HERSHEY_COMPLEX, 0.7, (0, 255, 0), 1)
        return drawn

    def _load(self, zoo: Zoo, module: str) -> Any:
        found: Found = self._pack[module]
        if found.file is not None:
            zoo.lend(MODULES[module], found.family, found.family, found.file)
        return zoo.load(MODULES[module], found.family)

    def _detect(self, rgb: ByteArray) -> list[Detection]:
        """Faces, best score first."""
        model = self.models["detection"]
        if isinstance(model, FaceFinder):
            faces = model.find_in_image(rgb, embeddings=False)
            return [Detection(f.bbox, f.score, f.keypoints) for f in sorted(faces, key=lambda face: -face.score)]
        canvas, scale = _letterbox(rgb, self.det_size)
        return [Detection(hit.bbox / scale, hit.score, hit.keypoints / scale) for hit in model(canvas, self.det_thresh)]

    def _describe(self, module: str, rgb: ByteArray, faces: Sequence[Face]) -> None:
        model = self.models.get(module)
        if model is None or module == "detection":
            return
        if module == "recognition":
            _embed(model, rgb, faces, plain=module in self._pack)
        elif module == "genderage":
            _guess(model, rgb, faces)
        else:
            _mark(module, model, rgb, faces)


def _letterbox(rgb: ByteArray, size: tuple[int, int]) -> tuple[ByteArray, float]:
    """The picture scaled to fit, at the top left of a black one of this width and height; and the scale."""
    height, width = rgb.shape[:2]
    if height / width > size[1] / size[0]:
        rows, columns = size[1], int(size[1] / (height / width))
    else:
        rows, columns = int(size[0] * (height / width)), size[0]
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    rows, columns = max(1, rows), max(1, columns)
    canvas[:rows, :columns] = cv2.resize(rgb, (columns, rows))
    return canvas, rows / height


def _chosen(hits: Sequence[Detection], most: int, metric: str, shape: tuple[int, ...]) -> Sequence[Detection]:
    """At most so many hits; the largest, and by `default` nearest to the centre, first."""
    if not 0 < most < len(hits):
        return hits
    boxes = np.stack([hit.bbox for hit in hits])
    value = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    if metric != "max":
        centre = np.array([shape[1] // 2, shape[0] // 2])
        value = value - 2 * (((boxes[:, :2] + boxes[:, 2:]) / 2 - centre) ** 2).sum(1)
    return [hits[i] for i in np.argsort(-value, kind="stable")[:most]]


def _cut(rgb: ByteArray, matrix: FloatArray, size: int) -> ByteArray:
    """InsightFace's crop: bilinear, black beyond the picture."""
    return np.asarray(cv2.warpAffine(rgb, matrix, (size, size), borderValue=0.0), np.uint8)


def _embed(model: Embedder, rgb: ByteArray, faces: Sequence[Face], *, plain: bool) -> None:
    matrices = [template_matrix(face.kps, model.template, model.size) for face in faces]
    crops = [
        _cut(rgb, matrix, model.size) if plain else as_bytes(warp(rgb, matrix, model.size, model.size))
        for matrix in matrices
    ]
    for face, embedding in zip(faces, model.raw(np.stack(crops)), strict=True):
        face.embedding = embedding


def _mark(module: str, model: Landmarker, rgb: ByteArray, faces: Sequence[Face]) -> None:
    matrices = [crop_matrix(face.bbox, model.margin, model.size) for face in faces]
    points, _ = model(np.stack([_cut(rgb, matrix, model.size) for matrix in matrices]))
    for face, found, matrix in zip(faces, points, matrices, strict=True):
        face[module] = to_frame(found, matrix)
        if module == "landmark_3d_68":
            face.pose = pose(face[module])


def _guess(model: Attribute, rgb: ByteArray, faces: Sequence[Face]) -> None:
    crops = [_cut(rgb, crop_matrix(face.bbox, model.margin, model.size), model.size) for face in faces]
    for face, (female, male, age) in zip(faces, model(np.stack(crops)).tolist(), strict=True):
        face.gender, face.age = int(male > female), round(age)
