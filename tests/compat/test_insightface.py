from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mien.compat.insightface import Face, FaceAnalysis
from mien.errors import DeviceError, InputError, MienError, ModelError, OptionsError
from mien.types import ByteArray
from mien.zoo.install import add
from mien.zoo.store import Store
from tests.references import pack
from tests.references.base import Array, File
from tests.standins import standin

FILES = {
    "det_10g": ("detector", "scrfd_10g"),
    "w600k_r50": ("embedder", "arcface_w600k_r50"),
    "2d106det": ("landmarker", "2d106det"),
    "1k3d68": ("landmarker", "1k3d68"),
    "genderage": ("attribute", "genderage"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """InsightFace's folder with a whole buffalo_l of stand-ins."""
    root = tmp_path_factory.mktemp("insightface")
    folder = root / "models" / "buffalo_l"
    folder.mkdir(parents=True)
    for stem, (task, name) in FILES.items():
        (folder / f"{stem}.onnx").write_bytes(standin(task, name))
    return root


@pytest.fixture
def portrait(portraits: Path) -> ByteArray:
    image = cv2.imread(str(portraits / "male_036.jpg"))
    assert image is not None
    return np.asarray(image, np.uint8)


@pytest.fixture
def bundled(tmp_path: Path) -> FaceAnalysis:
    with pytest.warns(UserWarning, match="buffalo_l"):
        app = FaceAnalysis(root=tmp_path)
    app.prepare(ctx_id=-1, det_size=(640, 640))
    return app


def close(a: Any, b: Any, atol: float) -> None:
    np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), atol=atol)


def threshold_of(count: int, image: ByteArray, size: tuple[int, int] = (640, 640)) -> float:
    """Score that lets so many hits of the stand-in through, of which many overlap."""
    outputs, _ = pack.look(File(standin(*FILES["det_10g"])), image, size)
    scores = np.sort(np.concatenate([output.ravel() for output in outputs[:3]]))[::-1]
    return float(scores[count] + scores[count + 1]) / 2


@pytest.mark.parametrize("shape", [(512, 512), (300, 500), (500, 260)])
@pytest.mark.parametrize("size", [(640, 640), (320, 256)])
def test_a_pack_gives_insightfaces_numbers(
    root: Path, portrait: ByteArray, shape: tuple[int, int], size: tuple[int, int]
) -> None:
    image = np.asarray(portrait[: shape[0], : shape[1]])
    if image.shape[:2] != shape:
        image = np.asarray(cv2.resize(portrait, shape[::-1]), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        app = FaceAnalysis(name="buffalo_l", root=root)
    # Stand-ins see faces everywhere.
    files = {stem: File(standin(task, name)) for stem, (task, name) in FILES.items()}
    threshold = threshold_of(60, image, size)
    app.prepare(ctx_id=-1, det_thresh=threshold, det_size=size)
    faces, wanted = app.get(image), pack.faces(files, image, size, threshold)
    assert len(faces) == len(wanted) > 5
    for face, reference in zip(faces, wanted, strict=True):
        assert set(face) == set(reference) | {"pose"}
        for key, tolerance in {"bbox": 1e-3, "kps": 1e-3, "det_score": 1e-6}.items():
            close(face[key], reference[key], tolerance)
        check_described(face, reference)


def check_described(face: Face, reference: dict[str, Any]) -> None:
    # A bilinear crop is rounded to 8 bits: 1e-3 of a pixel in the matrix may move a value by one.
    close(face.embedding, reference["embedding"], 2e-3 * np.abs(reference["embedding"]).max())
    side = max(reference["bbox"][2:] - reference["bbox"][:2])
    close(face.landmark_2d_106, reference["landmark_2d_106"], 2e-3 * side)
    close(face.landmark_3d_68, reference["landmark_3d_68"], 2e-3 * side)
    assert face.landmark_3d_68.shape == (68, 3) and face.pose.shape == (3,) and np.isfinite(face.pose).all()
    assert face.gender == reference["gender"] and abs(face.age - reference["age"]) <= 1
    assert face.sex == ("M" if face.gender == 1 else "F")


def test_the_store_is_as_good_as_the_folder(
    root: Path, portrait: ByteArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path))
    store = Store()
    for stem, (_, name) in FILES.items():
        add(store, root / "models" / "buffalo_l" / f"{stem}.onnx", name)
    apps = [FaceAnalysis(root=tmp_path / "nothing"), FaceAnalysis(root=root)]
    for app in apps:
        app.prepare(-1, det_thresh=threshold_of(60, portrait))
    ours, theirs = (app.get(portrait, max_num=3) for app in apps)
    assert len(ours) == 3
    for a, b in zip(ours, theirs, strict=True):
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])


