"""Batches: files of one item made free where that can be proved, sizes found by a measured probe, and the loop.

A rewritten file is kept under the sha256 of the original, and used only after it gave what the original gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import ModelError
from mien.runtime.axes import Freer, dims_of, per_item
from mien.runtime.kept import alone, key_of, read_json, sha256_of, write_json, write_whole
from mien.runtime.memory import is_out_of_memory

RULES = 1
"""Raised whenever the rewriting changes, so that what older rules made or refused is made anew."""
TOLERANCE = 1e-4
"""Largest difference between a batch and its items, over the largest value of the output."""
SIZES = (1, 2, 4, 8, 16)
"""Batch sizes that are probed."""
ENOUGH = 0.95
"""A smaller batch is taken when it reaches this part of the best rate, since it needs less memory and waiting."""

Array: TypeAlias = npt.NDArray[Any]
Run: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Array]]
"""One inference: inputs by name to outputs in order."""
RunOpener: TypeAlias = Callable[[Path | bytes], Run]


class Batched(Protocol):
    """What is used of a session."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def inputs(self) -> Sequence[Any]:
        """Each with its `shape`."""

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        """One inference."""


def free_batch(
    model: Path | bytes, cache: Path | None = None, *, sha256: str = "", opener: RunOpener | None = None
) -> Path | bytes | None:
    """The model with a free first dimension in every input and output that holds an item.

    It is proved on random inputs: one item gives what the original gives, and three at once what they give singly, to
    1e-4 of the output's largest value. The inferences take place on the CPU, since GPUs round batches differently.

    Args:
        cache: folder where it is kept, with the verdict; None keeps nothing.
        sha256: of the model, where it is known.
        opener: how graphs are run for the proof; by default on the CPU.

    Returns:
        A path within `cache`, or bytes without one; None when the graph is free already or cannot be proved to allow
        it, such as one that merges its items: then callers go item by item.

    Raises:
        ModelError: the file cannot be read.
        OutputError: the cache cannot be written to.
    """
    run = opener or run_on_cpu
    if cache is None:
        return _freed(model, run)[0]
    name = key_of(sha256 or sha256_of(model), "free batch", RULES)
    path, refused = cache / "batch" / f"{name}.onnx", cache / "batch" / f"{name}.json"
    if not path.exists() and not refused.exists():
        with alone(path):
            if not path.exists() and not refused.exists():
                made, lasting = _freed(model, run)
                if made is not None:
                    write_whole(path, made)
                elif lasting:
                    write_json(refused, {"free": False})
    return path if path.exists() else None


def _freed(model: Path | bytes, opener: RunOpener) -> tuple[bytes | None, bool]:
    """What is made, if anything, and whether that follows from the file."""
    made = load_onnx(model)
    if made is None or not _is_fixed(made):
        return None, True
    inputs = [value for value in made.graph.input if value.name not in {t.name for t in made.graph.initializer}]
    names = {value.name for value in inputs if per_item(dims_of(value))}
    try:
        feeds = [feed for feed in (random_item(inputs, seed) for seed in range(3)) if feed is not None]
        data = _rewritten(made) if names and feeds else None
    except (ValueError, LookupError, TypeError, ArithmeticError):
        data = None  # the rules misread an unusual graph
    if data is None:
        return None, True
    try:
        run = opener(model)
        singles = [list(run(feed)) for feed in feeds]
    except Exception as error:
        if is_out_of_memory(error):
            raise  # says nothing of the graph
        return None, False
    del run  # of two copies of a large model only one is held
    return (data if _proved(data, singles, feeds, names, opener) else None), True


def _rewritten(made: Any) -> bytes | None:
    """A parsed file with a free batch, as the rules see it; None where they do not."""
    from google.protobuf.message import EncodeError
    from onnx.shape_inference import InferenceError

    try:
        Freer(made).free()
        return bytes(made.SerializeToString())
    except (InferenceError, EncodeError):
        return None


