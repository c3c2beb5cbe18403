"""Finding faces on the fixture portraits: one face each, 512×512."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mien.color import as_bytes
from mien.errors import OptionsError
from mien.faces import ArrayFrame, FaceFinder, keypoints_of_mesh
from mien.geometry import TEMPLATES, transform
from mien.options import AnalyzeOptions
from mien.types import Box, ByteArray, Detection, Face, FloatArray, Image
from mien.zoo.cards import Task
from mien.zoo.registry import Zoo

# Read off enlarged pictures by eye: iris centres, then mouth corners.
BY_EYE = {
    "female_001": [(228.5, 167.5), (298.5, 168.5), (232.5, 233), (294, 234.5)],
    "female_031": [(220, 124), (283.5, 110), (239.5, 185.5), (294, 172)],
    "male_009": [(237, 95), (281, 95), (241, 143.5), (277, 144.5)],
    "male_036": [(208, 156), (304.5, 157), (215, 251), (298, 250)],
}


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return Zoo("cpu")


@pytest.fixture(scope="module")
def finder(zoo: Zoo) -> FaceFinder:
    return FaceFinder(zoo)


@pytest.fixture(scope="module")
def images(portraits: Path) -> dict[str, ByteArray]:
    read = {name: cv2.imread(str(portraits / f"{name}.jpg")) for name in BY_EYE}
    return {name: np.ascontiguousarray(bgr[:, :, ::-1], np.uint8) for name, bgr in read.items() if bgr is not None}


@pytest.fixture(scope="module")
def faces(finder: FaceFinder, images: dict[str, ByteArray]) -> dict[str, Face]:
    """The one face of each portrait."""
    return {name: only(finder.find_in_image(image, expressions=True)) for name, image in images.items()}


def only(faces: tuple[Face, ...]) -> Face:
    assert len(faces) == 1
    return faces[0]


def eyes(face: Face) -> float:
    """Distance of the irises in pixels."""
    return float(np.linalg.norm(face.keypoints[0] - face.keypoints[1]))


def apart(face: Face, keypoints: FloatArray) -> float:
    """Mean distance of the keypoints from where they should be, over the distance of the eyes."""
    width = np.linalg.norm(keypoints[0] - keypoints[1])
    return float(np.linalg.norm(face.keypoints - keypoints, axis=1).mean() / width)


def turned(image: ByteArray, degrees: float) -> tuple[ByteArray, FloatArray]:
    """The image turned clockwise on a grey canvas that holds it, and the (2, 3) matrix that did it."""
    height, width = image.shape[:2]
    side = math.ceil(math.hypot(height, width))
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), -degrees, 1)
    matrix[:, 2] += [(side - width) / 2, (side - height) / 2]
    canvas = cv2.warpAffine(image, matrix, (side, side), borderValue=(110, 110, 110))
    return np.asarray(canvas, np.uint8), np.asarray(matrix, np.float32)


def resized(image: ByteArray, scale: float) -> tuple[ByteArray, FloatArray]:
    size = (round(image.shape[1] * scale), round(image.shape[0] * scale))
    made = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    fx, fy = size[0] / image.shape[1], size[1] / image.shape[0]
    return np.asarray(made, np.uint8), np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2]], np.float32)


@pytest.mark.parametrize("name", BY_EYE)
def test_keypoints_are_where_the_eye_sees_them(name: str, faces: dict[str, Face]) -> None:
    error = np.linalg.norm(faces[name].keypoints[[0, 1, 3, 4]] - np.array(BY_EYE[name]), axis=1) / eyes(faces[name])
    assert error.max() < 0.06
    assert error.mean() < 0.035


@pytest.mark.parametrize("name", BY_EYE)
def test_a_face_is_complete(name: str, faces: dict[str, Face]) -> None:
    face = faces[name]
    assert face.score > 0.9 and face.presence > 0.99 and face.track == -1
    assert face.mesh.shape == (478, 3) and face.mesh.dtype == np.float32
    np.testing.assert_array_equal(face.keypoints, keypoints_of_mesh(face.mesh))
    x0, y0, x1, y1 = face.bbox
    inside = (face.keypoints > (x0, y0)) & (face.keypoints < (x1, y1))
    assert inside.all()
    assert face.mesh[4, 2] < face.mesh[[234, 454], 2].min()  # the nose is nearer than the ears
    assert face.embedding is not None and np.linalg.norm(face.embedding) == pytest.approx(1, abs=1e-5)


def test_expressions_and_embeddings_come_when_asked_for(finder: FaceFinder, images: dict[str, ByteArray]) -> None:
    frame = ArrayFrame(images["male_009"])
    plain = only(finder(frame, embeddings=False))
    assert plain.embedding is None and plain.blendshapes is None
    full = only(finder(frame, expressions=True))
    assert full.embedding is not None and full.blendshapes is not None and full.blendshapes.shape == (52,)
    np.testing.assert_array_equal(plain.mesh, full.mesh)


def test_a_frown_and_a_smile_are_told_apart(faces: dict[str, Face], zoo: Zoo) -> None:
    names = zoo.load("expression", "blendshapes52").names
    smile, frown = names.index("mouth_smile_left"), names.index("brow_down_left")
    scores = {name: face.blendshapes for name, face in faces.items() if face.blendshapes is not None}
    assert scores["female_031"][smile] > 0.3 > scores["male_036"][smile]
    assert scores["male_009"][frown] > 0.3 > scores["female_031"][frown]


def test_a_mirrored_picture_gives_mirrored_points(finder: FaceFinder, images: dict[str, ByteArray]) -> None:
    """Half a pixel of the landmarker's crop would show as a shift between the two."""
    shifts = []
    for image in images.values():
        plain = only(finder.find_in_image(image, embeddings=False))
        mirrored = only(finder.find_in_image(np.ascontiguousarray(image[:, ::-1]), embeddings=False))
        back = np.c_[image.shape[1] - 1 - mirrored.keypoints[:, 0], mirrored.keypoints[:, 1]][[1, 0, 2, 4, 3]]
        assert apart(plain, back.astype(np.float32)) < 0.03
        shifts.append((back - plain.keypoints)[:, 0].mean() / eyes(plain))
    assert abs(np.mean(shifts)) < 0.005


