"""Pictures as a detector's input."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.zoo.anchors import corners, fit
from mien.zoo.cards import ModelCard
from mien.zoo.tensors import Network
from tests.zoo.detectors.told import Told

CARD = ModelCard("net", "detector", "CC0-1.0", True, "made here")


def network(side: int | None) -> Network:
    class Family:
        def __init__(self, where: object, file: bytes) -> None:
            self.network = Network(CARD, where, file, [("n", 3, None, None)], [(1,)])  # type: ignore[arg-type]

    return Told([np.zeros(1, np.float32)], side).model(Family).network


@settings(deadline=None, max_examples=80)
@given(width=st.integers(1, 300), height=st.integers(1, 300), side=st.sampled_from([None, 32, 64, 96]))
def test_a_picture_keeps_its_shape_and_lies_at_the_top_left(width: int, height: int, side: int | None) -> None:
    image = np.full((height, width, 3), 200, np.uint8)
    fitted = fit(image, network(side))
    shown = fitted.image.min(2) > 0
    columns, rows = int(shown[0].sum()), int(shown[:, 0].sum())
    assert shown[:rows, :columns].all() and shown.sum() == rows * columns
    np.testing.assert_allclose(fitted.scale * (columns, rows), (width, height), rtol=1e-5)
    if side is None:
        assert (columns, rows) == (width, height)
        assert fitted.size == (-(-width // 32) * 32, -(-height // 32) * 32)
    else:
        assert fitted.size == (side, side) and max(columns, rows) == side
        assert abs(columns / width * height - rows) <= 0.5 * max(1, height / width) + 1e-6 or 1 in (columns, rows)


def test_cells_count_row_by_row() -> None:
    assert corners((24, 16), 8).tolist() == [[0, 0], [8, 0], [16, 0], [0, 8], [8, 8], [16, 8]]
    assert corners((9, 8), 8, 2).tolist() == [[0, 0], [0, 0], [8, 0], [8, 0]]
