"""What `import mien` offers, and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import mien

NAMES = [
    "Analysis", "AnalyzeOptions", "DeviceError", "DownloadError", "Face", "FaceReport", "GeometryError", "Identity",
    "InputError", "MediaError", "MienError", "ModelError", "NoFaceError", "OptionsError", "OutputError", "Pipeline",
    "PipelineError", "Progress", "RefusedError", "Report", "SwapOptions", "Track", "Zoo", "analyze",
    "cosine_similarity", "swap",
]  # fmt: skip
HEAVY = ["PIL", "av", "cv2", "cyclopts", "numpy", "onnxruntime", "pydantic", "rich"]


def test_the_public_names_are_these() -> None:
    assert sorted(mien.__all__) == NAMES
    assert set(NAMES) <= set(dir(mien))
    assert all(getattr(mien, name).__name__ == name for name in NAMES)


def test_every_public_name_is_documented() -> None:
    assert [name for name in NAMES if not getattr(mien, name).__doc__] == []


def test_importing_mien_imports_nothing_heavy() -> None:
    code = f"import json, sys, mien; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
