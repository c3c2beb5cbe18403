"""What really runs where: devices, the choice of `auto`, and each model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from mien.doctor.checks import Check
from mien.errors import MienError
from mien.runtime.devices import PACKAGES, PROVIDERS, DeviceSpec, parse_device
from mien.runtime.graph import available_devices
from mien.runtime.placement import Placement, milliseconds, placement, probe
from mien.runtime.session import Runtime, Session

TIMED = "mobilefacenet"
"""The model of the timed run: it ships, its input has one size, and it uses what face models use."""

Place: TypeAlias = Callable[[Path, DeviceSpec], Placement]


@dataclass(frozen=True, slots=True)
class Model:
    """A file that is installed."""

    name: str
    path: Path
    size: int
    bundled: bool


def installed() -> Sequence[Model]:
    """Models that ship and those of the user's store, the small ones first."""
    from mien.zoo.registry import registry
    from mien.zoo.store import Store

    cards = [family.card for family in registry().values() if family.card.bundled is not None]
    store = Store()
    shipped = [Model(card.name, card.bundled.path, card.bundled.size, True) for card in cards]
    own = [Model(each.name, store.path(each), each.size, False) for each in store.all().values()]
    return sorted([*shipped, *own], key=lambda model: (not model.bundled, model.size))


def devices(gpus: int) -> Sequence[str]:
    """What this ONNX Runtime was built with, and each of several GPUs."""
    numbers = [f"cuda:{index}" for index in range(gpus)] if gpus > 1 else ["cuda"]
    return [name for kind in available_devices() for name in (numbers if kind == "cuda" else [kind])]


def check_devices(names: Sequence[str], runtime: Callable[[str], Runtime] = Runtime) -> Iterable[Check]:
    """Whether each device loads, and a timed run there."""
    for device in names:
        name = f"device {device}"
        try:
            Session(probe(), runtime(device), name="a tiny model")
        except MienError as error:
            text, spec = str(error).partition(";")[0], parse_device(device)
            yield Check(name, "problem" if device == "cpu" else "warning", text, _fix(spec))
        else:
            yield Check(name, "ok", f"loads{_timed(device)}")


def check_auto(runtime: Runtime | None = None) -> tuple[Check, str]:
    """What `--device auto` takes, in words and as a device."""
    try:
        session = Session(probe(), runtime or Runtime("auto"), name="a tiny model")
    except MienError as error:
        return Check("device auto", "problem", str(error).partition(";")[0], _fix(DeviceSpec("cpu"))), "cpu"
    text = session.chosen.partition(";")[0]
    if not session.notes:
        return Check("device auto", "ok", text), session.device
    return Check("device auto", "warning", text, "see the lines on the devices above"), session.device


def check_models(
    models: Sequence[Model],
    spec: DeviceSpec,
    *,
    seconds: float | None = None,
    place: Place = placement,
    clock: Callable[[], float] = monotonic,
) -> Iterable[Check]:
    """The provider that each model really gets on a device, and what of it falls to the CPU.

    Args:
        seconds: stop to begin with another after that many; None: look at all.
    """
    end = None if seconds is None else clock() + seconds
    left = list(models)
    while left and (end is None or clock() < end):
        yield _model(left.pop(0), spec, place)
    if left:
        names = ", ".join(model.name for model in left)
        yield Check("models left out", "ok", f"{names}: no time; `mien doctor --full` looks at all")


def _fix(spec: DeviceSpec) -> str:
    if spec.kind == "cpu":
        return "install mien again into a new environment"
    if spec.kind in ("cuda", "tensorrt"):
        return "see the lines on gpu, cuda and libraries above, or choose --device cpu"
    return f"install {PACKAGES[spec.kind]} and the driver of that device again, or choose --device cpu"


def _timed(device: str) -> str:
    from mien.zoo.registry import registry

    spec = parse_device(device)
    if spec.kind == "tensorrt":
        return "; not timed, since it would build an engine"
    weights = registry()["embedder", TIMED].card.bundled
    try:
        return f"; {TIMED} takes {milliseconds(weights.path, spec):.1f} ms"
    except MienError as error:
        return f"; {TIMED} does not run ({error})"


def _model(model: Model, spec: DeviceSpec, place: Place) -> Check:
    name = f"model {model.name}"
    try:
        if spec.kind == "cpu":  # nothing can fall anywhere
            Session(model.path, "cpu")
            return Check(name, "ok", PROVIDERS["cpu"])
        found = place(model.path, spec)
    except MienError as error:
        again = "install mien again" if model.bundled else f"`mien models verify {model.name}`"
        return Check(name, "problem" if model.bundled else "warning", f"does not run: {error}", again)
    total = sum(found.nodes.values())
    text = ", ".join(f"{provider}: {count} of {total} nodes" for provider, count in found.nodes.items())
    if PROVIDERS[spec.kind] not in found.nodes:
        return Check(name, "warning", f"runs on {', '.join(found.nodes)} alone, not on {spec.kind}", _fix(spec))
    if found.on_cpu:
        fix = f"{spec.kind} lacks these operations: newer ONNX Runtimes have more, or use another export of the model"
        return Check(name, "warning", f"{text}; {', '.join(found.on_cpu)} fall to the CPU", fix)
    return Check(name, "ok", text)
