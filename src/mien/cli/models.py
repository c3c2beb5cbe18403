"""`mien models`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from mien.cli import tables
from mien.cli.files import print_json
from mien.cli.flags import Debug, Json
from mien.cli.progress import byte_bar
from mien.zoo.cards import Task
from mien.zoo.store import Store, cache_folder

ENVIRONMENT = """
Weights that do not ship with mien lie in `models` within the cache folder. The environment has a say:

MIEN_CACHE: the cache folder; else mien in XDG_CACHE_HOME, else in ~/.cache.

MIEN_MIRROR: address of a folder that holds weights by their usual names, tried before all others.

MIEN_OFFLINE: 1 forbids to fetch anything.

HTTPS_PROXY, HTTP_PROXY, NO_PROXY: as everywhere.
"""

Name = Annotated[str, Parameter(help="Name of a model, see `mien models list`.")]
NoRun = Annotated[
    bool,
    Parameter(
        name="--no-run", show_default=False,
        help="Check only the shapes of the file, without a test run on the CPU, which takes long for the largest.",
    ),
]  # fmt: skip

models = App(name="models", help_epilogue=ENVIRONMENT)
models.command(
    "mien.cli.engines:build_engine",
    name="build-engine",
    help="Build the TensorRT engine of a model for this machine's GPU.",
)


@models.command(name="list")
def list_models(
    *,
    task: Annotated[Task | None, Parameter(help="Only models of this task.", show_default=False)] = None,
    installed: Annotated[bool, Parameter(help="Only what can be used now.", show_default=False)] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """List every model with its size and licence.

    A model ships with mien, is installed, can be fetched by `mien models pull`, or needs a file of yours, which
    `mien models add` takes. The JSON holds the origin too.
    """
    from mien.zoo.catalogue import entries

    found = [entry for entry in entries(Store()) if task in (None, entry.task) and (entry.installed or not installed)]
    if json:
        print_json([tables.as_json(entry) for entry in found])
    else:
        print("\n".join(tables.table(found)))
    return 0


@models.command
def info(name: Name, /, *, json: Json = False, debug: Debug = False) -> int:
    """Tell all of one model: licence, origin, file, and how to install it."""
    from mien.zoo.catalogue import entry_of

    entry = entry_of(Store(), name)
    if json:
        print_json(tables.as_json(entry))
    else:
        print("\n".join(tables.details(entry)))
    return 0


@models.command
def pull(
    names: Annotated[list[str], Parameter(name="NAMES", help="Names of models, see `mien models list`.")],
    /,
    *,
    accept_licence: Annotated[
        bool, Parameter(help="You accept that the licence of the weights forbids commercial use.", show_default=False)
    ] = False,
    offline: Annotated[bool, Parameter(help="Fetch nothing, as with MIEN_OFFLINE=1.", show_default=False)] = False,
    no_run: NoRun = False,
    debug: Debug = False,
) -> int:
    """Fetch, verify and install weights. What broke off goes on where it stopped."""
    from mien.zoo.install import card_of
    from mien.zoo.pull import Fetching
    from mien.zoo.pull import pull as run

    store, fetching = Store(), Fetching.from_environment(offline=offline)
    cards = [card_of(name) for name in names]
    for card in cards:
        if card.supply == "ships":
            print(f"{card.name}: ships with mien")
            continue
        print(_terms(card.name, card.licence, card.commercial, card.origin), flush=True)
        with byte_bar(card.name, card.weights.size if card.weights else 0) as progress:
            installed = run(
                store, card, accept_licence=accept_licence, fetching=fetching, run=not no_run, progress=progress,
                waiting=partial(_wait, card.name),
            )  # fmt: skip
        print(f"{card.name}: installed, {store.path(installed)}")
    _tell_missing(store, names)
    return 0


@models.command
def add(
    file: Annotated[Path, Parameter(help="An ONNX file, or a .dfm.")],
    /,
    *,
    family: Annotated[str, Parameter(name="--as", help="The model that it is, by its name in `mien models list`.")],
    name: Annotated[str | None, Parameter(help="A name of its own for it.", show_default=False)] = None,
    no_run: NoRun = False,
    debug: Debug = False,
) -> int:
    """Copy a file of yours into the cache folder, once it has shown that it is the model it is said to be."""
    from mien.zoo.install import add as run
    from mien.zoo.install import card_of

    store, card = Store(), card_of(family)
    added = run(store, file, family, name, run=not no_run, waiting=partial(_wait, name or family))
    installed = added.installed
    print(_terms(installed.name, card.licence, card.commercial, card.origin))
    print(f"{installed.name}: installed, {store.path(installed)}")
    for note in added.notes:
        print(f"note: {note}")
    _tell_missing(store, [installed.name])
    return 0


@models.command
def verify(
    names: Annotated[list[str] | None, Parameter(name="NAMES", help="Names of models.", show_default=False)] = None,
    /,
    *,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Hash weights anew and compare them with what was installed; all models unless some are named.

    Exit code 1 when one is damaged.
    """
    from mien.zoo.catalogue import entries
    from mien.zoo.install import verify as run

    store = Store()
    ready = [entry.name for entry in entries(store) if entry.installed]
    wanted = names or list(dict.fromkeys([*ready, *(name for _, name in store.names())]))
    verdicts = [run(store, name) for name in wanted]
    if json:
        print_json([{"name": v.name, "task": v.task, "ok": v.ok, "text": v.text} for v in verdicts])
    else:
        for verdict in verdicts:
            print(f"{'ok' if verdict.ok else 'damaged':<9}{verdict.name}: {verdict.text}")
    return int(not all(verdict.ok for verdict in verdicts))


@models.command
def remove(
    names: Annotated[list[str], Parameter(name="NAMES", help="Names of models that were pulled or added.")],
    /,
    *,
    debug: Debug = False,
) -> int:
    """Delete weights from the cache folder, and what was made of them."""
    from mien.zoo.install import remove as run

    store = Store()
    for name in names:
        run(store, name, waiting=partial(_wait, name))
        print(f"{name}: removed")
    return 0


@models.command
def clean(*, debug: Debug = False) -> int:
    """Delete what was made of models to run them faster; what is needed is made again.

    That is versions with a free batch or in half precision, and TensorRT engines, also those of older versions of mien
    and of other GPUs. No other process should use a GPU with mien meanwhile.
    """
    from mien.runtime.derived import clean as run

    print(f"freed {run(cache_folder()) / 1e6:.1f} MB")
    return 0


def _terms(name: str, licence: str, commercial: bool, origin: str) -> str:
    use = "commercial use allowed" if commercial else "no commercial use"
    return f"{name}: licence {licence}, {use}, from {origin}"


def _tell_missing(store: Store, names: Sequence[str]) -> None:
    from mien.zoo.catalogue import missing

    for name in names:
        for entry in missing(store, name):
            print(f"note: {name} needs {entry.name} too, which is not installed; {entry.next_step}")


def _wait(name: str) -> None:
    print(f"{name}: another process works on it; waiting", file=sys.stderr)
