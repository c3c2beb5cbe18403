"""One finding each of what works on this machine, and how to mend what does not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

RUNTIMES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-qnn",
    "onnxruntime-rocm",
    "onnxruntime-migraphx",
)
"""Packages that hold ONNX Runtime; each overwrites the files of the others."""

Status: TypeAlias = Literal["ok", "warning", "problem"]
"""A problem stops mien from working; a warning does not."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    status: Status
    value: str
    fix: str = ""
    """What to do about it, empty when nothing is to be done."""


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


def check_disk(free: int, what: str = "free disk", fix: str = "make room before writing a long video") -> Check:
    """Room for an output in the current folder, or for models in theirs; `free` in bytes."""
    return Check(what, "ok", gib(free)) if free >= 1 << 30 else Check(what, "warning", gib(free), fix)


def check_versions(versions: Mapping[str, str]) -> Check:
    """mien and what it works with, by name."""
    return Check("versions", "ok", ", ".join(f"{name} {version}" for name, version in versions.items()))


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


def guarded(name: str, check: Callable[[], Iterable[Check]]) -> tuple[Check, ...]:
    """The checks, or one problem when a package that they need does not load."""
    try:
        return tuple(check())
    except ImportError as error:
        return (Check(name, "problem", f"does not load: {error}", "install mien again into a new environment"),)


def check_memory() -> Iterable[Check]:
    """Memory of this machine, where the system tells it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    total, free = kib["MemTotal"] << 10, kib["MemAvailable"] << 10
    text = f"{gib(free)} of {gib(total)} available"
    if free >= 1 << 30:
        yield Check("memory", "ok", text)
    else:
        yield Check("memory", "warning", text, "close other programs, or lower --queue-size")


def gib(size: int) -> str:
    """Bytes in words."""
    return f"{size / 2**30:.1f} GiB"
