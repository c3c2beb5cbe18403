"""Templates and fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import GeometryError
from mien.geometry import TEMPLATES, fit_similarity, scale_of, template_matrix, transform


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_a_face_inside_its_square(name: str) -> None:
    left, right, nose, mouth_left, mouth_right = points = TEMPLATES[name]
    assert points.shape == (5, 2) and points.min() > 0.2 and points.max() < 0.9
    assert left[0] < nose[0] < right[0] and mouth_left[0] < nose[0] < mouth_right[0]
    assert abs(left[1] - right[1]) < 0.01 and abs(mouth_left[1] - mouth_right[1]) < 0.01
    assert left[1] < nose[1] < mouth_left[1]


def test_dlibs_template_is_in_pixels_of_150() -> None:
    wanted = [(47.41, 44.57), (100.71, 45.05), (74.25, 77.48), (49.86, 97.85), (98.78, 98.02)]
    np.testing.assert_allclose(TEMPLATES["dlib_150"] * 150, wanted, atol=1e-4)


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from(sorted(TEMPLATES)), st.floats(-3.1, 3.1), st.floats(0.05, 20), st.floats(-3000, 3000),
    st.integers(16, 1024),
)  # fmt: skip
def test_a_face_laid_out_as_the_template_is_taken_onto_it(
    name: str, angle: float, scale: float, shift: float, size: int
) -> None:
    cos, sin = scale * np.cos(angle), scale * np.sin(angle)
    placed = np.array([[cos, -sin, shift], [sin, cos, -shift / 2]], np.float32)
    face = transform(TEMPLATES[name] * 100, placed)
    matrix = template_matrix(face, name, size)
    assert scale_of(matrix) == pytest.approx(size / (100 * scale), rel=1e-2)
    np.testing.assert_allclose(transform(face, matrix), TEMPLATES[name] * size, atol=2e-4 * size * (1 + 30 / scale))


@pytest.mark.parametrize("points", [np.full((5, 2), 7.0), np.full((5, 2), np.nan), np.zeros((1, 2)), np.zeros((5, 3))])
def test_points_that_fit_nothing_are_told(points: np.ndarray) -> None:
    with pytest.raises(GeometryError, match="cannot fit points"):
        fit_similarity(points.astype(np.float32), np.asarray(TEMPLATES["ffhq_512"][: len(points)]))
