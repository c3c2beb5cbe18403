"""Every model that there is: those that ship, those that are installed, and those that could be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mien.errors import OptionsError
from mien.zoo.cards import TASKS, ModelCard, Supply, Task
from mien.zoo.contracts import SourceNeeds
from mien.zoo.install import find
from mien.zoo.registry import registry
from mien.zoo.store import Installed, Store


@dataclass(frozen=True, slots=True)
class Entry:
    """One model, under a registered name or one of the user's own."""

    name: str
    task: Task
    licence: str
    commercial: bool
    """Whether the licence of the weights allows commercial use."""
    installed: bool
    """Whether it can be used now."""
    size: int
    """Bytes; 0 for a model without weights, or where it is not known."""
    origin: str
    family: str
    """Registered name whose class runs it."""
    bundled: bool
    """Whether it ships in the wheel."""
    supply: Supply
    """How it comes to a user: `ships`, `pull` or `add`."""
    file: str
    """Usual name of its weights; empty for a model without."""
    sha256: str
    """Of the installed file, else of the usual one; empty where it is not known."""
    path: str
    """Where the weights lie; empty where they do not."""
    next_step: str
    """What to run to install it; empty for what is installed."""
    needs: tuple[str, ...]
    """Names of the models that it cannot do without."""


def entries(store: Store) -> tuple[Entry, ...]:
    """All of them, by task and name."""
    installed = dict(store.all())
    found = [_entry(family, installed.pop(key, None), store) for key, family in registry().items()]
    for (task, _), own in installed.items():  # what is left has names of the user's own
        family = registry().get((task, own.family))
        if family is not None:
            found.append(_entry(family, own, store))
    return tuple(sorted(found, key=lambda entry: (TASKS.index(entry.task), entry.name)))


def entry_of(store: Store, name: str) -> Entry:
    """One of them.

    Raises:
        OptionsError: no model of that name.
        ModelError: its description in the store is damaged.
    """
    for entry in entries(store):
        if entry.name == name:
            return entry
    task, *_ = find(store, name)
    store.find(task, name)
    raise OptionsError(f"{name}: is of a family that this mien does not know; update mien")


def missing(store: Store, name: str) -> tuple[Entry, ...]:
    """What a model needs and is not installed."""
    found = {entry.name: entry for entry in entries(store)}
    return tuple(found[each] for each in found[name].needs if each in found and not found[each].installed)


def needs(family: type[Any]) -> tuple[str, ...]:
    """Names of the models that a family cannot do without: the embedder and the converter of a swapper."""
    wanted = getattr(family, "needs", None)
    return tuple(filter(None, (wanted.embedder, wanted.converter))) if isinstance(wanted, SourceNeeds) else ()


def _entry(family: type[Any], own: Installed | None, store: Store) -> Entry:
    card: ModelCard = family.card
    weights = card.weights
    path = _path(card, own, store)
    ready = weights is None or (path is not None and path.is_file())
    size, sha256 = (weights.size, weights.sha256) if weights is not None else (0, "")
    if own is not None and ready:
        size, sha256 = own.size, own.sha256
    return Entry(
        name=card.name if own is None else own.name,
        task=card.task,
        licence=card.licence,
        commercial=card.commercial,
        installed=ready,
        size=size,
        origin=card.origin,
        family=card.name,
        bundled=own is None and (weights is None or weights.bundled),
        supply=card.supply if own is None or own.name == card.name else "add",
        file="" if weights is None else weights.file,
        sha256=sha256,
        path=str(path) if path is not None and ready else "",
        next_step="" if ready else card.next_step,
        needs=needs(family),
    )


def _path(card: ModelCard, own: Installed | None, store: Store) -> Path | None:
    if own is not None:
        return store.path(own)
    return None if card.bundled is None else card.bundled.path
