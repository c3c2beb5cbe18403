"""MATLAB's cells and numbers, written by the description of the format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mien.errors import InputError
from mien.evaluate.protocols.matfile import read_mat
from tests.evaluate.protocols.matlab import write_mat


@pytest.mark.parametrize("compressed", [True, False])
def test_cells_text_and_numbers_come_back(tmp_path: Path, compressed: bool) -> None:
    numbers = np.array([[1.0, 3.5, 1000], [2, 4, 5e6]])
    cells = [["a", "0_Parade_12"], [np.array([[1.0], [7], [300]]), np.zeros((0, 1)), np.array([[5.0]])]]
    path = write_mat(tmp_path / "x.mat", {"numbers": numbers, "cells": cells, "t": "Größe"}, compressed=compressed)
    found = read_mat(path)
    assert list(found) == ["numbers", "cells", "t"] and found["t"] == "Größe"
    np.testing.assert_array_equal(found["numbers"], numbers)
    assert found["cells"][0] == ["a", "0_Parade_12"]
    assert [each.ravel().tolist() for each in found["cells"][1]] == [[1, 7, 300], [], [5]]


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    good = write_mat(tmp_path / "good.mat", {"cells": [np.arange(40.0).reshape(8, 5)]}, compressed=False).read_bytes()
    texts = {
        "text": b"event_list", "empty": b"", "cut": good[:-100], "hdf5": b"\x89HDF".ljust(600, b"\1"),
        "other class": good[:144] + b"\x02" + good[145:],
    }  # fmt: skip
    for name, content in texts.items():
        path = tmp_path / f"{name}.mat"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"is no MATLAB file of level 5"):
            read_mat(path)
    with pytest.raises(InputError, match=r"none\.mat"):
        read_mat(tmp_path / "none.mat")
