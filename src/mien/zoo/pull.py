"""Fetching the weights of registered models into the store."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from urllib.request import OpenerDirector

from mien.errors import DownloadError, MienError, OptionsError, RefusedError
from mien.runtime.download import download
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.lookalike import check_family
from mien.zoo.store import Installed, Store

MIRROR = "MIEN_MIRROR"
"""Environment variable: address of a folder that holds weights by their usual names; it is tried first."""
OFFLINE = "MIEN_OFFLINE"
"""Environment variable: anything but 0, false, no and off forbids to fetch."""


@dataclass(frozen=True, slots=True)
class Fetching:
    """How weights are fetched. Proxies are those of the environment (`HTTPS_PROXY`, `NO_PROXY`)."""

    mirror: str = ""
    """Address of a folder that is tried first; empty: none."""
    offline: bool = False
    timeout: float = 30.0
    """Seconds; see `download`."""
    attempts: int = 4
    """At each address."""
    pause: float = 1.0
    """Seconds before the second attempt; doubled each time."""
    opener: OpenerDirector | None = None
    """None: HTTP and HTTPS, with the proxies of the environment."""

    @classmethod
    def from_environment(cls, *, offline: bool = False) -> Fetching:
        """As `MIEN_MIRROR` and `MIEN_OFFLINE` say; `offline` forbids whatever they say."""
        said = os.environ.get(OFFLINE, "").strip().lower() not in ("", "0", "false", "no", "off")
        return cls(os.environ.get(MIRROR, "").strip(), offline or said)

    def addresses(self, weights: Weights) -> tuple[str, ...]:
        """Where a file may lie, first choice first; none where it could not be verified."""
        if not weights.sha256:
            return ()
        mirror = (f"{self.mirror.rstrip('/')}/{quote(weights.file)}",) if self.mirror else ()
        return (*mirror, *weights.urls)


def pull(
    store: Store, card: ModelCard, *, accept_licence: bool = False, fetching: Fetching | None = None,
    run: bool = True, progress: Callable[[int], None] | None = None, waiting: Callable[[], None] | None = None,
) -> Installed:  # fmt: skip
    """Fetch, verify and install the weights of a model; nothing is fetched when they are installed already.

    Args:
        accept_licence: the user accepts that the licence of the weights forbids commercial use.
        fetching: by default as the environment says.
        run: without it the file is not run on the CPU once it is there.
        progress: called with the number of bytes that are there.
        waiting: called when another process works on the same model.

    Raises:
        OptionsError: the model ships with mien, or a file of the user's has its name.
        RefusedError: a licence was not accepted.
        DownloadError: offline, no address that can be verified, or none that answers well.
        ModelError: the file does not work here.
        OutputError: the store cannot be written to.
    """
    weights = card.weights
    if weights is None or weights.bundled:
        raise OptionsError(f"{card.name}: ships with mien; there is nothing to pull")
    if (ready := _ready(store, card, weights)) is not None:
        return ready
    if not card.commercial and not accept_licence:
        raise RefusedError(
            f"{card.name}: the licence of its weights is {card.licence}, which does not allow commercial use "
            f"({card.origin}); pass --accept-licence if you accept that"
        )
    fetching = fetching or Fetching.from_environment()
    addresses = _addresses(card, weights, fetching)
    place = store.place(card.task, card.name, weights.sha256)
    with store.changing(card.task, card.name, waiting):
        if (ready := _ready(store, card, weights)) is not None:  # another process was faster
            return ready
        options: dict[str, Any] = {
            "sha256": weights.sha256, "size": weights.size, "progress": progress, "timeout": fetching.timeout,
            "attempts": fetching.attempts, "pause": fetching.pause, "opener": fetching.opener,
            "instead": f"`mien models add FILE --as {card.name}` takes a file of yours",
        }  # fmt: skip
        url = _first(addresses, lambda address: download(address, place, **options))
        try:
            check_family(card.task, card.name, place, url, run=run)
        except MienError:
            place.unlink(missing_ok=True)
            raise
        installed = Installed(card.name, card.task, card.name, place.name, weights.sha256, place.stat().st_size)
        store.install(installed)
    return installed


def _ready(store: Store, card: ModelCard, weights: Weights) -> Installed | None:
    """What is installed and whole, as far as its size tells.

    Raises:
        OptionsError: a file of the user's has this name.
    """
    installed = store.all().get((card.task, card.name))  # a damaged description is replaced
    if installed is None:
        return None
    try:
        whole = store.path(installed).stat().st_size == installed.size
    except OSError:
        whole = False
    if not whole:
        return None
    if weights.sha256 and installed.sha256 != weights.sha256:
        raise OptionsError(
            f"{card.name}: a file of yours is installed under this name; `mien models remove {card.name}` first"
        )
    return installed


def _addresses(card: ModelCard, weights: Weights, fetching: Fetching) -> tuple[str, ...]:
    add = f"get {weights.file} ({card.origin}), then run `mien models add FILE --as {card.name}`"
    if fetching.offline:
        raise DownloadError(f"{card.name}: fetching is forbidden (--offline or {OFFLINE}); allow it, or {add}")
    if addresses := fetching.addresses(weights):
        return addresses
    if weights.sha256:
        raise DownloadError(f"{card.name}: mien knows no address of it; set {MIRROR}, or {add}")
    raise DownloadError(f"{card.name}: mien knows no file of it that it could verify; {add}")


def _first(addresses: tuple[str, ...], fetch: Callable[[str], object]) -> str:
    """The address that gave the file.

    Raises:
        DownloadError: none did; tells of each.
    """
    failed: list[DownloadError] = []
    for address in addresses:
        try:
            fetch(address)
            return address
        except DownloadError as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    reasons = [str(error).partition("; ")[0] for error in failed[:-1]]
    raise DownloadError("; ".join([*reasons, str(failed[-1])])) from failed[-1]