def test_with_the_bundled_models_embeddings_tell_people_apart(bundled: FaceAnalysis, portraits: Path) -> None:
    def embedding(name: str, mirrored: bool = False) -> Array:
        image = cv2.imread(str(portraits / name))
        assert image is not None
        (face,) = bundled.get(np.ascontiguousarray(image[:, ::-1] if mirrored else image, np.uint8))
        assert face.embedding.shape == (128,) and face.bbox.shape == (4,) and face.kps.shape == (5, 2)
        assert 0.5 <= face.det_score <= 1
        assert face.landmark_3d_68 is face.gender is face.sex is face.pose is None
        close(face.normed_embedding, face.embedding / np.linalg.norm(face.embedding), 1e-6)
        assert face.embedding_norm == pytest.approx(np.linalg.norm(face.embedding))
        return np.asarray(face.normed_embedding)

    man = embedding("male_036.jpg")
    assert man @ embedding("male_036.jpg", mirrored=True) > 0.8
    assert man @ embedding("male_009.jpg") < 0.4
    assert man @ embedding("female_001.jpg") < 0.3


def test_one_warning_names_what_is_missing_and_what_to_do(tmp_path: Path, root: Path) -> None:
    with pytest.warns(UserWarning) as caught:
        FaceAnalysis(name="buffalo_l", root=tmp_path)
    (warning,) = caught
    assert str(warning.message) == (
        f"buffalo_l: det_10g.onnx, w600k_r50.onnx, 1k3d68.onnx, 2d106det.onnx, genderage.onnx not found in "
        f"{tmp_path / 'models' / 'buffalo_l'} nor in mien's store, so faces are found by yunet, faces have no "
        "landmark_3d_68, faces have no landmark_2d_106, faces have no genderage, embeddings are those of "
        "mobilefacenet, of 128 values and not 512; put the pack's files there, or run `mien models pull scrfd_10g "
        "--accept-licence` and `mien models pull arcface_w600k_r50 --accept-licence` and `mien models pull 1k3d68 "
        "--accept-licence` and `mien models pull 2d106det --accept-licence` and `mien models pull genderage "
        "--accept-licence`"
    )
    assert warning.filename == __file__
    folder = tmp_path / "models" / "antelopev2"
    folder.mkdir(parents=True)
    for stem in ("scrfd_10g_bnkps", "1k3d68", "2d106det", "genderage"):
        task, name = FILES.get(stem, FILES["det_10g"])
        (folder / f"{stem}.onnx").write_bytes(standin(task, name))
    with pytest.warns(UserWarning, match=r"^antelopev2: glintr100.onnx not found .* so embeddings are those of mobile"):
        FaceAnalysis(name="antelopev2", root=tmp_path)


def test_a_user_without_a_home_folder_can_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.warns(UserWarning, match=r"~.\.insightface"):
        FaceAnalysis()


def test_allowed_modules(root: Path, portrait: ByteArray, tmp_path: Path) -> None:
    app = FaceAnalysis(root=root, allowed_modules=["detection", "genderage"])
    app.prepare(-1, det_thresh=threshold_of(60, portrait))
    assert set(app.models) == {"detection", "genderage"} and app.det_model is app.models["detection"]
    (face,) = app.get(portrait, max_num=1)
    assert set(face) == {"bbox", "kps", "det_score", "gender", "age"}
    assert face.embedding is None and face.normed_embedding is None and face.embedding_norm is None
    with pytest.warns(UserWarning, match="so faces are found by yunet; put"):
        only = FaceAnalysis(root=tmp_path, allowed_modules=["detection"])
    only.prepare(-1)
    (face,) = only.get(portrait)
    assert set(face) == {"bbox", "kps", "det_score"}


@pytest.mark.parametrize("metric", ["default", "max"])
def test_the_largest_faces_are_kept(root: Path, portrait: ByteArray, metric: str) -> None:
    app = FaceAnalysis(root=root, allowed_modules=["detection"])
    app.prepare(-1, det_thresh=threshold_of(200, portrait))
    every = app.get(portrait)
    assert len(every) > 5
    assert [face.det_score for face in every] == sorted((face.det_score for face in every), reverse=True)

    def value(face: Face) -> float:
        x0, y0, x1, y1 = face.bbox.tolist()
        away = ((x0 + x1) / 2 - 256) ** 2 + ((y0 + y1) / 2 - 256) ** 2
        return float((x1 - x0) * (y1 - y0) - (0 if metric == "max" else 2 * away))

    best = sorted(every, key=value, reverse=True)[:4]
    kept = app.get(portrait, 4, metric)
    np.testing.assert_array_equal([face.bbox for face in kept], [face.bbox for face in best])