def load_onnx(model: Path | bytes) -> Any:
    """The parsed file; None where its weights lie in other files, so that its sha256 does not tell what it is.

    Raises:
        ModelError: it is none.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx.external_data_helper import uses_external_data

    try:
        data = model if isinstance(model, bytes) else model.read_bytes()
        made = onnx.load_model_from_string(data)
    except (OSError, DecodeError) as error:
        name = model if isinstance(model, Path) else "model"
        raise ModelError(f"{name}: is no ONNX file that can be read; verify the file, or fetch it again") from error
    return None if any(map(uses_external_data, made.graph.initializer)) else made


def _is_fixed(made: Any) -> bool:
    """Whether there is anything to free, and each output can hold one row per item."""
    outputs = [dims_of(value) for value in made.graph.output]
    given = {tensor.name for tensor in made.graph.initializer}
    inputs = [dims_of(value) for value in made.graph.input if value.name not in given]
    if not outputs or not all(per_item(dims) for dims in outputs):
        return False
    items = [dims for dims in inputs if per_item(dims)]
    return len({dims[0] for dims in (*items, *outputs)}) > 1 or any(dims[0] == 1 for dims in items)


def is_free(made: Any) -> bool:
    """Whether a parsed file has one free batch in all of its outputs and its inputs that hold items, and no other."""
    given = {tensor.name for tensor in made.graph.initializer}
    values = [dims_of(value) for value in made.graph.input if value.name not in given]
    outputs = [dims_of(value) for value in made.graph.output]
    items = [dims for dims in values if per_item(dims)] + outputs
    fixed = all(isinstance(size, int) for dims in values + outputs for size in (dims[1:] if per_item(dims) else dims))
    names = {dims[0] if dims else None for dims in items}
    return fixed and len(names) == 1 and not isinstance(names.pop(), int)


def random_item(inputs: Sequence[Any], seed: int, picture: tuple[float, float] = (-1, 1)) -> dict[str, Array] | None:
    """Seeded arrays of one item, or None for a type that has none; what holds no item is the same for each seed.

    Args:
        picture: least and largest value of what has a height or more; vectors stay within ±1.
    """
    from onnx import helper

    feeds: dict[str, Array] = {}
    for place, value in enumerate(inputs):
        dims = dims_of(value)
        own = per_item(dims)
        shape = [1 if own and index == 0 else size if isinstance(size, int) else 128 for index, size in enumerate(dims)]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if kind.kind not in "fiu":
            return None
        random = np.random.default_rng([place, seed if own else 0])
        low, high = picture if own and len(dims) > 2 else (-1.0, 1.0)
        values = random.uniform(low, high, shape) if kind.kind == "f" else random.integers(0, 2, shape)
        feeds[value.name] = values.astype(kind)
    return feeds


def run_on_cpu(model: Path | bytes) -> Run:
    """A graph on the CPU, as a function."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    data = str(model) if isinstance(model, Path) else model
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    quiet = ort.RunOptions()
    quiet.log_severity_level = 4
    return lambda feeds: session.run(None, dict(feeds), quiet)


def _proved(
    made: bytes,
    singles: Sequence[Sequence[Array]],
    feeds: Sequence[Mapping[str, Array]],
    items: set[str],
    opener: RunOpener,
) -> bool:
    try:
        run = opener(made)
        one, together = run(feeds[0]), run(_joined(feeds, items))
    except Exception as error:
        if is_out_of_memory(error):
            raise  # says nothing of the graph
        return False
    return all(
        _follows(first, single[:1]) and _follows(whole, single)
        for first, whole, single in zip(one, together, zip(*singles, strict=True), strict=True)
    )


def _joined(feeds: Sequence[Mapping[str, Array]], items: set[str]) -> dict[str, Array]:
    return {
        name: np.concatenate([feed[name] for feed in feeds]) if name in items else first
        for name, first in feeds[0].items()
    }