@pytest.mark.parametrize("degrees", range(0, 360, 30))
def test_a_tilted_face_is_found_upright(
    degrees: int, finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    for name, thorough in (("male_036", True), ("female_001", False)):
        image, matrix = turned(images[name], degrees)
        face = only(finder(ArrayFrame(image), thorough=thorough, embeddings=False))
        assert apart(face, transform(faces[name].keypoints, matrix)) < 0.04


def test_one_face_upright_and_one_upside_down(
    finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    other = np.rot90(images["female_001"], 2)
    found = finder.find_in_image(np.concatenate([images["male_036"], other], 1), embeddings=False)
    assert len(found) == 2
    assert apart(found[0], faces["male_036"].keypoints) < 0.04
    assert apart(found[1], (1023, 511) - faces["female_001"].keypoints) < 0.04


@pytest.mark.parametrize("height", [20, 24, 40])
def test_a_small_face_in_a_large_picture(
    height: int, finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    small, matrix = resized(images["male_036"], height / float(faces["male_036"].bbox[3] - faces["male_036"].bbox[1]))
    picture = np.full((1080, 1920, 3), 110, np.uint8)
    picture[700 : 700 + small.shape[0], 1500 : 1500 + small.shape[1]] = small
    face = only(finder.find_in_image(picture, embeddings=False))
    assert apart(face, transform(faces["male_036"].keypoints, matrix) + np.array([1500, 700], np.float32)) < 0.12
    assert face.bbox[3] - face.bbox[1] == pytest.approx(height, rel=0.26)


def test_a_face_of_3000_pixels_in_native_resolution(
    finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    known = faces["male_036"]
    scale = 3000 / float(known.bbox[3] - known.bbox[1])
    large, matrix = resized(images["male_036"][20:380, 110:410], scale)
    face = only(finder.find_in_image(large, embeddings=False))
    assert apart(face, transform(known.keypoints - (110, 20), matrix)) < 0.04


@pytest.mark.parametrize("part", [1.0, 0.8, 0.7])
def test_a_tight_crop_without_background(
    part: float, finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    for name, face in faces.items():
        centre, half = (face.bbox[:2] + face.bbox[2:]) / 2, (face.bbox[2:] - face.bbox[:2]) * part / 2
        (x0, y0), (x1, y1) = (centre - half).astype(int), (centre + half).astype(int)
        tight = only(finder.find_in_image(images[name][y0:y1, x0:x1], embeddings=False))
        assert apart(tight, face.keypoints - np.array([x0, y0], np.float32)) < 0.08


def test_a_face_cut_by_the_edge_of_the_frame(
    finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    for name, face in faces.items():
        cut = int(face.bbox[0] + 0.25 * (face.bbox[2] - face.bbox[0]))
        found = only(finder.find_in_image(images[name][:, cut:], embeddings=False))
        assert apart(found, face.keypoints - np.array([cut, 0], np.float32)) < 0.1


def test_a_crowd_is_found_once_each_and_ordered_by_size(finder: FaceFinder, images: dict[str, ByteArray]) -> None:
    cells = [np.asarray(cv2.resize(image, (side, side)), np.uint8) for side in (200, 150) for image in images.values()]
    canvas = np.zeros((400, 800, 3), np.uint8)
    for i, cell in enumerate(cells):
        x, y = i % 4 * 200, i // 4 * 200
        canvas[y : y + len(cell), x : x + len(cell)] = cell
    found = finder.find_in_image(canvas, embeddings=False)
    assert sorted((int(f.keypoints[2, 0] // 200), int(f.keypoints[2, 1] // 200)) for f in found) == [
        (x, y) for x in range(4) for y in range(2)
    ]
    areas = [float(np.prod(face.bbox[2:] - face.bbox[:2])) for face in found]
    assert areas == sorted(areas, reverse=True)


@pytest.mark.parametrize("thorough", [True, False])
def test_pictures_without_a_face(thorough: bool, finder: FaceFinder) -> None:
    noise = np.random.default_rng(3).integers(0, 255, (300, 400, 3), np.uint8)
    stripes = np.tile(np.arange(0, 250, 10).astype(np.uint8)[:, None, None], (20, 640, 3))
    for image in (noise, stripes, np.zeros((1, 1, 3), np.uint8), np.zeros((2, 900, 3), np.uint8)):
        assert finder(ArrayFrame(image), thorough=thorough) == ()


def test_deep_pixels_give_the_same_face(
    finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]
) -> None:
    deep = images["female_031"].astype(np.float32) / 255
    np.testing.assert_array_equal(as_bytes(deep), images["female_031"])
    np.testing.assert_array_equal(only(finder.find_in_image(deep)).mesh, faces["female_031"].mesh)


def test_embeddings_know_people_again(finder: FaceFinder, images: dict[str, ByteArray], faces: dict[str, Face]) -> None:
    for name, face in faces.items():
        image, _ = turned(resized(images[name], 0.6)[0], 140)
        other = only(finder.find_in_image(image))
        assert face.embedding is not None and other.embedding is not None
        assert face.embedding @ other.embedding > 0.75
        assert finder.embed(images[name], face) @ face.embedding > 0.99
    embeddings = np.stack([face.embedding for face in faces.values() if face.embedding is not None])
    assert (embeddings @ embeddings.T - np.eye(4)).max() < 0.4


def test_options_limit_what_is_found(zoo: Zoo, images: dict[str, ByteArray]) -> None:
    frame = ArrayFrame(images["male_009"])  # its face is 93×123
    assert FaceFinder(zoo, AnalyzeOptions(min_face=200))(frame, embeddings=False) == ()
    assert FaceFinder(zoo, AnalyzeOptions(min_score=0.99))(frame, embeddings=False) == ()
    assert FaceFinder(zoo, AnalyzeOptions(detect_size=24))(frame, thorough=False, embeddings=False) == ()
    assert len(FaceFinder(zoo, AnalyzeOptions(detect_size=200))(frame, embeddings=False)) == 1
    with pytest.raises(OptionsError, match=r"no detector is called .none.; choose one of: .*yunet"):
        FaceFinder(zoo, AnalyzeOptions(detector="none"))


class Watched(ArrayFrame):
    """Asserts that boxes lie inside the frame and that no thumbnail is larger than what fits in memory."""

    def thumbnail(self, side: int) -> ByteArray:
        assert side <= 1280
        return super().thumbnail(side)

    def read(self, box: Box) -> Image:
        assert box == box.clip(self.width, self.height) and not box.empty
        assert max(box.width, box.height) <= 1280
        return super().read(box)


def test_a_large_frame_is_never_read_as_a_whole(finder: FaceFinder, images: dict[str, ByteArray]) -> None:
    picture = np.full((1400, 2600, 3), 90, np.uint8)
    picture[-512:, -512:] = images["female_001"]  # its face is cut by no tile, and lies near the frame's corner
    picture[600:1112, 1000:1512] = images["male_009"]  # across the seams of the tiles
    assert len(finder(Watched(picture))) == 2


class FakeZoo(Zoo):
    """Gives the models it was made with."""

    def __init__(self, **models: Any) -> None:
        super().__init__("cpu")
        self.models = models

    def load(self, task: Task, name: str) -> Any:
        return self.models[task]


class Looker:
    """A detector that always finds one upright face in the middle, and a landmarker that puts it there."""

    size, points, crop = 256, 478, "mesh"

    def __call__(self, *args: Any) -> Any:
        if len(args) == 2:
            image, _ = args
            centre, unit = np.array(image.shape[1::-1]) / 2, min(image.shape[:2]) / 4
            points = centre + unit * np.array([(-0.4, -0.3), (0.4, -0.3), (0, 0.1), (-0.3, 0.5), (0.3, 0.5)])
            bbox = np.concatenate([centre - unit, centre + unit])
            return [Detection(bbox.astype(np.float32), 0.95, points.astype(np.float32))]
        crops = args[0]
        mesh = np.full((len(crops), 478, 3), 128, np.float32)
        mesh[:, [33, 263, 468, 473, 4, 61, 291], :2] = [
            (60, 100), (196, 100), (94, 102), (162, 102), (128, 136), (102, 171), (154, 171)
        ]  # fmt: skip
        return mesh, np.full(len(crops), 0.9, np.float32)


class Embedder:
    """Keeps its crops."""

    template = "arcface_112_v2"
    size = 112
    crops: ByteArray

    def __call__(self, crops: ByteArray) -> FloatArray:
        self.crops = crops
        return np.eye(len(crops), 4, dtype=np.float32)


def test_the_embedder_sees_the_keypoints_at_its_template() -> None:
    looker, embedder = Looker(), Embedder()
    finder = FaceFinder(FakeZoo(detector=looker, landmarker=looker, embedder=embedder))
    image = np.zeros((600, 600, 3), np.uint8)
    face = only(finder.find_in_image(image))
    # Keypoints on the template itself, so that the fit is exact; one coloured disc each.
    points = TEMPLATES["arcface_112_v2"] * 200 + 150
    for point, colour in zip(points, np.eye(5, 3) * 255, strict=True):
        cv2.circle(image, [round(float(v)) for v in point], 12, colour.tolist(), -1)
    mesh = face.mesh.copy()
    mesh[[468, 473, 4, 61, 291], :2] = points
    finder.embed(image, Face(face.bbox, 0.9, keypoints_of_mesh(mesh), mesh, 0.9))
    assert embedder.crops.shape == (1, 112, 112, 3)
    for (x, y), colour in zip(np.rint(TEMPLATES["arcface_112_v2"] * 112).astype(int), np.eye(5, 3) * 255, strict=True):
        assert embedder.crops[0, y, x].tolist() == colour.tolist()


def test_a_mesh_that_lies_elsewhere_than_the_detection_is_no_face() -> None:
    class Stray(Looker):
        def __call__(self, *args: Any) -> Any:
            found = super().__call__(*args)
            if len(args) == 1:
                found[0][:, :, 0] += 100
            return found

    finder = FaceFinder(FakeZoo(detector=Looker(), landmarker=Stray()))
    assert finder.find_in_image(np.zeros((600, 600, 3), np.uint8), embeddings=False) == ()


@pytest.mark.parametrize(("crop", "points"), [("bbox", 68), ("points", 68), ("bbox", 478), ("mesh", 468)])
def test_a_landmarker_without_a_mesh_cannot_lead(crop: str, points: int) -> None:
    other = Looker()
    other.crop, other.points = crop, points
    zoo = FakeZoo(detector=Looker(), landmarker=other)
    reason = f"landmarker=2dfan4: gives {points} points and no mesh of 478, which finding faces needs; use mesh478"
    with pytest.raises(OptionsError, match=f"^{reason}$"):
        FaceFinder(zoo, AnalyzeOptions(landmarker="2dfan4"))
