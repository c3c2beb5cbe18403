"""What the runtime is, for reports and for runs that go on."""

from __future__ import annotations

from collections.abc import Mapping

import onnxruntime as ort


def runtime_versions() -> Mapping[str, str]:
    """Versions by name: ONNX Runtime."""
    return {"ONNX Runtime": ort.__version__}