MODULES = {"detection", "recognition", "landmark_2d_106", "landmark_3d_68", "genderage"}
CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        ({}, "cuda:0"),
        ({"providers": [CUDA, CPU]}, "cuda:0"),
        ({"providers": [(CUDA, {"device_id": "1"}), CPU]}, "cuda:1"),
        ({"providers": [CUDA, CPU], "provider_options": [{"device_id": 2}, {}]}, "cuda:2"),
        ({"provider_options": [{}]}, "cuda:0"),
        ({"providers": ("AzureExecutionProvider", "TensorrtExecutionProvider", CPU), "session": None}, "tensorrt:0"),
    ],
)
def test_the_cpu_of_a_list_stands_in_for_a_gpu_that_is_not_there(
    root: Path, arguments: dict[str, Any], device: str
) -> None:
    app = FaceAnalysis(root=root, **arguments)
    with pytest.warns(UserWarning, match=rf"^running on {CPU}, since .* did not load \(device '{device}' is") as caught:
        app.prepare(ctx_id=0)
    assert len(caught) == 1 and set(app.models) == MODULES


def test_a_provider_that_mien_does_not_know_is_passed_over_where_the_cpu_is_named(root: Path) -> None:
    app = FaceAnalysis(root=root, providers=["QNNExecutionProvider", CPU])
    with pytest.warns(UserWarning, match=r"^running on CPU.*, since QNN.* did not load \(mien does not know QNN"):
        app.prepare(ctx_id=0)


@pytest.mark.parametrize("providers", [[CPU], [CPU, CUDA], ["AzureExecutionProvider", CPU], [(CPU, {})]])
def test_the_cpu_as_first_choice_needs_no_warning(root: Path, providers: Any) -> None:
    app = FaceAnalysis(root=root, providers=providers)
    app.prepare(ctx_id=0)
    assert set(app.models) == MODULES


def test_a_gpu_that_is_not_there_is_an_error_without_the_cpu(root: Path) -> None:
    with pytest.raises(DeviceError, match=r"^ctx_id=0: .*cuda:0.*; ctx_id=-1 runs on the CPU$"):
        FaceAnalysis(root=root, providers=[CUDA]).prepare(ctx_id=0)
    app = FaceAnalysis(root=root, providers=["TensorrtExecutionProvider", CUDA])
    with pytest.raises(DeviceError, match="tensorrt:3"):
        app.prepare(ctx_id=3)
    app.prepare(ctx_id=-1)
    assert set(app.models) == MODULES


def test_what_cannot_be_done_is_told(root: Path, tmp_path: Path, portrait: ByteArray) -> None:
    faults: list[tuple[type[MienError], str, Any]] = [
        (OptionsError, "no pack is called 'moose'; choose from buffalo_l", lambda: FaceAnalysis("moose", tmp_path)),
        (OptionsError, "detection is missing", lambda: FaceAnalysis(root=root, allowed_modules=["recognition"])),
        (OptionsError, "'nose'", lambda: FaceAnalysis(root=root, allowed_modules=["detection", "nose"])),
        (OptionsError, "'Magic' is not known", lambda: FaceAnalysis(root=root, providers=["Magic"])),
        (OptionsError, "call app.prepare", lambda: FaceAnalysis(root=root).get(portrait)),
        (OptionsError, "multiples of 32", lambda: FaceAnalysis(root=root).prepare(-1, det_size=(600, 640))),
    ]
    for kind, text, fault in faults:
        with pytest.raises(kind, match=text.replace("(", r"\(")):
            fault()
    app = FaceAnalysis(root=root)
    app.prepare(-1)
    for image in (portrait.astype(np.float32), portrait[:, :, 0], None, portrait[:, :, [0, 1, 2, 0]]):
        with pytest.raises(InputError, match="not an H×W×3 uint8 array in BGR"):
            app.get(image)  # type: ignore[arg-type]


def test_a_file_of_another_model_is_refused(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "mine"
    folder.mkdir(parents=True)
    (folder / "det_10g.onnx").write_bytes(standin("embedder", "arcface_w600k_r50"))
    app = FaceAnalysis("mine", tmp_path, allowed_modules=["detection"])
    with pytest.raises(ModelError, match=r"det_10g\.onnx: expected"):
        app.prepare(-1)


def test_a_picture_without_faces(bundled: FaceAnalysis) -> None:
    assert bundled.get(np.full((200, 300, 3), 128, np.uint8)) == []


def test_faces_are_dicts_with_attributes() -> None:
    face = Face(bbox=np.zeros(4), det_score=0.9)
    face.age = 30
    face["gender"] = 0
    assert (face["age"], face.gender, face.sex, face.anything) == (30, 0, "F", None)
    face.gender = 1
    assert face.sex == "M"
    for other in (copy.copy(face), copy.deepcopy(face), pickle.loads(pickle.dumps(face))):
        assert isinstance(other, Face) and other.keys() == face.keys() and other.sex == "M"


def test_drawing_leaves_the_picture_alone(bundled: FaceAnalysis, portrait: ByteArray) -> None:
    faces = bundled.get(portrait)
    before = portrait.copy()
    faces[0].gender, faces[0].age = 1, 40
    drawn = bundled.draw_on(portrait, faces)
    np.testing.assert_array_equal(portrait, before)
    x0, y0 = faces[0].bbox[:2].astype(int)
    assert drawn[y0, x0 + 20].tolist() == [0, 0, 255]
    assert (drawn != portrait).any(2).sum() > 500
