"""Breaks every step of every model family in turn, and counts how often a test notices.

`python -m benchmarks.mutations [--only TEXT] [--jobs N]`, from the root of the repository. It prints every change that
no test noticed, then a table of names and of modules, and exits with 1 if there is such a change. Two kinds of changes:

- *steps*, for every registered name: what goes into its network and what comes out is changed as it would be if a step
  of its normalisation were left out (channels, mean, scale, size, latent, batch index, order), and each of its class
  attributes (template, size, mean, classes, …) is given another value;
- *source*, for every module of the zoo: each number, operator, call, comparison and statement is changed or removed,
  one at a time, in memory: no file is touched.

Each change is tried in a process of its own, with the tests of the names that it concerns. `EQUIVALENT` lists changes
that make no difference, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.mutators import ELSEWHERE, mutants

ROOT = Path(__file__).parent.parent
TIMEOUT = 200
"""Seconds of computing, which other load does not change, after which a change counts as one that made a test hang."""
SHARED: Mapping[str, frozenset[str]] = {
    "mien.zoo.tensors": frozenset({"to_nchw", "unit", "sigmoid", "IMAGENET_MEAN", "IMAGENET_STD"}),
    "mien.zoo.anchors": frozenset(),
    "mien.zoo.nms": frozenset(),
}
"""Modules beside the families whose steps are theirs as well, and which of their functions."""
TESTS = {
    "detector": [
        "tests/zoo/test_letterbox.py",
        "tests/zoo/test_anchors.py",
        "tests/zoo/test_nms.py",
        "tests/zoo/detectors",
    ],
    "landmarker": ["tests/zoo/test_landmarkers.py", "tests/zoo/test_adapters.py"],
    "embedder": ["tests/zoo/test_embedders.py", "tests/zoo/test_adapters.py"],
    "swapper": ["tests/zoo/test_swappers.py"],
    "enhancer": ["tests/zoo/test_enhancers.py"],
    "masker": ["tests/zoo/test_maskers.py", "tests/zoo/test_adapters.py"],
    "expression": ["tests/zoo/test_adapters.py"],
}
"""What else tests the models of a task, for changes that `test_every_name` does not notice."""
SHARED_TESTS = ["tests/zoo/test_tensors.py", "tests/zoo/test_faults.py"]
"""The same for models of all tasks."""
COSTLY = ("gpen_bfr_512", "bisenet_resnet_18", "simswap_unofficial_512", "gpen_bfr_1024", "gpen_bfr_2048")
"""Names whose tests take long; those of others are asked first, where either may notice."""
KINDS = ("caught", "hung", "missed", "equivalent")
"""What becomes of a change; those that a name does not have are not counted."""
EQUIVALENT: Mapping[str, str] = {
    "detector yunet: sides = ('w', 'h')": "names of sides that are free; only that they have one matters",
    **{
        f"mien.zoo.detectors.{module}: np.flatnonzero({scores} >= min_score): first argument only": "a mask is as good"
        for module, scores in (("retinaface", "scores"), ("yoloface", "scores"), ("scrfd", "scores[:, 0]"))
    },
    "mien.zoo.detectors.yoloface: (8, 16, 32): first two swapped": "they are only summed over",
    "mien.zoo.detectors.yunet: 'cells' if all(self.sides) else None: always second": "its input tells the files apart",
    "mien.zoo.detectors.s3fd: -(-side // stride): without minus": "the product of two negative numbers is the same",
    "mien.zoo.detectors.s3fd: 1 → 2": "of the sides of priors: squares are as wide as high; others are caught",
    "mien.zoo.anchors: isinstance(fixed[0], int) and isinstance(fixed[1], int): and for or": "no file fixes one side",
    "mien.zoo.anchors: (pairs >= 0) & (pairs <= 1): left side only": "what is positive and sums to 1 is at most 1",
    **{
        f"mien.zoo.landmarkers.pipnet: {number} → {number + 1}": "no point is that near to being another's neighbour"
        for number in (7960, 39216, 91248, 38798, 39653, 41071, 32198, 40376)
    },
    "mien.zoo.landmarkers.pipnet: np.argsort(apart, 1, kind='stable'): without kind": "no two are equally far",
    **{
        f"swapper {name}: signed = True": "the mean is 0 and the std 1"
        for name in ("blendswap_256", "inswapper_128", "inswapper_128_fp16", "simswap_unofficial_512", "dfm")
    },
    **{
        f"swapper dfm: {what}": "DFM normalises nothing, takes no source and has masks of its own"
        for what in (
            "mean = (0.01, 0.01, 0.01)",
            "std = (1.11, 1.11, 1.11)",
            "masked = True",
            "source_shape = (512, 'n')",
        )
    },
}

Name = tuple[str, str]
Patch = Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One thing to break, in a process that is made for it."""

    group: str
    """The name or module that it counts for."""
    what: str
    names: Sequence[Name]
    """Whose tests may notice it, the quickest first."""
    tree: tuple[str, ast.Module] | None = None
    """A module and its changed source."""
    patch: Patch | None = None
    """Done once the models are imported."""


