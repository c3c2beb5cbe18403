"""A session over its life: files that cannot be opened, and memory that stays flat."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from mien.errors import DeviceError, ModelError
from mien.runtime.session import Session
from tests import stand_ins


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kept", [0, 1, 100, -1], ids=["empty", "a byte", "cut", "all but one byte"])
def test_a_file_that_is_cut_is_one_error_with_its_path(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(stand_ins.embedder()[:kept])
    with pytest.raises(ModelError) as caught:
        Session(path, "cpu")
    assert str(caught.value).startswith(f"{path}: cannot load the model (")
    assert str(caught.value).endswith("); verify the file, or fetch it again")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.onnx: cannot load the model \(.*doesn't exist"):
        Session(tmp_path / "none.onnx", "cpu")


def test_a_device_that_this_onnx_runtime_lacks() -> None:
    text = r"^device 'tensorrt' is not in this ONNX Runtime \(it offers .*cpu\); install onnxruntime-gpu"
    with pytest.raises(DeviceError, match=text):
        Session(stand_ins.embedder(), "tensorrt")


def test_arrays_that_do_not_fit_the_graph_are_one_error_with_its_name() -> None:
    session = Session(stand_ins.embedder(), "cpu", name="net")
    with pytest.raises(ModelError, match=r"^net: inference failed \(.*\); run `mien doctor`") as caught:
        session(np.zeros((1, 3, 7, 7), np.float32))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat_over_two_thousand_calls_of_which_some_fail() -> None:
    session = Session(stand_ins.graph(
        [stand_ins.node("Relu", ["x"], "y")], {"x": ("n", 1024)}, {"y": ("n", 1024)}
    ), "cpu", threads=1)  # fmt: skip
    session.replicas[0].most = 3
    x, wrong = np.ones((8, 1024), np.float32), np.ones((8, 512), np.float32)

    def use(times: int) -> None:
        for index in range(times):
            assert session(x)[0].shape == (8, 1024)
            if index % 4 == 0:
                with pytest.raises(ModelError):
                    session(wrong)
            session.cancel()

    use(200)
    before = resident()
    use(2000)
    # One result kept of each call would be 64 MB.
    assert resident() - before < 6e6
    assert not session.replicas[0].running
