"""A `tensorrt` that builds nothing but remembers how it was asked; its engine is that, as JSON.

PRETENDED_TENSORRT holds what it is to be: `{"version": "10.9.0", "fail": "parse", "seconds": 5}`.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import time
from typing import Any

_TOLD = json.loads(os.environ.get("PRETENDED_TENSORRT", "{}"))
__version__ = str(_TOLD.get("version", "10.9.0.34"))
_OLD = int(__version__.split(".")[0]) < 11


class Logger:
    ERROR = 1

    def __init__(self, level: int) -> None:
        assert level == Logger.ERROR


class MemoryPoolType(enum.Enum):
    WORKSPACE = 0


class NetworkDefinitionCreationFlag(enum.IntEnum):
    STRONGLY_TYPED = 1


BuilderFlag = enum.Enum("BuilderFlag", ["FP16", "TF32"] if _OLD else ["TF32"])  # type: ignore[misc]


class IProgressMonitor:
    """Base of listeners; its own constructor must be called."""

    def __init__(self) -> None:
        self.ready = True


class _Network:
    def __init__(self, flags: int) -> None:
        self.flags, self.data = flags, b""


class _Error:
    def desc(self) -> str:
        return "No importer registered for op:\n Foo"


class OnnxParser:
    def __init__(self, network: _Network, logger: Logger) -> None:
        self._network = network
        self.num_errors = 0

    def parse(self, data: bytes) -> bool:
        self._network.data = data
        self.num_errors = int(_TOLD.get("fail") == "parse")
        return not self.num_errors

    def get_error(self, index: int) -> _Error:
        return _Error()


class _Cache:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def serialize(self) -> bytes:
        return self.data + b"+"


class _Config:
    def __init__(self) -> None:
        self.told: dict[str, Any] = {"flags": [], "profiles": []}
        self.progress_monitor: Any = None
        self._cache = _Cache(b"")

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None:
        self.told[pool.name] = size

    def set_flag(self, flag: Any) -> None:
        self.told["flags"].append(flag.name)

    def add_optimization_profile(self, profile: _Profile) -> int:
        self.told["profiles"].append(profile.shapes)
        return 0

    def create_timing_cache(self, data: bytes) -> _Cache:
        return _Cache(data)

    def set_timing_cache(self, cache: _Cache, ignore_mismatch: bool) -> bool:
        if cache.data.startswith(b"other") and not ignore_mismatch:
            return False
        self._cache = cache
        return True

    def get_timing_cache(self) -> _Cache:
        return self._cache


class _Profile:
    def __init__(self) -> None:
        self.shapes: dict[str, Any] = {}

    def set_shape(self, name: str, least: Any, usual: Any, most: Any) -> None:
        assert all(isinstance(shape, tuple) for shape in (least, usual, most))
        self.shapes[name] = [least, usual, most]


class Builder:
    def __init__(self, logger: Logger) -> None:
        pass

    def create_network(self, flags: int) -> _Network:
        return _Network(flags)

    def create_builder_config(self) -> _Config:
        return _Config()

    def create_optimization_profile(self) -> _Profile:
        return _Profile()

    def build_serialized_network(self, network: _Network, config: _Config) -> bytes | None:
        monitor = config.progress_monitor
        if _TOLD.get("fail") == "crash":
            os.write(2, b"[TRT] something\nSegmentation fault (pretended)\n")
            os._exit(139)
        if monitor is not None:
            assert monitor.ready
            monitor.phase_start("Building Engine", None, 4)
            for step in range(4):
                monitor.phase_start("Tactics", "Building Engine", 2)
                monitor.step_complete("Tactics", 0)
                monitor.phase_finish("Tactics")
                if not monitor.step_complete("Building Engine", step):
                    return None
                time.sleep(float(_TOLD.get("seconds", 0)) / 4)
            monitor.phase_finish("Building Engine")
        if _TOLD.get("fail") == "build":
            return None
        digest = hashlib.sha256(network.data).hexdigest()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return json.dumps({**config.told, "network": network.flags, "sha256": digest, "visible": visible}).encode()
