"""`mien models build-engine`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mien.cli.flags import Debug
from mien.cli.progress import part_bar
from mien.errors import OptionsError
from mien.zoo.store import Store, cache_folder

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


def build_engine(
    file: Annotated[str, Parameter(help="An ONNX file, or the name of an installed model.")],
    /,
    *,
    fp16: Annotated[bool, Parameter(help="Let it work in half precision.", show_default=False)] = False,
    workspace: Annotated[
        str, Parameter(help="Memory that TensorRT may use meanwhile, such as 1GiB or 800MB.")
    ] = "1GiB",
    gpu: Annotated[int, Parameter(help="Number of the GPU that it is for.")] = 0,
    debug: Debug = False,
) -> int:
    """Build the TensorRT engine of a model for this machine's GPU; it takes minutes.

    The engine lies in `engines` within the cache folder, where --device tensorrt finds it. Needs the extra
    mien[tensorrt].
    """
    from mien.runtime.engines import build_engine as run

    with part_bar() as progress:
        built = run(
            model_file(file),
            fp16=fp16,
            workspace=byte_count(workspace),
            cache=cache_folder() / "engines",
            device=gpu,
            progress=progress,
        )
    print(f"{built.engine}: built in {built.seconds:.0f} s")
    for note in built.notes:
        print(f"note: {note}")
    return 0


def model_file(file: str) -> Path:
    """The file, or that of the installed model of this name.

    Raises:
        OptionsError: neither is there.
    """
    from mien.zoo.catalogue import entries

    if Path(file).is_file():
        return Path(file)
    for entry in entries(Store()):
        if entry.name == file and entry.path:
            return Path(entry.path)
        if entry.name == file and entry.next_step:
            raise OptionsError(f"{file} is not installed; {entry.next_step}")
    raise OptionsError(f"{file}: is neither a file nor a model with weights; `mien models list` shows those")


def byte_count(text: str) -> int:
    """Bytes that a text such as `1GiB`, `800 MB` or `65536` means.

    Raises:
        OptionsError: no such text.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?|)B?\s*", text.upper())
    if found is None or not float(found[1]):
        raise OptionsError(f"--workspace {text}: is no amount of memory; write it as 1GiB or 800MB")
    return int(float(found[1]) * UNITS[found[2]])
