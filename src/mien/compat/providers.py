"""Lists of ONNX Runtime's providers, as users of other tools write them, and mien's devices for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mien.errors import OptionsError
from mien.runtime.devices import PROVIDERS

Providers: TypeAlias = Sequence[str | tuple[str, Mapping[str, Any]]]
"""Names, best first, some of them with options."""

USUAL = (PROVIDERS["cuda"], PROVIDERS["cpu"])
"""What InsightFace asks for when it is told nothing."""
ELSEWHERE = "AzureExecutionProvider"
"""Is in every ONNX Runtime, and runs nothing on this machine."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One provider of a list."""

    provider: str
    """By ONNX Runtime's name."""
    kind: str
    """Of mien's devices; empty for one that mien does not know."""
    index: int | None = None
    """Number of the device, where the options say one."""

    def device(self, usual: int) -> str:
        """By mien's name; empty for one that mien does not know.

        Args:
            usual: number of the device where the options say none.
        """
        index = usual if self.index is None else self.index
        return self.kind if self.kind in ("", "cpu", "coreml") else f"{self.kind}:{index}"


def wishes(providers: Providers | None, options: Sequence[Mapping[str, Any]] | None) -> tuple[Wish, ...]:
    """What a list asks for, in its order.

    Args:
        providers: None or empty: `USUAL`.
        options: of each provider in turn; None or empty: none. Of all options only `device_id` is used.

    Raises:
        OptionsError: a provider that mien does not know in a list without the CPU, which would take its place.
    """
    kinds = {provider: kind for kind, provider in PROVIDERS.items()}
    found = []
    for place, entry in enumerate(providers or USUAL):
        name, own = (entry, {}) if isinstance(entry, str) else (entry[0], entry[1])
        own = {**own, **(options[place] if options is not None and place < len(options) else {})}
        index = int(own["device_id"]) if "device_id" in own else None
        if name != ELSEWHERE:
            found.append(Wish(name, kinds.get(name, ""), index))
    unknown = [wish.provider for wish in found if not wish.kind]
    if not found or (unknown and not any(wish.kind == "cpu" for wish in found)):
        told = unknown[0] if unknown else ELSEWHERE
        raise OptionsError(f"providers: {told!r} is not known; choose from {', '.join(kinds)}")
    return tuple(found)
