"""MediaPipe's blendshape model: 52 expression scores from 146 mesh points."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mien.mesh import EYE_CORNERS, constants
from mien.runtime.session import Where
from mien.types import FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import Network


@register(
    ModelCard(
        name="blendshapes52",
        task="expression",
        licence="Apache-2.0",
        commercial=True,
        origin="https://ai.google.dev/edge/mediapipe/solutions/vision/face_landmarker",
        weights=Weights(
            "blendshapes52.onnx", "9860098d08e0c100cb9e9797e320da282cf391b8cf548f120fc807d9eb73f824", 987867
        ),
    )
)
class Blendshapes52:
    """Expression scores named by `names`, in ARKit's vocabulary after `neutral`."""

    card: ModelCard

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        self._network = Network(self.card, where, file, [(1, 146, 2)], [(52,)])
        self._points, names = constants("face_mesh_478.npz", "blendshape_input_index", "blendshape_names")
        self.names: tuple[str, ...] = tuple(names.tolist())

    def __call__(self, meshes: FloatArray) -> FloatArray:
        """N×478×2+ mesh points in pixels → N×52 scores 0–1."""
        points = np.ascontiguousarray(_upright(meshes[:, :, :2])[:, self._points])
        # The graph fixes its batch at 1; it takes about a millisecond.
        scores = [self._network(one[None])[0] for one in points]
        return np.asarray(scores, np.float32).reshape(-1, 52)


def _upright(points: FloatArray) -> FloatArray:
    """N×478×2 points turned until the eyes are level: the network takes a tilt for an expression."""
    left, right = EYE_CORNERS
    across = points[:, right] - points[:, left]
    across = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-6)
    x = (points * across[:, None]).sum(2)
    y = points[:, :, 1] * across[:, None, 0] - points[:, :, 0] * across[:, None, 1]
    return np.stack([x, y], 2).astype(np.float32)
