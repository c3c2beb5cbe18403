"""The registry: finds every model family by looking into the task packages, and loads models.

A family is one class in one file, decorated with `@register(...)`. Nothing else needs an edit.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from mien.errors import OptionsError
from mien.options import Device
from mien.runtime.graph import Opener, open_graph
from mien.runtime.session import Fallback, Runtime, Session
from mien.runtime.watchdog import Watchdog
from mien.zoo.cards import TASKS, ModelCard, Task, Weights
from mien.zoo.store import Store

_C = TypeVar("_C", bound=type[Any])


def register(card: ModelCard) -> Callable[[_C], _C]:
    """Mark a class as the model family that `card` describes. The class is built with `(where)`, see `Runtime`."""

    def mark(cls: _C) -> _C:
        cls.card = card
        return cls

    return mark


@cache
def registry() -> Mapping[tuple[Task, str], type[Any]]:
    """All families by (task, name)."""
    found: dict[tuple[Task, str], type[Any]] = {}
    for task in TASKS:
        package = importlib.import_module(f"mien.zoo.{task}s")
        for module in pkgutil.iter_modules(package.__path__):
            for value in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
                card = vars(value).get("card") if isinstance(value, type) else None
                if isinstance(card, ModelCard):
                    found[card.task, card.name] = value
    return MappingProxyType(found)


class Zoo:
    """Loads models on one device, each once, from any thread. Not global: whoever needs models owns a Zoo.

    Args:
        fallback: `cpu` lets a network go on there when its device has no memory left even for one item.
        timeout: seconds an inference may take before it fails with ModelError; None: for ever.
        opener: opens graphs; see `Runtime`.
        store: weights that do not ship with mien; by default those of the user's cache folder.
    """

    def __init__(
        self,
        device: Device = "auto",
        *,
        fallback: Fallback = "none",
        timeout: float | None = None,
        opener: Opener = open_graph,
        store: Store | None = None,
    ) -> None:
        self.device = device
        self.store = store or Store()
        self._runtime = Runtime(device, fallback, opener)
        self._watchdog = None if timeout is None else Watchdog(timeout)
        self._loaded: dict[tuple[Task, str], Any] = {}
        self._lock = threading.Lock()

    def load(self, task: Task, name: str) -> Any:
        """The model, ready to call.

        Raises:
            OptionsError: no model of that name, or one whose weights are not installed.
            ModelError, DeviceError: see `runtime.session.Session`.
        """
        key = (task, name)
        with self._lock:
            if key not in self._loaded:
                model = self._build(task, name)
                if self._watchdog is not None:
                    for session in _sessions(model):
                        self._watchdog.add(session)
                self._loaded[key] = model
            return self._loaded[key]

    def _build(self, task: Task, name: str) -> Any:
        installed = self.store.find(task, name)
        family = registry().get((task, name if installed is None else installed.family))
        if family is None:
            names = ", ".join(sorted({n for t, n in (*registry(), *self.store.all()) if t == task}))
            raise OptionsError(f"no {task} is called {name!r}; choose one of: {names}")
        card: ModelCard = family.card
        if installed is None:
            if card.weights is None or card.bundled is not None:
                return family(self._runtime)
            raise OptionsError(
                f"{name} is not installed; `mien models info {name}` tells its licence and where to get it, "
                f"`mien models add FILE --as {name}` takes a file of yours"
            )
        model = family(self._runtime, self.store.path(installed))
        weights = Weights(installed.file, installed.sha256, installed.size, bundled=False)
        model.card = replace(card, name=installed.name, weights=weights)
        return model

    def cancel(self) -> None:
        """End the inferences that run now; later ones are not affected."""
        for session in self._sessions():
            session.cancel()

    @property
    def used_device(self) -> str:
        """Devices that the loaded networks really run on; `cpu` before any is loaded."""
        return ", ".join(sorted({session.device for session in self._sessions()})) or "cpu"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report must say of the networks: what was done because memory ran out, each once."""
        return tuple(dict.fromkeys(note for session in self._sessions() for note in session.notes))

    def _sessions(self) -> list[Session]:
        return [session for model in tuple(self._loaded.values()) for session in _sessions(model)]

    @property
    def loaded(self) -> tuple[ModelCard, ...]:
        """Cards of the models loaded so far."""
        return tuple(model.card for model in self._loaded.values())


def _sessions(model: Any) -> list[Session]:
    """Sessions that a model holds as attributes."""
    return [part for part in tuple(getattr(model, "__dict__", {}).values()) if isinstance(part, Session)]