def _follows(found: Array, singles: Sequence[Array]) -> bool:
    """Whether an output is that of the items, which must differ from each other ten times more than it from them."""
    error = difference(found, np.concatenate(singles))
    apart = min((difference(b, a) for a, b in pairwise(singles)), default=float("inf"))
    return error <= TOLERANCE and apart > 10 * max(error, 1e-7)


def difference(found: Array, wanted: Array) -> float:
    """Largest difference over the largest value that is wanted; infinite where either is not finite."""
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    return float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-12))


def best_batch(
    call: Callable[[int], object],
    sizes: Sequence[int] = SIZES,
    *,
    cache: Path | None = None,
    key: Sequence[object] = (),
    seconds: float = 3.0,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """The smallest size whose items per second come within 5 % of the best, as measured here and now.

    Sizes are tried in order, each once to warm up and then for at least a tenth of a second; a size for which memory
    runs out ends it, and so does the time.

    Args:
        call: runs one batch of that many items.
        cache: folder where the choice is kept; None keeps nothing.
        key: what it depends on: sha256 of the model, device by its product name, version of ONNX Runtime.
        seconds: after which no further size is tried.

    Raises:
        MienError: whatever `call` raises, unless memory ran out for more than the first size.
        OutputError: the cache cannot be written to.
    """
    path = None if cache is None else probe_file(cache, key, sizes)
    kept = None if path is None else read_json(path)
    if kept is not None and kept.get("size") in sizes:
        return int(kept["size"])
    rates = _rates(call, sizes, seconds, clock)
    size = next(size for size, rate in rates.items() if rate >= ENOUGH * max(rates.values()))
    if path is not None:
        write_json(path, {"size": size, "items_per_second": {str(n): round(rate, 3) for n, rate in rates.items()}})
    return size


def probe_file(cache: Path, key: Sequence[object], sizes: Sequence[int] = SIZES) -> Path:
    """Where the choice of `best_batch` is kept."""
    return cache / "probe" / f"{key_of(*key, *sizes)}.json"


def _rates(
    call: Callable[[int], object], sizes: Sequence[int], seconds: float, clock: Callable[[], float]
) -> dict[int, float]:
    started, rates = clock(), dict[int, float]()
    for size in sizes:
        try:
            call(size)
            since, runs = clock(), 0
            while runs < 2 or (clock() - since < 0.1 and runs < 50):
                call(size)
                runs += 1
            rates[size] = size * runs / max(clock() - since, 1e-9)
        except Exception as error:
            if not rates or not is_out_of_memory(error):
                raise
            break
        if clock() - started > seconds:
            break
    return rates


def run_batch(session: Batched, arrays: Sequence[Array], size: int | None = None) -> list[Array]:
    """Any number of items through one session: in parts of `size` where its batch is free, else one by one.

    Args:
        arrays: in the order of the session's inputs; those that hold no item (see `axes.per_item`) go in as they are.
        size: most items at a time; None: all of them.

    Raises:
        ModelError: inputs of different counts, or results that are not one row per item; see also `Session`.
    """
    own = [per_item(tensor.shape) for tensor in session.inputs]
    counts = {len(array) for array, split in zip(arrays, own, strict=True) if split}
    if len(counts) > 1:
        raise ModelError(f"{session.name}: was given inputs of {sorted(counts)} items; give as many of each")
    count = counts.pop() if counts else 1
    fixed = any(split and tensor.shape[0] == 1 for tensor, split in zip(session.inputs, own, strict=True))
    step = 1 if fixed else size or count
    if count <= step:
        return list(session(*arrays))
    parts = []
    for start in range(0, count, step):
        stop = min(start + step, count)
        part = session(*(a[start:stop] if split else a for a, split in zip(arrays, own, strict=True)))
        if any(len(output) != stop - start for output in part):
            found = ", ".join("×".join(map(str, output.shape)) for output in part)
            raise ModelError(f"{session.name}: gave {found} for {stop - start} items; give it one item at a time")
        parts.append(part)
    return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]
