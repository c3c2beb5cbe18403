"""Write docs/models.md anew from the registry.

usage: python -m scripts.models_doc     (from the root of the repository)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mien.zoo.cards import TASKS, ModelCard
from mien.zoo.catalogue import needs
from mien.zoo.registry import registry

PAGE = Path(__file__).parent.parent / "docs" / "models.md"

HEAD = """\
# Models

This page is made from the registry by `python -m scripts.models_doc`; do not edit it by hand.

Models marked as bundled ship with mien and work at once. The others are files that you pull or add:

```
mien models list                              every model; --installed: what can be used now
mien models info NAME                         licence, origin, file, how to install it
mien models pull NAME                         fetch, verify and install
mien models add FILE --as NAME                take a file of yours
mien models add FILE --as dfm --name tom      the same, under a name of its own
mien models verify                            hash all weights anew
mien models remove NAME                       delete pulled or added weights, and what was made of them
mien models clean                             delete what was made of any model to run it faster
mien models build-engine NAME --fp16          a TensorRT engine for this machine's GPU
```

- `pull` checks the file's sha256, goes on with what broke off, and asks for `--accept-licence` where the licence of the
  weights forbids commercial use. It fetches nothing that it could not verify.
- `add` copies the file once it has shown on the CPU that it keeps the model's contract: the shapes of inputs and
  outputs, and a test run (`--no-run` leaves that out), each within 5 minutes. A wrong file is told what it looks
  like. Weights in a file beside it (`….onnx.data`) come in. The test runs in mien's own process: add no file that
  you do not trust. Which licence your file has is for you to know; the one that is shown is that of the usual file.
- "commercial" says whether the licence of the weights allows commercial use; it is no legal advice. Obey each licence.

| variable | meaning |
|---|---|
| `MIEN_CACHE` | the cache folder; weights lie in its folder `models`. It may be moved as a whole. Default below |
| `MIEN_MIRROR` | address of a folder that holds weights by their usual names, tried before all others |
| `MIEN_OFFLINE` | `1` forbids to fetch anything, as `--offline` does |
| `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` | proxies, as everywhere |

Without `MIEN_CACHE` the cache folder is `mien` in `XDG_CACHE_HOME`, else in `~/.cache`; on Windows in `LOCALAPPDATA`.

Another model of your own is one file of code: [add-a-model.md](add-a-model.md).

| name | task | licence | commercial | bundled | file | origin | how to get |
|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The text of docs/models.md."""
    families = sorted(registry().values(), key=lambda family: (TASKS.index(family.card.task), family.card.name))
    return HEAD + "".join(f"{_row(family.card, needs(family))}\n" for family in families)


def _row(card: ModelCard, needed: Sequence[str]) -> str:
    file = f"`{card.weights.file}`" if card.weights is not None else ""
    if card.weights is not None and card.weights.size:
        file += f", {card.weights.size / 1e6:.1f} MB"
    get = {"ships": "nothing to do", "pull": f"`mien models pull {card.name}`"}.get(
        card.supply, f"`mien models add FILE --as {card.name}`"
    )
    get += "".join(f", needs {name}" for name in needed)
    bundled = "yes" if card.supply == "ships" else "no"
    commercial = "yes" if card.commercial else "no"
    cells = (card.name, card.task, card.licence, commercial, bundled, file, _linked(card.origin), get)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _linked(origin: str) -> str:
    """Addresses in angle brackets, which every renderer makes links of."""
    words = origin.split(" ")
    return " ".join(f"<{w.rstrip(';,.')}>{w[len(w.rstrip(';,.')) :]}" if w.startswith("https:") else w for w in words)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
