"""What works on this machine, and how to mend what does not."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Literal

from mien.errors import MienError

RUNTIMES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-qnn",
)
"""Packages that hold ONNX Runtime; each overwrites the files of the others."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    status: Literal["ok", "warning", "problem"]
    """A problem stops mien from working; a warning does not."""
    value: str
    fix: str = ""
    """What to do about it, empty when nothing is to be done."""


def examine() -> tuple[Check, ...]:
    """All checks, in the order in which one thing needs the other."""
    installed = {d.name.lower().replace("_", "-"): d.version for d in distributions()}
    return (
        check_python(sys.version_info[:3]),
        Check("platform", "ok", f"{platform.platform()}, {os.cpu_count()} CPUs"),
        check_runtime_package(installed),
        *_guarded("devices", _check_devices),
        *_guarded("media", _check_media),
        *_guarded("weights", _check_weights),
        check_disk(shutil.disk_usage(Path.cwd()).free),
        *_check_memory(),
    )


def check_python(found: tuple[int, ...]) -> Check:
    """Python itself."""
    text = ".".join(str(part) for part in found)
    if found >= (3, 11):
        return Check("python", "ok", text)
    return Check("python", "problem", text, "install Python 3.11 or newer and install mien into it")


def check_runtime_package(installed: Mapping[str, str]) -> Check:
    """Exactly one ONNX Runtime package may be installed. `installed` maps names to versions."""
    found = [f"{name} {installed[name]}" for name in RUNTIMES if name in installed]
    if len(found) == 1:
        return Check("onnxruntime", "ok", found[0])
    if not found:
        return Check("onnxruntime", "problem", "not installed", "pip install onnxruntime")
    names = " ".join(name for name in RUNTIMES if name in installed)
    return Check(
        "onnxruntime",
        "problem",
        f"{' and '.join(found)} are installed together and overwrite each other's files",
        f"pip uninstall {names}, then pip install just one of them",
    )


def check_disk(free: int) -> Check:
    """Room for an output in the current folder; `free` in bytes."""
    if free >= 1 << 30:
        return Check("free disk", "ok", _gib(free))
    return Check("free disk", "warning", _gib(free), "make room before writing a long video")


def check_file(name: str, path: Path, sha256: str) -> Check:
    """A weights file is there, whole and unchanged."""
    fix = "install mien again: pip install --force-reinstall --no-deps mien"
    if not path.is_file():
        return Check(name, "problem", f"{path} is missing", fix)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        return Check(name, "problem", f"{path} is damaged: its sha256 is {found}, not {sha256}", fix)
    return Check(name, "ok", f"{path.stat().st_size / 1e6:.1f} MB, sha256 {sha256[:12]}…")


def _guarded(name: str, check: Callable[[], Iterable[Check]]) -> tuple[Check, ...]:
    """The checks, or one problem when a package that they need does not load."""
    try:
        return tuple(check())
    except ImportError as error:
        return (Check(name, "problem", f"does not load: {error}", "install mien again into a new environment"),)


def _check_devices() -> Iterable[Check]:
    from mien.runtime.graph import available_devices
    from mien.runtime.session import Session
    from mien.zoo.registry import registry

    weights = [family.card.bundled for family in registry().values()]
    graphs = [each for each in weights if each is not None]
    smallest = min(graphs, key=lambda each: each.size)
    for device in available_devices():
        name = f"device {device}"
        try:
            Session(smallest.path, device)
        except MienError as error:
            status: Literal["warning", "problem"] = "problem" if device == "cpu" else "warning"
            yield Check(name, status, str(error), "" if device == "cpu" else _GPU_FIX)
        else:
            yield Check(name, "ok", "loads")


_GPU_FIX = "check the driver with nvidia-smi, and that CUDA and cuDNN are there: onnxruntime-gpu[cuda,cudnn]"


def _check_weights() -> Iterable[Check]:
    from mien.zoo.registry import registry

    for family in registry().values():
        weights = family.card.bundled
        if weights is not None:
            yield check_file(f"weights {family.card.name}", weights.path, weights.sha256)


def _check_media() -> Iterable[Check]:
    from mien.media.versions import encoders, library_versions

    yield Check("media", "ok", ", ".join(f"{name} {version}" for name, version in library_versions().items()))
    yield Check("encoders", "ok", ", ".join(encoders()))


def _check_memory() -> Iterable[Check]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    total, free = kib["MemTotal"] << 10, kib["MemAvailable"] << 10
    text = f"{_gib(free)} of {_gib(total)} available"
    if free >= 1 << 30:
        yield Check("memory", "ok", text)
    else:
        yield Check("memory", "warning", text, "close other programs, or lower --queue-size")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
