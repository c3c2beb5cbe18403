"""What works on this machine, and how to mend what does not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from mien.doctor.checks import (
    Check,
    check_disk,
    check_file,
    check_memory,
    check_python,
    check_runtime_package,
    check_versions,
    guarded,
)

SECONDS = 4.0
"""How long the models are looked at unless all are wanted."""

__all__ = ["Check", "examine"]


def examine(*, full: bool = False) -> tuple[Check, ...]:
    """All checks, in the order in which one thing needs the other.

    Args:
        full: look at every model that is installed, however long it takes.
    """
    installed = {d.name.lower().replace("_", "-"): d.version for d in distributions()}
    return (
        check_python(sys.version_info[:3]),
        Check("platform", "ok", f"{platform.platform()}, {os.cpu_count()} CPUs"),
        *guarded("versions", _versions),
        check_runtime_package(installed),
        *guarded("devices", lambda: _devices(full)),
        *guarded("media", _media),
        *guarded("weights", _weights),
        check_disk(shutil.disk_usage(Path.cwd()).free),
        *guarded("models folder", _store),
        *check_memory(),
    )


def _versions() -> Iterable[Check]:
    from importlib.metadata import version

    import cv2
    import numpy as np
    import onnx

    from mien.runtime.versions import runtime_versions

    yield check_versions(
        {
            "mien": version("mien"),
            "NumPy": np.__version__,
            "OpenCV": cv2.__version__,
            **runtime_versions(),
            "onnx": onnx.__version__,
        }
    )


def _devices(full: bool) -> Iterable[Check]:
    from mien.doctor import devices, gpu
    from mien.runtime.devices import parse_device

    facts = gpu.read_facts()
    yield from gpu.check_gpu(facts)
    yield from devices.check_devices(devices.devices(len(facts.gpus)))
    chosen, kind = devices.check_auto()
    yield chosen
    yield from devices.check_models(devices.installed(), parse_device(kind), seconds=None if full else SECONDS)


def _weights() -> Iterable[Check]:
    from mien.zoo.registry import registry

    for family in registry().values():
        weights = family.card.bundled
        if weights is not None:
            yield check_file(f"weights {family.card.name}", weights.path, weights.sha256)


def _media() -> Iterable[Check]:
    from mien.doctor.gpu import check_codecs
    from mien.media.hardware import hardware_codecs
    from mien.media.versions import encoders, library_versions
    from mien.runtime.cuda import find_gpus

    yield Check("media", "ok", ", ".join(f"{name} {version}" for name, version in library_versions().items()))
    yield Check("encoders", "ok", ", ".join(encoders()))
    yield check_codecs(hardware_codecs(), nvidia=bool(find_gpus()))


def _store() -> Iterable[Check]:
    from mien.zoo.store import Store

    folder = Store().folder
    there = next((each for each in (folder, *folder.parents) if each.is_dir()), folder)
    free = check_disk(shutil.disk_usage(there).free, "models folder", "make room before fetching models")
    yield Check(free.name, free.status, f"{folder}, {free.value} free", free.fix)
