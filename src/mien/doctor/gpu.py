"""NVIDIA's part: driver, libraries and codecs, and what of it does not fit together.

The findings are made from facts that a test can make up; they were not read from a machine with a GPU yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mien.doctor.checks import Check, Status, gib
from mien.runtime.cuda import Gpu, Library, built_for, driver_cuda, find_gpus, find_libraries

DRIVER = "install the newest driver of your GPU from nvidia.com/drivers, then start the machine again"
LITTLE = 1 << 30


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found."""

    gpus: Sequence[Gpu] = ()
    driver: tuple[int, int] = (0, 0)
    """The newest CUDA that the driver runs."""
    cuda: str = ""
    """The CUDA that ONNX Runtime was built with; empty without."""
    libraries: Sequence[Library] = ()


def read_facts() -> Facts:
    """From this machine."""
    cuda = built_for()
    return Facts(find_gpus(), driver_cuda(), cuda, find_libraries(cuda) if cuda else ())


def check_gpu(facts: Facts) -> Iterable[Check]:
    """GPUs, driver and libraries, each with the next step."""
    for gpu in facts.gpus:
        text = f"{gpu.name}, driver {gpu.driver}, {gib(gpu.free)} of {gib(gpu.total)} free"
        little = gpu.free < LITTLE
        fix = "close what else uses it; nvidia-smi lists it" if little else ""
        yield Check(f"gpu {gpu.index}", "warning" if little else "ok", text, fix)
    if not facts.gpus and not facts.cuda:
        yield Check("gpu", "ok", "no NVIDIA GPU is found by nvidia-smi, and this ONNX Runtime needs none")
    elif not facts.cuda:
        fix = "pip uninstall onnxruntime, then pip install onnxruntime-gpu[cuda,cudnn]"
        yield Check("cuda", "warning", "there is a GPU, but this ONNX Runtime was built without CUDA", fix)
    elif not facts.gpus:
        text = f"this ONNX Runtime was built for CUDA {facts.cuda}, but nvidia-smi finds no GPU"
        yield Check("cuda", "warning", text, f"{DRIVER}; without a GPU, choose --device cpu")
    else:
        yield _driver(facts)
        yield from map(_library, facts.libraries)


def check_codecs(reasons: Mapping[str, str], *, nvidia: bool) -> Check:
    """Codecs of hardware that this FFmpeg has, with the reason of those that do not open.

    Args:
        reasons: by name, empty for those that open.
        nvidia: whether there is an NVIDIA GPU, whose codecs should open.
    """
    opens = [name for name, reason in reasons.items() if not reason]
    fails = [f"{name} ({reason})" for name, reason in reasons.items() if reason and name.endswith(("nvenc", "cuvid"))]
    if not nvidia or not fails:
        return Check("hardware codecs", "ok", f"{', '.join(opens) or 'none'} {'opens' if len(opens) == 1 else 'open'}")
    fix = f"{DRIVER}; not every GPU has every codec, and software encoders do the same work"
    return Check("hardware codecs", "warning", f"open: {', '.join(opens) or 'none'}; do not: {', '.join(fails)}", fix)


def _driver(facts: Facts) -> Check:
    runs, needed = ".".join(map(str, facts.driver)), facts.cuda.partition(".")[0]
    text = f"the driver runs CUDA up to {runs}; this ONNX Runtime was built for {facts.cuda}"
    if facts.driver == (0, 0):
        return Check("cuda", "warning", "the driver's library (libcuda) does not load", DRIVER)
    # A driver runs programs for any older CUDA, and any minor version of its own.
    return Check("cuda", "ok", text) if facts.driver[0] >= int(needed or 0) else Check("cuda", "warning", text, DRIVER)


def _library(library: Library) -> Check:
    name = f"library {library.name}"
    if not library.found:
        use = ", or do without --device tensorrt" if library.name == "TensorRT" else ""
        status: Status = "ok" if library.name == "TensorRT" else "warning"  # CUDA alone works without
        return Check(name, status, f"{library.file} does not load", f"pip install {library.package}{use}")
    major = library.found.partition(".")[0]
    if library.found != "?" and major != library.needed:
        text = f"{library.found} is loaded; this ONNX Runtime needs {library.needed}"
        return Check(name, "warning", text, f"pip install {library.package}")
    return Check(name, "ok", library.found if library.found != "?" else f"{library.file} loads")
