"""How devices are written, and what ONNX Runtime is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from pydantic import ValidationError

from mien import api
from mien.errors import DeviceError, OptionsError
from mien.options import AnalyzeOptions
from mien.runtime import graph
from mien.runtime.devices import AUTO, KINDS, PACKAGES, PROVIDERS, DeviceSpec, Settings, parse_device, providers

GOOD = {
    "auto": DeviceSpec("auto"),
    "cpu": DeviceSpec("cpu"),
    "coreml": DeviceSpec("coreml"),
    "cuda": DeviceSpec("cuda"),
    "cuda:0": DeviceSpec("cuda", (0,)),
    "cuda:2,0": DeviceSpec("cuda", (2, 0)),
    "tensorrt:0,1": DeviceSpec("tensorrt", (0, 1)),
    "openvino:0": DeviceSpec("openvino", (0,)),
    "directml:1": DeviceSpec("directml", (1,)),
    "rocm": DeviceSpec("rocm"),
    "migraphx:12": DeviceSpec("migraphx", (12,)),
}
BAD = (
    "",
    "gpu",
    "CUDA",
    "cuda:",
    "cuda:a",
    "cuda:0,",
    "cuda:0,0",
    "cuda:-1",
    "cpu:0",
    "auto:1",
    "coreml:0",
    "cuda\n",
    "cuda:0 ",
)


@pytest.mark.parametrize(("text", "spec"), GOOD.items())
def test_a_device_is_read_and_written_back(text: str, spec: DeviceSpec) -> None:
    assert parse_device(text) == spec
    assert str(spec) == text
    assert AnalyzeOptions(device=text).device == text


@pytest.mark.parametrize("text", BAD)
def test_what_names_no_device_is_refused_alike_everywhere(text: str) -> None:
    with pytest.raises(OptionsError, match="choose auto, cpu, cuda, tensorrt, openvino, coreml, directml, rocm or mig"):
        parse_device(text)
    with pytest.raises(ValidationError):
        AnalyzeOptions(device=text)


def test_the_librarys_error_names_the_choices() -> None:
    with pytest.raises(OptionsError, match=r"^device='gpu': choose auto, cpu, cuda, .* by number as in cuda:0,1$"):
        api.parse_options(AnalyzeOptions, {"device": "gpu"})


def test_the_schema_holds_the_pattern() -> None:
    schema = AnalyzeOptions.model_json_schema()["properties"]["device"]
    assert schema["type"] == "string" and schema["pattern"].startswith("^(auto|cpu|coreml|")
    assert (schema["default"], schema["scope"]) == ("auto", "operator")


def test_one_of_each() -> None:
    assert DeviceSpec("cuda", (2, 0)).each == (DeviceSpec("cuda", (2,)), DeviceSpec("cuda", (0,)))
    assert DeviceSpec("cuda").each == (DeviceSpec("cuda"),)
    assert (DeviceSpec("cuda", (2, 0)).index, DeviceSpec("cuda").index) == (2, 0)


def test_every_kind_has_a_provider_and_a_package() -> None:
    assert set(PROVIDERS) == set(PACKAGES) == set(KINDS) - {"auto"}
    assert AUTO[0] == "cuda" and AUTO[-1] == "cpu" and set(AUTO) <= set(PROVIDERS)


CUDA = {"device_id": "1", "arena_extend_strategy": "kSameAsRequested", "cudnn_conv_algo_search": "HEURISTIC"}


def test_cuda_grows_by_what_is_asked_for_and_keeps_its_limit() -> None:
    spec = DeviceSpec("cuda", (1,))
    assert providers(spec, Settings()) == [("CUDAExecutionProvider", CUDA)]
    limited = providers(spec, Settings(gpu_memory=3 << 30, conv_search="EXHAUSTIVE"), capture=True)
    assert limited[0][1] == CUDA | {
        "gpu_mem_limit": "3221225472", "cudnn_conv_algo_search": "EXHAUSTIVE", "enable_cuda_graph": "1"
    }  # fmt: skip


def test_tensorrt_has_cuda_behind_it_and_keeps_its_engines() -> None:
    settings = Settings(cache=Path("/c"), workspace=1 << 30)
    first, second = providers(DeviceSpec("tensorrt", (1,)), settings, capture=True)
    assert first == (
        "TensorrtExecutionProvider",
        {
            "device_id": "1",
            "trt_fp16_enable": "1",
            "trt_max_workspace_size": "1073741824",
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": "/c",
            "trt_timing_cache_enable": "1",
            "trt_timing_cache_path": "/c",
            "trt_cuda_graph_enable": "1",
        },
    )
    assert second == ("CUDAExecutionProvider", CUDA)
    assert providers(DeviceSpec("tensorrt"), Settings(fp16=False))[0][1] == {"device_id": "0", "trt_fp16_enable": "0"}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("cpu", {}),
        ("openvino", {"device_type": "AUTO", "cache_dir": "/c"}),
        ("openvino:1", {"device_type": "GPU.1", "cache_dir": "/c"}),
        ("coreml", {"ModelFormat": "MLProgram", "MLComputeUnits": "ALL"}),
        ("directml:1", {"device_id": "1"}),
        ("migraphx", {"device_id": "0"}),
        ("rocm:3", {"device_id": "3", "arena_extend_strategy": "kSameAsRequested", "gpu_mem_limit": "5"}),
    ],
)
def test_options_of_the_others(text: str, options: dict[str, str]) -> None:
    spec = parse_device(text)
    assert providers(spec, Settings(gpu_memory=5, cache=Path("/c"))) == [(PROVIDERS[spec.kind], options)]


class Recording:
    """Stands for `onnxruntime.InferenceSession`."""

    asked: list[tuple[Any, Any, Any]] = []  # noqa: RUF012

    def __init__(self, data: Any, options: Any, *, providers: Any, enable_fallback: int) -> None:
        self.asked.append((data, options, providers))
        assert enable_fallback == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("auto", "cpu")])
def test_onnx_runtime_is_asked_for_exactly_that_device(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", Recording)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: list(PROVIDERS.values()))
    loaded: list[str] = []
    monkeypatch.setattr(graph, "preload", lambda: loaded.append(kind))
    settings = Settings(cache=tmp_path / "a" / "b")
    graph.open_graph(tmp_path / "net.onnx", kind, 3, settings)
    data, options, asked = Recording.asked[-1]
    assert (data, asked) == (str(tmp_path / "net.onnx"), list(providers(parse_device(kind), settings)))
    assert (options.intra_op_num_threads, options.log_severity_level) == (3, 4)
    assert options.enable_mem_pattern == (kind != "directml")
    assert bool(loaded) == (kind in ("cuda", "tensorrt"))
    assert (tmp_path / "a" / "b").is_dir() == (kind == "tensorrt")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("auto", "cpu")])
def test_a_device_that_is_not_built_in_names_its_package(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(DeviceError) as caught:
        graph.open_graph(b"", kind, 0)
    assert str(caught.value) == (
        f"device {kind!r} is not in this ONNX Runtime (it offers cpu); "
        f"install {PACKAGES[kind]}, in place of the ONNX Runtime that is there, or choose --device cpu"
    )
