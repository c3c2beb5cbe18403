"""What was made of a model is found again by its content, and goes with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mien.runtime import batching, convert
from mien.runtime.batching import run_on_cpu
from mien.runtime.derived import clean, derived, forget
from mien.runtime.devices import DeviceSpec, Settings
from mien.runtime.engines import ORDER
from mien.runtime.kept import sha256_of, write_json
from mien.runtime.prepare import Preparation
from tests.stand_ins import graph, node


def model(gain: float) -> bytes:
    """One item of 32 values, times a matrix."""
    eye = np.asarray(gain * np.eye(32), np.float32)
    return graph([node("MatMul", ["x", "eye"], "y")], {"x": (1, 32)}, {"y": (1, 32)}, eye=eye)


def prepare(file: Path, cache: Path) -> list[Path]:
    """Make all that is made of a model; the models, best last."""
    preparation = Preparation(cache / "prepared", "fp16", Settings(cache=cache / "engines"), run_on_cpu)
    prepared = preparation(file, DeviceSpec("cuda"))
    assert len(prepared.kept) == 2
    for place, path in enumerate((file, *prepared.kept)):
        folder = cache / "engines" / f"{file.stem}{place}"
        write_json(folder / ORDER, {"sha256": sha256_of(path)})
        (folder / "model.engine").write_bytes(b"engine")
    return list(prepared.kept)


def files(cache: Path) -> set[Path]:
    return {path for path in cache.rglob("*") if path.is_file() and "probe" not in path.parts}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "one.onnx", tmp_path / "other.onnx"
    for gain, path in enumerate(paths, 2):
        path.write_bytes(model(gain))
    return paths


def test_all_that_was_made_of_a_model_goes_and_nothing_else(cache: Path, two: tuple[Path, Path]) -> None:
    prepare(two[0], cache)
    kept = files(cache)
    assert {path.name for path in kept if path.name.startswith("model.")} == {"model.engine"}
    prepare(two[1], cache)
    forget(cache, sha256_of(two[1]))
    assert files(cache) == kept
    assert {path.suffix for path in derived(cache, sha256_of(two[0]))} == {".onnx", ".json", ".lock", ""}
    forget(cache, sha256_of(two[0]))
    assert files(cache) == set()
    assert derived(cache, sha256_of(two[0])) == ()


@pytest.mark.parametrize("module", [batching, convert])
def test_what_older_rules_made_goes_too(
    cache: Path, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    old = prepare(two[0], cache)
    monkeypatch.setattr(module, "RULES", module.RULES + 1)  # type: ignore[attr-defined]
    new = prepare(two[0], cache)
    assert old[-1] != new[-1] and old[-1].exists()
    forget(cache, sha256_of(two[0]))
    assert files(cache) == set()


def test_a_file_without_a_free_batch_leaves_no_verdict(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "merging.onnx"
    file.write_bytes(graph([node("ReduceMean", ["x"], "y", axes=[0])], {"x": (1, 8)}, {"y": (1, 8)}))
    assert batching.free_batch(file, cache / "prepared") is None
    assert len(files(cache)) == 2
    forget(cache, sha256_of(file))
    assert files(cache) == set()


def test_cleaning_leaves_only_the_models(cache: Path, two: tuple[Path, Path]) -> None:
    prepare(two[0], cache)
    weights = cache / "models" / "embedder" / "x.onnx"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    assert clean(cache) == size - len(b"weights")
    assert [path.name for path in cache.iterdir()] == ["models"]
    assert clean(cache) == 0
