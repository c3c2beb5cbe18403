from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mien.cli.engines import byte_count, model_file
from mien.errors import OptionsError
from mien.zoo.registry import registry
from tests.conftest import ROOT

from .conftest import Mien

PRETENDED = ROOT / "tests" / "runtime" / "pretended"


@pytest.mark.parametrize(
    ("text", "count"),
    [("1GiB", 1 << 30), ("1.5 gib", 3 << 29), ("800MB", 800_000_000), ("64M", 64_000_000), ("65536", 65536)],
)
def test_amounts_of_memory(text: str, count: int) -> None:
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "x", "0", "-1GiB", "1 GiB 2", "1TiB"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(OptionsError, match=r"is no amount of memory; write it as 1GiB or 800MB$"):
        byte_count(text)


def test_a_model_is_named_by_its_file_or_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = registry()["detector", "yunet"].card.weights
    assert model_file("yunet") == weights.path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yunet").write_bytes(b"mine")
    assert model_file("yunet") == Path("yunet")
    for name, reason in (
        ("scrfd_10g", "^scrfd_10g is not installed; run `mien models pull scrfd_10g`$"),
        ("gone.onnx", "^gone.onnx: is neither a file nor a model with weights"),
    ):
        with pytest.raises(OptionsError, match=reason):
            model_file(name)


def test_without_tensorrt_the_extra_is_named(mien: Mien, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    result = mien("models", "build-engine", "yunet", "--fp16", "--workspace", "1GiB")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("mien: TensorRT is not installed (") and "mien[tensorrt]" in result.err


def test_an_engine_is_built_by_a_pretended_tensorrt(
    mien: Mien, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIEN_CACHE", str(tmp_path))
    monkeypatch.setenv("PRETENDED_TENSORRT", json.dumps({}))
    monkeypatch.syspath_prepend(PRETENDED)
    sys.modules.pop("tensorrt", None)
    try:
        result = mien("models", "build-engine", "mesh478", "--fp16", "--workspace", "800MB")
    finally:
        sys.modules.pop("tensorrt", None)  # not by monkeypatch, which would put the pretended one back
    (engine,) = (tmp_path / "engines").glob("*/*.engine")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{engine}: built in ")
