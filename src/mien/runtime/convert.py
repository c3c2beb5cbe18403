"""Half precision on demand: a float32 file's float16 twin, kept, and used on a GPU only where it passes a test there.

Inputs and outputs stay float32. That it is faster on a GPU is the makers' word; it was not run on one yet.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mien.runtime.axes import dims_of, per_item
from mien.runtime.batching import RunOpener, load_onnx, random_item
from mien.runtime.kept import alone, key_of, read_json, sha256_of, write_json, write_whole
from mien.runtime.memory import is_out_of_memory

RULES = 2
"""Raised whenever the conversion or its test changes, so that older results are made anew."""
PICTURES: Sequence[tuple[float, float]] = ((-1, 1), (0, 255), (-128, 128))
"""Least and largest values of pictures that networks take; sums of large ones overflow in half precision."""
RMS = 0.01
"""Largest root mean square of the difference, over that of the float32 output."""
LARGEST = 0.05
"""Largest difference, over the largest value of the float32 output."""

DELICATE: frozenset[str] = frozenset(
    {
        "Exp", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "Log", "LpNormalization",
        "ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reciprocal", "Resize",
        "Softmax", "Sqrt",
    }
)  # fmt: skip
"""Kinds of nodes that stay float32 at the second try: large sums, small divisors, positions."""


@dataclass(frozen=True, slots=True)
class Half:
    """A model in half precision, or the reason why it stays as it is."""

    model: Path | bytes | None
    """None where float32 goes on."""
    note: str
    """In words, for the report."""


def half(
    model: Path | bytes,
    opener: RunOpener,
    *,
    device: Sequence[object] = (),
    cache: Path | None = None,
    sha256: str = "",
) -> Half | None:
    """The float16 twin of a model, once it gave finite outputs close to float32 on this device.

    All but some kinds of nodes are converted first; if the result is too far off, those with large sums and small
    divisors stay float32 as well; if that is too far off too, the model stays as it is.

    Args:
        opener: runs a graph on the device.
        device: what the verdict depends on: product name of the GPU, version of ONNX Runtime.
        cache: folder where files and verdicts are kept; None keeps nothing.
        sha256: of the model, where it is known.

    Returns:
        None where there is nothing to convert.

    Raises:
        ModelError: the file cannot be read.
        OutputError: the cache cannot be written to.
        MemoryError: the device has no memory left for the test.
    """
    if cache is None:
        return _tried(model, opener, None, "")[0]
    sha256 = sha256 or sha256_of(model)
    verdict = cache / "half" / f"{key_of(sha256, RULES, *device)}.json"
    kept = _kept(read_json(verdict), cache, sha256)
    if kept is not None:
        return kept[0]
    with alone(verdict):
        kept = _kept(read_json(verdict), cache, sha256)
        if kept is not None:
            return kept[0]
        made, lasting = _tried(model, opener, cache, sha256)
        path = made.model.name if made is not None and isinstance(made.model, Path) else None
        if lasting:
            write_json(verdict, {"file": path, "note": None if made is None else made.note})
        return made


def _kept(record: Mapping[str, Any] | None, cache: Path, sha256: str) -> tuple[Half | None] | None:
    """What an earlier run found; None when it left nothing that is still there."""
    if record is None:
        return None
    if record.get("note") is None:
        return (None,)
    if not record.get("file"):
        return (Half(None, str(record["note"])),)
    path = cache / "half" / str(record["file"])
    return (Half(path, str(record["note"])),) if path.exists() else None


def _tried(model: Path | bytes, opener: RunOpener, cache: Path | None, sha256: str) -> tuple[Half | None, bool]:
    """What is found, and whether that follows from the file: a graph that does not run may do so another day."""
    made = load_onnx(model)
    if made is None or not has_float32_weights(made):
        return None, True
    feeds = _feeds(made)
    if not feeds:
        return Half(None, "full precision, since its inputs are of a kind that cannot be tested"), True
    wanted = _outputs(model, opener, feeds)
    if wanted is None:
        return Half(None, "full precision, since the test of half precision did not run"), False
    if not _finite(wanted[0]):
        return Half(None, "full precision, since random inputs give it no finite outputs to compare with"), True
    # A network that takes small values need not bear large ones.
    feeds = [feed for feed, outputs in zip(feeds, wanted, strict=True) if _finite(outputs)]
    wanted = [outputs for outputs in wanted if _finite(outputs)]
    told, lasting = "", True
    for level in (0, 1):
        twin = _twin(model, level, cache, sha256)
        if twin is None:
            told = "it cannot be converted"
            continue
        found = _outputs(twin, opener, feeds)
        told = "it does not run" if found is None else _worst(found, wanted)
        lasting = lasting and found is not None
        if not told:
            return Half(twin, "half precision" + (", but for sums and divisions" if level else "")), lasting
    return Half(None, f"full precision, since in half precision {told}"), lasting


def _feeds(made: Any) -> list[dict[str, npt.NDArray[Any]]]:
    """Two random items for each range of pictures, or one where the inputs hold none; empty where it has none."""
    given = {tensor.name for tensor in made.graph.initializer}
    inputs = [value for value in made.graph.input if value.name not in given]
    pictures = any(per_item(dims) and len(dims) > 2 for dims in map(dims_of, inputs))
    drawn = [random_item(inputs, seed, ends) for ends in PICTURES[: None if pictures else 1] for seed in range(2)]
    return [feed for feed in drawn if feed is not None]


def _finite(outputs: Sequence[npt.NDArray[Any]]) -> bool:
    return all(np.isfinite(output).all() for output in outputs)


def _worst(found: Sequence[Sequence[npt.NDArray[Any]]], wanted: Sequence[Sequence[npt.NDArray[Any]]]) -> str:
    """The first fault of all runs, in words."""
    return next(filter(None, map(fault, found, wanted)), "")


def has_float32_weights(made: Any) -> bool:
    """Whether arithmetic is in float32: such weights, or others that a Cast makes so."""
    from onnx import TensorProto, helper

    names = {tensor.name for tensor in made.graph.initializer}
    if any(t.data_type == TensorProto.FLOAT and np.prod(t.dims) >= 256 for t in made.graph.initializer):
        return True
    return any(
        node.op_type == "Cast"
        and node.input[0] in names
        and any(helper.get_attribute_value(each) == TensorProto.FLOAT for each in node.attribute if each.name == "to")
        for node in made.graph.node
    )


def _outputs(
    model: Path | bytes, opener: RunOpener, feeds: Sequence[Mapping[str, npt.NDArray[Any]]]
) -> list[list[npt.NDArray[Any]]] | None:
    """Outputs of each feed; None when the graph does not open or run."""
    try:
        run = opener(model)
        return [[np.asarray(output, np.float64) for output in run(feed)] for feed in feeds]
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        return None


def fault(found: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]]) -> str:
    """What is wrong with outputs in lower precision, in words; empty when they are close to what is wanted."""
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape:
            return "its outputs have other shapes"
        if not np.isfinite(a).all():
            return "its outputs are not finite"
        rms = float(np.sqrt(np.mean((a - b) ** 2)) / max(np.sqrt(np.mean(b**2)), 1e-12)) if b.size else 0.0
        largest = float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-12))
        if rms > RMS or largest > LARGEST:
            return f"its outputs are off by {largest:.1%} of the largest value ({rms:.1%} root mean square)"
    return ""


def _twin(model: Path | bytes, level: int, cache: Path | None, sha256: str) -> Path | bytes | None:
    """The converted file, which is the same for every device; None when the converter fails."""
    path = None if cache is None else cache / "half" / f"{key_of(sha256, RULES, level)}.onnx"
    if path is not None and path.exists():
        return path
    data = converted(model, level)
    if path is None or data is None:
        return data
    write_whole(path, data)
    return path


def converted(model: Path | bytes, level: int = 0) -> bytes | None:
    """The file in float16 with float32 inputs and outputs, untested; None when it cannot be made.

    Args:
        level: 1 leaves the nodes of `DELICATE` kinds and squares in float32.
    """
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    made = load_onnx(model)
    if made is None:
        return None
    for index, node in enumerate(made.graph.node):
        node.name = f"{node.name or node.op_type}_{index}"  # the converter names its casts by them
    kinds = [*DEFAULT_OP_BLOCK_LIST, *(DELICATE if level else ())]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tells of each value that is cut to what fits
            twin = convert_float_to_float16(
                made, keep_io_types=True, op_block_list=kinds, node_block_list=_squares(made) if level else None
            )
        _straighten(twin)
        return bytes(twin.SerializeToString())
    except MemoryError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        return None  # whatever an unusual graph makes it raise


def _straighten(twin: Any) -> None:
    """Between nodes that stay float32, leave out the casts to float16 and back, where values would overflow; sort."""
    from onnx import TensorProto

    graph = twin.graph
    targets = {node.output[0]: (node.input[0], _target(node)) for node in graph.node if node.op_type == "Cast"}
    direct = {}
    for name, (source, to) in targets.items():
        before, way = targets.get(source, ("", 0))
        if to == TensorProto.FLOAT and way == TensorProto.FLOAT16:
            direct[name] = before
    results = {value.name for value in graph.output}
    for node in graph.node:
        if node.op_type != "Cast" or node.output[0] not in direct:
            node.input[:] = [direct.get(name, name) for name in node.input]
    for node in graph.node:
        if node.output[0] in direct and node.output[0] in results:
            node.op_type, node.input[:] = "Identity", [direct[node.output[0]]]
            del node.attribute[:]
    _sort(graph, results)


def _target(node: Any) -> int:
    return next(int(each.i) for each in node.attribute if each.name == "to")


def _sort(graph: Any, results: set[str]) -> None:
    """Put nodes after those that they need, and drop those that nothing needs."""
    makers = {name: node for node in graph.node for name in node.output if name}
    order: list[Any] = []
    seen: set[int] = set()
    waiting = [(makers[name], False) for name in sorted(results) if name in makers]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.append((node, True))
            waiting += [(makers[name], False) for name in _needs(node) if name in makers]
    kept = [type(node).FromString(node.SerializeToString()) for node in order]
    del graph.node[:]
    graph.node.extend(kept)


def _needs(node: Any) -> list[str]:
    """Names that a node reads, those that its inner graphs take from outside too."""
    inner = [name for each in node.attribute for part in each.g.node for name in _needs(part)]
    return [*node.input, *inner]


def _squares(made: Any) -> list[str]:
    """Names of nodes that square, by themselves or as a power: what overflows first."""
    return [
        node.name
        for node in made.graph.node
        if node.op_type == "Pow" or (node.op_type == "Mul" and len(set(node.input)) == 1)
    ]