def every_name() -> ModuleType:
    return importlib.import_module("tests.zoo.test_every_name")


# Steps


def steps(name: Name) -> Iterator[Change]:
    """What may go wrong between a crop and a result of one name."""
    group = " ".join(name)
    for what, change in INPUTS.items():
        yield Change(group, what, [name], patch=partial(wrap_network, change, None))
    for what, change in OUTPUTS.items():
        yield Change(group, what, [name], patch=partial(wrap_network, None, change))
    for attribute, value in attributes(name):
        what = f"{attribute} = {value!r}"
        what = what if len(what) <= 80 else f"{what[:79]}…"
        yield Change(group, what, [name], patch=partial(set_attribute, name, attribute, value))


Arrays = list[np.ndarray[Any, np.dtype[Any]]]


def _images(change: Callable[[Any, int], Any]) -> Callable[[Arrays], Arrays]:
    """The change made of arrays that are pictures; the second argument is the axis of their channels."""

    def changed(arrays: Arrays) -> Arrays:
        axes = [1 if a.ndim == 4 and a.shape[1] == 3 else 3 if a.ndim == 4 and a.shape[3] == 3 else 0 for a in arrays]
        return [change(a, axis) if axis else a for a, axis in zip(arrays, axes, strict=True)]

    return changed


