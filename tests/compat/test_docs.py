"""The snippets of docs/compat.md are code that works, on the photos of the examples."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.conftest import ROOT

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "compat.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, examples: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without InsightFace's files, and the examples."""
    for name in ("source.jpg", "target.jpg"):
        shutil.copy(examples / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def run(snippet: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(snippet, "compat.md", "exec"), names)
    return names


def test_face_analysis(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="of 128 values and not 512"):
        names = run(SNIPPETS[0])
    (face,) = names["faces"]
    assert face.embedding.shape == (128,) and 0.5 < face.det_score <= 1
    assert "(128,)" in capsys.readouterr().out
    assert -0.3 < names["similarity"] < 0.3  # strangers
    mirrored = np.ascontiguousarray(names["image"][:, ::-1])
    (same,) = names["app"].get(mirrored)
    assert same.normed_embedding @ face.normed_embedding > 0.8
    drawn = cv2.imread(str(folder / "boxes.jpg"))
    assert drawn is not None and drawn.shape == names["image"].shape


def test_face_swapper(folder: Path) -> None:
    names = run(SNIPPETS[1])
    assert names["result"].shape == names["target"].shape
    with pytest.warns(UserWarning):
        app = run(SNIPPETS[0])["app"]
    (source,), (target,), (result,) = (app.get(names[name]) for name in ("source", "target", "result"))
    likeness = [float(face.normed_embedding @ source.normed_embedding) for face in (target, result)]
    assert likeness[0] < 0.3 < 0.5 < likeness[1]
    assert (folder / "result.jpg").stat().st_size > 10_000


def test_there_are_two() -> None:
    assert len(SNIPPETS) == 2
