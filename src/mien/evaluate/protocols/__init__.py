"""Public face protocols, run on the user's own copy of their sets. Nothing is downloaded.

`run("lfw", folder)` gives a report; `docs/protocols.md` tells how each folder is laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mien.errors import InputError, OptionsError
from mien.evaluate.protocols.options import ProtocolOptions

if TYPE_CHECKING:
    from mien.evaluate.protocols.common import Report
    from mien.zoo.registry import Zoo

__all__ = ["PROTOCOLS", "ProtocolOptions", "run"]

PROTOCOLS: Mapping[str, str] = MappingProxyType(
    {
        "lfw": "Labeled Faces in the Wild: are two photos of one person? Tests the embedder.",
        "widerface": "WIDER FACE: average precision of the detector.",
        "wflw": "WFLW: error of 98 landmarks.",
        "ffpp": "FaceForensics++: identity, pose and expression of swapped clips.",
    }
)
"""Name → what it measures; each is a module of this package."""


def run(
    name: str,
    folder: Path,
    options: ProtocolOptions | None = None,
    *,
    zoo: Zoo | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Run one protocol on a folder that holds its set as published.

    Args:
        zoo: models to reuse; its device must fit the options'.
        progress: called with what is done and the number of all: photos, or for `ffpp` clips.

    Raises:
        OptionsError: no such protocol, or options that do not fit it.
        InputError: the folder is not laid out as the protocol's set; names what is missing.
        MediaError, ModelError, DeviceError: as for `mien.analyze`.
    """
    if name not in PROTOCOLS:
        raise OptionsError(f"no protocol is called {name!r}; choose one of: {', '.join(PROTOCOLS)}")
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; pass the one that holds your copy of the set, see docs/protocols.md")
    from mien.evaluate.protocols.common import Work
    from mien.zoo.registry import Zoo

    chosen = options or ProtocolOptions()
    work = Work(folder, chosen, zoo or Zoo.of(chosen), progress or (lambda done, total: None))
    report: Report = import_module(f"{__name__}.{name}").evaluate(work)
    return report