def _vectors(change: Callable[[Any], Any]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: [change(a) if a.ndim in (1, 2, 3) else a for a in arrays]


def _last_axes(array: Any, axis: int) -> Any:
    rows, columns = (2, 3) if axis == 1 else (1, 2)
    return array.swapaxes(rows, columns) if array.shape[rows] == array.shape[columns] else array[..., ::-1, :]


def _ranged(array: Any) -> float:
    """Of a picture: 1 for values of a few units, 255 for raw pixels."""
    return 255.0 if np.abs(array).max() > 16 else 1.0


INPUTS: Mapping[str, Callable[[Arrays], Arrays]] = {
    "input: channels reversed": _images(lambda a, axis: np.flip(a, axis)),
    "input: mean off by 0.02": _images(lambda a, axis: a + np.float32(0.02 * _ranged(a))),
    "input: scale off by 2 %": _images(lambda a, axis: a * np.float32(1.02)),
    "input: one channel's scale off by 2 %": _images(
        lambda a, axis: a * np.array([1, 1, 1.02], np.float32).reshape((3, 1, 1) if axis == 1 else 3)
    ),
    "input: rows for columns": _images(_last_axes),
    "input: one pixel to the right": _images(lambda a, axis: np.roll(a, 1, 3 if axis == 1 else 2)),
    "input: first picture for all": _images(lambda a, axis: np.repeat(a[:1], len(a), 0)),
    "input: vector off by 2 % in length": _vectors(lambda a: a * np.float32(1.02)),
    "input: vector reversed": _vectors(lambda a: np.ascontiguousarray(a[..., ::-1])),
}


def _each(change: Callable[[Any], Any]) -> Callable[[Arrays], Arrays]:
    return lambda outputs: [change(output) for output in outputs]


def _rotated(outputs: Arrays) -> Arrays:
    return [*outputs[1:], outputs[0]]


OUTPUTS: Mapping[str, Callable[[Arrays], Arrays]] = {
    "output: scale off by 1 %": _each(lambda o: o * np.float32(1.01)),
    "output: off by 0.01": _each(lambda o: o + np.float32(0.01)),
    "output: items in reverse": _each(lambda o: o[::-1]),
    "output: last axis reversed": _each(lambda o: o[..., ::-1]),
    "output: in another order": _rotated,
}


class Unchanged(Exception):
    """A step that this name does not have."""


def wrap_network(given: Callable[[Arrays], Arrays] | None, gave: Callable[[Arrays], Arrays] | None) -> None:
    """Make every network be given, or give, other values."""
    network = importlib.import_module("mien.zoo.tensors").Network
    call = network.__call__

    def wrapped(self: Any, *arrays: Any) -> Any:
        changed = list(arrays) if given is None else [np.ascontiguousarray(a) for a in given(list(arrays))]
        outputs = list(call(self, *changed))
        results = outputs if gave is None else [np.ascontiguousarray(o) for o in gave(outputs)]
        for before, after in ((arrays, changed), (outputs, results)):
            if any(a.shape != b.shape or (a != b).any() for a, b in zip(before, after, strict=True)):
                DIFFERED.append(True)
                break
        return results

    network.__call__ = wrapped


DIFFERED: list[bool] = []
"""Whether a wrapped network was ever given or gave something else; lives in the process of one change only."""


def attributes(name: Name) -> Iterator[tuple[str, object]]:
    """Attributes of a name's class, each with another value than it has."""
    family = every_name().registry()[name]
    found: dict[str, object] = {}
    for cls in reversed(family.__mro__[:-1]):
        found.update({key: value for key, value in vars(cls).items() if not key.startswith("_")})
    for key, value in found.items():
        if key not in ELSEWHERE and (other := _other(key, value)) is not None:
            yield key, other


def _other(key: str, value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value * 2 if value else 1
        case float():
            return value * 1.1 + 0.01
        case str():
            return {"order": "BGR" if value == "RGB" else "RGB", "template": "styleganex_384"}.get(key, "other")
        case tuple() if value and all(isinstance(v, int | float) for v in value):
            return tuple(v * 1.1 + 0.01 for v in value)
        case tuple() if len(value) > 1 and value != value[::-1]:
            return value[::-1]
        case tuple() if len(value) == 1:
            return ("other",)
    return None


def set_attribute(name: Name, attribute: str, value: object) -> None:
    DIFFERED.append(True)
    setattr(every_name().registry()[name], attribute, value)


# Source


def sources(names: Sequence[Name], only: str) -> Iterator[Change]:
    """Every change of the modules that the names' classes are made of; what all share comes last."""
    users: dict[str, list[Name]] = {}
    for name in names:
        for module in modules_of(every_name().registry()[name].__module__):
            users.setdefault(module, []).append(name)
    for module in SHARED:
        modules_of(module)  # remembered for all processes
    for module in sorted(users, key=lambda module: (module in SHARED, module)):
        if only in module:
            source = Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8")
            for mutant in mutants(module, source, SHARED.get(module, frozenset())):
                yield Change(
                    module,
                    f"line {mutant.line}: {mutant.what}",
                    _quickest(module, users[module]),
                    (module, mutant.tree),
                )


def _quickest(module: str, users: Sequence[Name]) -> Sequence[Name]:
    """Of a module that families share, one quick name of each family; else all."""
    if module not in SHARED:
        return users
    first = {every_name().registry()[name].__module__: name for name in reversed(users) if name[1] not in COSTLY}
    return [name for name in users if name in first.values()]


@cache
def modules_of(module: str) -> frozenset[str]:
    """The module and those of the zoo that it is made of."""
    found, todo = set(), [module]
    while todo:
        one = todo.pop()
        if one in found or not (one in SHARED or one.removeprefix("mien.zoo.").count(".") == 1):
            continue
        found.add(one)
        tree = ast.parse(Path(str(importlib.import_module(one).__file__)).read_text(encoding="utf-8"))
        todo += [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    return frozenset(one for one in found if one.startswith("mien.zoo."))


# Trying


class Source(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module from a changed tree."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module, self.tree = module, tree

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        """Itself for its module."""
        return importlib.util.spec_from_loader(name, self) if name == self.module else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed tree."""
        exec(compile(self.tree, f"<{self.module}>", "exec"), module.__dict__)


def attempt(change: Change, quick: bool) -> str:
    """In a process of its own: `caught`, `missed`, or `none` where the change makes no difference to these names."""
    try:
        module = every_name()
        if change.tree is not None:
            _reload(*change.tree)
        if change.patch is not None:
            change.patch()
        for task, name in change.names:
            module.CHECKS[task](name)
        if not DIFFERED and change.tree is None:
            return "none"
        for task, name in change.names:
            module.test_a_template_is_known(task, name)
            module.test_another_models_file_is_refused(task, name)
    except Exception:
        return "caught"
    return "caught" if not quick and _others_fail(change) else "missed"


def _reload(module: str, tree: ast.Module) -> None:
    """Import the families, and what else of the zoo is changed, anew."""
    sys.meta_path.insert(0, Source(module, tree))
    families = [loaded for loaded in sys.modules if loaded.startswith("mien.zoo.") and loaded.count(".") == 3]
    for loaded in [one for one in (*families, *SHARED) if one == module or module in modules_of(one)]:
        del sys.modules[loaded]
    importlib.import_module("mien.zoo.registry").registry.cache_clear()


def _others_fail(change: Change) -> bool:
    import pytest

    files = dict.fromkeys(file for task, _ in change.names for file in [*TESTS.get(task, []), *SHARED_TESTS])
    return pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files]) == 1


def tried(change: Change, quick: bool = False) -> str:
    """The result of `attempt` in a child."""
    result = forked(lambda: attempt(change, quick)) or "caught"  # it died
    if result == "missed":
        if _equivalent(f"{change.group}: {change.what}"):
            return "equivalent"
        print(f"missed: {change.group}: {change.what}", flush=True)
    return result


def forked(work: Callable[[], str], seconds: int = TIMEOUT, silent: bool = True) -> str:
    """What `work` gives in a process of its own: `hung` where that takes too long, nothing where it dies."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.close(read)
        if silent:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(5 * seconds)  # for one that waits
        with contextlib.suppress(BaseException):
            os.write(write, work().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        result = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
    return "hung" if late else result


def tried_all(changes: Sequence[Change], quick: bool) -> list[str]:
    """The results of changes of one group, from a process that makes what the references of its names make once."""

    def work() -> str:
        concerned = list(dict.fromkeys(name for change in changes for name in change.names))
        for task, name in concerned:
            every_name().CASES.get(task, str)(name)
        for one in concerned:
            if tried(Change(" ".join(one), "as it is", [one])) == "caught":
                print(f"{' '.join(one)}: its tests fail as it is", flush=True)
                return ""
        found = [tried(change, quick) for change in changes]
        kinds = ", ".join(f"{found.count(kind)} {kind}" for kind in KINDS if kind in found)
        print(f"{changes[0].group}: {kinds}", flush=True)
        return " ".join(found)

    results = forked(work, seconds=0, silent=False).split()
    return results if len(results) == len(changes) else ["failed"] * len(changes)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names or modules that have this text")
    parser.add_argument("--kind", choices=("steps", "source", "all"), default="all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="ask no tests but those of every name")
    options = parser.parse_args(arguments)
    names: list[Name] = [(task, name) for task, name in every_name().NAMES]
    names.sort(key=lambda name: COSTLY.index(name[1]) if name[1] in COSTLY else -1)
    changes: list[Change] = []
    if options.kind != "source":
        changes += [change for name in names if options.only in " ".join(name) for change in steps(name)]
    if options.kind != "steps":
        changes += list(sources(names, options.only))
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.group, []).append(change)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda group: tried_all(group, options.quick), groups.values()))
    return report([c for group in groups.values() for c in group], [r for part in results for r in part])


def report(changes: Sequence[Change], results: Sequence[str]) -> int:
    """Print the table and the misses; the exit status."""
    table: dict[str, dict[str, int]] = {}
    for change, result in zip(changes, results, strict=True):
        row = table.setdefault(change.group, dict.fromkeys((*KINDS, "none", "failed"), 0))
        row[result] += 1
    table["total"] = {kind: sum(row[kind] for row in table.values()) for kind in (*KINDS, "none", "failed")}
    print(f"{'what':44}", *(f"{kind:>10}" for kind in KINDS))
    for group, row in table.items():
        print(f"{group:44}", *(f"{row[kind]:10}" for kind in KINDS))
    return 1 if any(row["missed"] or row["failed"] for row in table.values()) else 0


def _equivalent(key: str) -> bool:
    """Whether a change is listed; keys there leave out the line number, which moves."""
    return re.sub(r": line \d+: ", ": ", key) in EQUIVALENT


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
