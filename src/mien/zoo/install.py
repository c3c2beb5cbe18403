"""Getting weights into the store, looking after them there, and taking them out."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mien.errors import ModelError, OptionsError
from mien.runtime.derived import forget
from mien.zoo import intake
from mien.zoo.cards import ModelCard, Task
from mien.zoo.lookalike import check_family, known
from mien.zoo.registry import registry
from mien.zoo.store import Installed, Store, cache_folder, is_name


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` did."""

    installed: Installed
    notes: tuple[str, ...] = ()
    """What the user should know of it."""


def add(
    store: Store, file: Path, family: str, name: str | None = None, *, run: bool = True,
    waiting: Callable[[], None] | None = None,
) -> Added:  # fmt: skip
    """Copy a file of the user's into the store, once it has shown on the CPU that it keeps the family's contract.

    Args:
        family: registered name whose class runs it.
        name: what it is called from then on; the family's name unless given.
        run: without it only the shapes are checked, for models too large for this machine's CPU.
        waiting: called when another process works on the same name.

    Raises:
        OptionsError: no such family, or a name that cannot be given.
        InputError: no ONNX file, or one of inputs or outputs that are too large.
        ModelError: not of this family, which tells what it looks like, or it does not come to an end.
        OutputError: the store cannot be written to.
    """
    card = card_of(family)
    name = name or family
    _check_name(store, card, name)
    intake.check(file)
    with store.apart(card.task, name) as copy:
        sha256, size = intake.copy(file, copy)
        other = known(sha256)
        if other is not None and other.name != family:
            raise ModelError(f"{file}: is {other.name}, by its sha256, not {family}; add it --as {other.name}")
        check_family(card.task, family, copy, str(file), run=run)
        place = store.place(card.task, name, sha256)
        installed = Installed(name, card.task, family, place.name, sha256, size)
        with store.changing(card.task, name, waiting):
            before = store.all().get((card.task, name))
            os.replace(copy, place)
            store.install(installed)
    _forget_derived(store, before)
    return Added(installed, _notes(card, sha256))


def card_of(name: str) -> ModelCard:
    """The card of a registered name.

    Raises:
        OptionsError: no such name; tells the nearest ones.
    """
    for (_, each), family in registry().items():
        if each == name:
            card: ModelCard = family.card
            return card
    near = difflib.get_close_matches(name, [each for _, each in registry()], 3, 0.5)
    hint = f"did you mean {' or '.join(near)}" if near else "`mien models list` shows all"
    raise OptionsError(f"no model is called {name!r}; {hint}")


def find(store: Store, name: str) -> tuple[Task, ModelCard | None, bool]:
    """Task of a name, its card where it is registered, and whether the store holds something of that name.

    Raises:
        OptionsError: neither registered nor installed.
    """
    registered: ModelCard | None = next((f.card for (_, each), f in registry().items() if each == name), None)
    for task, each in store.names():
        if each == name:
            return task, registered, True
    registered = registered or card_of(name)  # raises, with names that are near
    return registered.task, registered, False


def remove(store: Store, name: str, waiting: Callable[[], None] | None = None) -> None:
    """Delete what is installed under this name, in part, or with a damaged description, and what was made of it.

    Raises:
        OptionsError: nothing is, or it ships with mien.
        OutputError: it cannot be deleted.
    """
    task, card, stored = find(store, name)
    if not stored and card is not None and (card.weights is None or card.bundled is not None):
        raise OptionsError(f"{name}: ships with mien and cannot be removed; only pulled and added files can")
    if not stored and not any((store.folder / task).glob(f"{name}.*.onnx*")):
        raise OptionsError(f"{name}: is not installed; `mien models list --installed` shows what is")
    with store.changing(task, name, waiting):
        before = store.all().get((task, name))
        store.forget(task, name)
    _forget_derived(store, before)


def _forget_derived(store: Store, installed: Installed | None) -> None:
    """Delete what was made of a file to run it faster, unless the file is installed still."""
    if installed is not None and not any(each.sha256 == installed.sha256 for each in store.all().values()):
        forget(cache_folder(), installed.sha256)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` found of one model."""

    name: str
    task: Task
    ok: bool
    text: str
    """What is wrong and what to do, or what was compared."""


def verify(store: Store, name: str) -> Verdict:
    """Hash the weights of one model anew and compare them with its description and its card.

    Raises:
        OptionsError: no such model, or one that is not installed.
    """
    task, card, stored = find(store, name)
    try:
        if stored:
            return _verify_stored(store, task, name)
        if card is not None and card.weights is None:
            return Verdict(name, task, True, "has no weights")
        if card is not None and card.bundled is not None:
            card.bundled.checked()
            return Verdict(name, task, True, "is the file that shipped")
    except ModelError as error:
        return Verdict(name, task, False, str(error).removeprefix(f"{name}: "))
    raise OptionsError(f"{name}: is not installed; {card.next_step if card else '`mien models list` shows all'}")


def _verify_stored(store: Store, task: Task, name: str) -> Verdict:
    installed = store.find(task, name)
    if installed is None:  # removed in the meantime
        raise ModelError("is not there any more")
    path, again = store.path(installed), f"`mien models remove {name}`, then pull or add it again"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); {again}") from error
    if (size, sha256) != (installed.size, installed.sha256):
        found = f"{size} bytes of {installed.size}" if size != installed.size else "another sha256"
        raise ModelError(f"{path}: is damaged ({found}); {again}")
    family = registry().get((task, installed.family))
    if family is None:
        raise ModelError(f"{path}: is of the family {installed.family}, which this mien does not know; update mien")
    notes = _notes(family.card, sha256) if installed.name == installed.family else ()
    return Verdict(name, task, True, "; ".join(("is the file that was installed", *notes)))


def _check_name(store: Store, card: ModelCard, name: str) -> None:
    if card.weights is None:
        raise OptionsError(f"{card.name}: has no network, so no file can be added for it; choose another family")
    if not is_name(name):
        raise OptionsError(
            f"--name {name!r}: cannot be a name; use letters, digits, ., _ and -, at most 64, and no file ending"
        )
    if name == card.name:
        if card.bundled is not None:
            raise OptionsError(f"{name}: ships with mien; add your file under a name of its own with --name")
        return
    for task, other in (*registry(), *store.names()):
        if other.casefold() == name.casefold() and (other != name or (task, other) in registry() or task != card.task):
            raise OptionsError(f"--name {name}: is taken by the {task} {other}; choose another name")


def _notes(card: ModelCard, sha256: str) -> tuple[str, ...]:
    weights = card.weights
    if weights is None or not weights.sha256 or weights.sha256 == sha256:
        return ()
    return (f"it keeps the contract of {card.name}, but is not the usual file (another sha256)",)
