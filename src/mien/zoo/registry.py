"""The registry: finds every model family by looking into the task packages, and loads models.

A family is one class in one file, decorated with `@register(...)`. Nothing else needs an edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from mien.errors import OptionsError
from mien.options import AnalyzeOptions, Device
from mien.runtime.devices import Settings
from mien.runtime.graph import Opener
from mien.runtime.pool import Once, Pool
from mien.runtime.prepare import Precision, Preparation
from mien.runtime.session import Session
from mien.runtime.watchdog import Watchdog
from mien.runtime.where import Fallback, Prepare, Runtime
from mien.zoo.cards import TASKS, ModelCard, Task, Weights
from mien.zoo.store import Store, cache_folder

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
        memory_limit: megabytes that the process may take when a network is loaded, and the weights on any other
            device; networks not in use are closed to keep it, and opened again when they are used. 0: no limit.
        precision: of networks on a GPU; see `runtime.prepare.Preparation`.
        opener, settings, cuda_graphs, prepare: see `Runtime`; by default what is made ready for a device is kept in
            the user's cache folder, and with an opener nothing is.
        store: weights that do not ship with mien; by default those of the user's cache folder.
    """

    def __init__(
        self,
        device: Device = "auto",
        *,
        fallback: Fallback = "none",
        timeout: float | None = None,
        memory_limit: int = 0,
        precision: Precision = "auto",
        opener: Opener | None = None,
        settings: Settings | None = None,
        cuda_graphs: bool = False,
        prepare: Prepare | None = None,
        store: Store | None = None,
    ) -> None:
        self.device = device
        self.store = store or Store()
        limit = memory_limit * 1_000_000
        cache = cache_folder()
        settings = settings or Settings(gpu_memory=limit, cache=cache / "engines")
        if prepare is None and opener is None:
            prepare = Preparation(cache / "prepared", precision, settings)
        self._runtime = Runtime(device, fallback, opener, settings, cuda_graphs, prepare, Pool(limit))
        self._watchdog = None if timeout is None else Watchdog(timeout)
        self._files: dict[tuple[Task, str], tuple[str, Path]] = {}
        self._loaded: dict[tuple[Task, str], Any] = {}
        self._once: Once[tuple[Task, str], Any] = Once(lambda: self._loaded)

    @classmethod
    def of(cls, options: AnalyzeOptions) -> Zoo:
        """One that does what the options say of models and devices."""
        return cls(
            options.device,
            fallback=options.fallback,
            timeout=options.model_timeout,
            memory_limit=options.memory_limit,
            precision=options.precision,
        )

    def load(self, task: Task, name: str) -> Any:
        """The model, ready to call. Different ones are loaded at the same time by different threads.

        Raises:
            OptionsError: no model of that name, or one whose weights are not installed.
            ModelError, DeviceError: see `runtime.session.Session`.
        """
        return self._once.get((task, name), lambda: self._watched(self._build(task, name)))

    def lend(self, task: Task, name: str, family: str, file: Path) -> None:
        """Let this Zoo, and no other, load a file that is not in the store, under a name that it has not loaded yet.

        Args:
            family: registered name whose class runs it.
        """
        self._files[task, name] = (family, file)

    def warm(self, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """Run zeros once through each loaded network, so that the first picture does not wait.

        For whoever keeps a Zoo for long, such as a service: call it after loading. A single run gains nothing by it.

        Args:
            sizes: of free dimensions, by their names in the files; networks with others are left out.
        """
        for session in self._sessions():
            session.warm(sizes)

    def _watched(self, model: Any) -> Any:
        if self._watchdog is not None:
            for session in sessions(model):
                self._watchdog.add(session)
        return model

    def _build(self, task: Task, name: str) -> Any:
        if lent := self._files.get((task, name)):
            return registry()[task, lent[0]](self._runtime, lent[1])
        installed = self.store.find(task, name)
        family = registry().get((task, name if installed is None else installed.family))
        if family is None:
            names = ", ".join(sorted({n for t, n in (*registry(), *self.store.all()) if t == task}))
            raise OptionsError(f"no {task} is called {name!r}; choose one of: {names}")
        card: ModelCard = family.card
        if installed is None:
            if card.weights is None or card.bundled is not None:
                return family(self._runtime)
            raise OptionsError(f"{name} is not installed; {card.next_step}")
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
        return ", ".join(sorted({r.device for session in self._sessions() for r in session.replicas})) or "cpu"

    @property
    def chosen(self) -> tuple[str, ...]:
        """What `auto` took and why, each once; empty for a device that was asked for, and before any is loaded."""
        return tuple(dict.fromkeys(session.chosen for session in self._sessions() if session.chosen))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report must say of the networks: devices that failed, what was done when memory ran out; each once."""
        closed = self._runtime.pool.closed
        limit = f"networks were closed {closed} times to keep to --memory-limit; raise it if that is slow"
        told = [note for session in self._sessions() for note in session.notes]
        return tuple(dict.fromkeys([*told, limit] if closed else told))

    def _sessions(self) -> list[Session]:
        return [session for model in tuple(self._loaded.values()) for session in sessions(model)]

    @property
    def loaded(self) -> tuple[ModelCard, ...]:
        """Cards of the models loaded so far."""
        return tuple(model.card for model in tuple(self._loaded.values()))


def sessions(model: Any) -> list[Session]:
    """Sessions that a model holds as attributes."""
    return [part for part in tuple(getattr(model, "__dict__", {}).values()) if isinstance(part, Session)]
