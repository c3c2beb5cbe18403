from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

from .conftest import Mien


def test_json_has_every_face_of_every_frame(mien: Mien, portraits: Path) -> None:
    photo = portraits / "male_009.jpg"
    result = mien("analyze", photo, "--json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert set(found) == {"width", "height", "frame_count", "face_count", "cuts", "tracks", "frames"}
    image = cv2.imread(str(photo))
    assert image is not None
    assert (found["height"], found["width"], found["frame_count"], found["face_count"]) == (*image.shape[:2], 1, 1)
    (face,) = found["frames"][0]["faces"]
    assert set(face) >= {"track", "bbox", "score", "presence", "keypoints", "pose"}
    assert set(face["pose"]) == {"yaw", "pitch", "roll"}
    assert max(abs(angle) for angle in face["pose"].values()) < 15  # he looks at the camera
    x0, y0, x1, y1 = face["bbox"]
    assert all(x0 < x < x1 and y0 < y < y1 for x, y in face["keypoints"])


def test_lines_tell_frames_faces_and_tracks(mien: Mien, clip: Path) -> None:
    first, track = mien("analyze", clip).out.splitlines()
    assert first == f"{clip}: 512×512, frames 8, faces 8, cuts 0"
    assert track.startswith("track 0: frames 0 to 7, faces 8, first at ")


def test_no_face_is_no_failure(mien: Mien, tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    cv2.imwrite(str(path), np.full((200, 300, 3), 128, np.uint8))
    result = mien("analyze", path, "--min-face", "30")
    assert (result.code, result.out) == (0, f"{path}: 300×200, frames 1, faces 0, cuts 0\n")


def test_limits_hold_here_too(mien: Mien) -> None:
    result = mien("analyze", "x.jpg", "--min-face", "4")
    assert (result.code, result.err) == (2, "mien: --min-face 4: input should be greater than or equal to 8\n")
