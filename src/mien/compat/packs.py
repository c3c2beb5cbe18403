"""InsightFace's model packs: which files belong to them, and where they lie on this machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from mien.errors import OptionsError
from mien.zoo.cards import ModelCard, Task
from mien.zoo.registry import registry
from mien.zoo.store import Store

MODULES: Mapping[str, Task] = MappingProxyType(
    {
        "detection": "detector",
        "landmark_3d_68": "landmarker",
        "landmark_2d_106": "landmarker",
        "genderage": "attribute",
        "recognition": "embedder",
    }
)
"""InsightFace's names of what a pack does, and mien's task of each."""
FILES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "1k3d68": ("landmark_3d_68", "1k3d68"),
        "2d106det": ("landmark_2d_106", "2d106det"),
        "det_10g": ("detection", "scrfd_10g"),
        "det_2.5g": ("detection", "scrfd_2.5g"),
        "det_500m": ("detection", "scrfd_500m"),
        "genderage": ("genderage", "genderage"),
        "glintr100": ("recognition", "arcface_glint_r100"),
        "scrfd_10g_bnkps": ("detection", "scrfd_10g"),
        "w600k_mbf": ("recognition", "arcface_w600k_mbf"),
        "w600k_r50": ("recognition", "arcface_w600k_r50"),
    }
)
"""By the stem of the file: the module, and mien's family."""
_REST = ("1k3d68", "2d106det", "genderage")
PACKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "buffalo_l": ("det_10g", "w600k_r50", *_REST),
        "buffalo_m": ("det_2.5g", "w600k_r50", *_REST),
        "buffalo_s": ("det_500m", "w600k_mbf", *_REST),
        "buffalo_sc": ("det_500m", "w600k_mbf"),
        "antelopev2": ("scrfd_10g_bnkps", "glintr100", *_REST),
    }
)
"""Stems of the files of each pack."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where one module of a pack lies."""

    family: str
    file: Path | None
    """None: in the store, under the name of its family."""


@dataclass(frozen=True, slots=True)
class Pack:
    """What is there of a pack."""

    found: Mapping[str, Found]
    """By module."""
    missing: Mapping[str, str]
    """Stem of the file by module."""


def find_pack(name: str, root: Path, store: Store, allowed: Collection[str] | None) -> Pack:
    """Look for the files of a pack in `root`/models/`name`, and then in the store.

    Raises:
        OptionsError: no such pack, or a module that no pack has.
    """
    if unknown := sorted(set(allowed or ()) - set(MODULES)):
        raise OptionsError(f"allowed_modules: no module is called {unknown[0]!r}; choose from {', '.join(MODULES)}")
    folder = root / "models" / name
    stems = {path.stem: path for path in sorted(folder.glob("*.onnx")) if path.stem in FILES}
    if name not in PACKS and not stems:
        raise OptionsError(
            f"no pack is called {name!r}; choose from {', '.join(PACKS)}, or put its files into {folder}"
        )
    found: dict[str, Found] = {}
    missing: dict[str, str] = {}
    for stem in (*stems, *PACKS.get(name, ())):
        module, family = FILES[stem]
        if module in found or (allowed is not None and module not in allowed):
            continue
        if stem in stems:
            found[module] = Found(family, stems[stem])
        elif store.find(MODULES[module], family) is not None:
            found[module] = Found(family, None)
        else:
            missing[module] = stem
    return Pack(MappingProxyType(found), MappingProxyType({m: s for m, s in missing.items() if m not in found}))


def advice(name: str, root: Path, missing: Mapping[str, str]) -> str:
    """One line that says which files of a pack are missing, what that changes, and how to get them."""
    effects = {
        "detection": "faces are found by yunet",
        "recognition": "embeddings are those of mobilefacenet, of 128 values and not 512",
    }
    changes = [effects.get(module, f"faces have no {module}") for module in MODULES if module in missing]
    files = ", ".join(f"{stem}.onnx" for stem in missing.values())
    steps = " and ".join(f"`{_step(module, stem)}`" for module, stem in missing.items())
    return (
        f"{name}: {files} not found in {root / 'models' / name} nor in mien's store, so {', '.join(changes)}; "
        f"put the pack's files there, or run {steps}"
    )


def _step(module: str, stem: str) -> str:
    family = FILES[stem][1]
    card: ModelCard = registry()[MODULES[module], family].card
    verb = f"pull {family} --accept-licence" if card.supply == "pull" else f"add FILE --as {family}"
    return f"mien models {verb}"
