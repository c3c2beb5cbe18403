"""Taking in a file of the user's: whether it is an ONNX file at all, and a whole copy of it."""

from __future__ import annotations

import hashlib
import math
import os
import stat
from pathlib import Path
from typing import Any

from mien.errors import InputError

LARGEST = (1 << 31) - 1
"""Bytes of an ONNX file; no protobuf message is larger."""
MOST_VALUES = 1 << 28
"""Of one input or output: a gigabyte of float32, and ten times what any family has."""
BLOCK = 1 << 20
HEAD = 512
"""Bytes that are looked at to tell what a file is instead."""

_LATER = "it would have to be exported to ONNX first"


def check(path: Path) -> None:
    """Refuse what plainly is no ONNX file, after a look at its first bytes.

    Raises:
        InputError: names the path, says what it is instead and what to do.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise InputError(f"{path}: is a folder; name the .onnx file in it")
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path}: is no regular file; copy it to one first")
        with path.open("rb") as file:
            head = file.read(HEAD)
    except (FileNotFoundError, NotADirectoryError):
        reason = "is a link that leads nowhere" if path.is_symlink() else "does not exist"
        raise InputError(f"{path}: {reason}; check the path") from None
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    if (what := _instead(head, found.st_size)) is not None:
        raise InputError(f"{path}: {what}")


def copy(path: Path, destination: Path) -> tuple[str, int]:
    """Copy a file that passed `check`, whole and to the disk; weights that lie in files beside it come in.

    Returns:
        sha256 and size of the copy.

    Raises:
        InputError: it is damaged, declares more than could be run, or what it keeps in other files is not there.
        OSError: the destination cannot be written.
    """
    model = _parsed(path)
    _check_sizes(path, model.graph)
    beside = _files_beside(model)
    del model
    return _join(path, destination, beside) if beside else _copy(path, destination)


def _instead(head: bytes, size: int) -> str | None:
    """What a file is that is no ONNX file, and what to do; None for what may be one."""
    text = head.lstrip().lower()
    if size == 0:
        return "is empty; fetch it again"
    if text.startswith(b"version https://git-lfs"):
        return "is only a Git LFS pointer to the weights; run `git lfs pull` there, or download the file itself"
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "is a web page, not weights; open its address in a browser and download the file itself"
    if text.startswith(b"{"):
        return "is JSON, not weights; fetch the file again"
    if size > LARGEST:
        return f"holds {size / 1e9:.1f} GB, more than any ONNX file; choose another file"
    for start, place, name, step in _OTHERS:
        if head[place : place + len(start)] == start:
            return f"is {name}, not an ONNX file; {step}"
    return None


_OTHERS = (
    (b"PK\x03\x04", 0, "a zip archive or a PyTorch checkpoint", f"unpack it, or if it is a checkpoint, {_LATER}"),
    (b"\x80\x02", 0, "a PyTorch checkpoint", _LATER),
    (b"\x89HDF", 0, "a Keras or HDF5 file", _LATER),
    (b"TFL3", 4, "a TensorFlow Lite file", _LATER),
    (b"ORTM", 4, "an ONNX Runtime (.ort) file", "take the .onnx file that it was made from"),
    (b"\x1f\x8b", 0, "a gzip archive", "unpack it"),
    (b"7z\xbc\xaf", 0, "a 7-Zip archive", "unpack it"),
    (b"Rar!", 0, "a RAR archive", "unpack it"),
    (b'{"', 8, "a safetensors file", _LATER),
)
"""Start, where it lies, what it tells, and what to do."""


def _parsed(path: Path) -> Any:
    """The graph without the weights that lie in other files."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise InputError(f"{path}: is no ONNX file, or is cut short or damaged; fetch it again") from error
    if not model.graph.node:
        raise InputError(f"{path}: is no ONNX file, or one without a network; fetch it again")
    return model


def _check_sizes(path: Path, graph: Any) -> None:
    """Refuse what would fill the memory as soon as it is opened or run once. Free dimensions count as 1."""
    values = [*graph.input, *graph.output]
    shapes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in values}
    shapes |= {tensor.values.name: list(tensor.dims) for tensor in graph.sparse_initializer}
    for name, shape in shapes.items():
        if math.prod(max(1, size) for size in shape) > MOST_VALUES:
            text = "×".join(str(size or "?") for size in shape)
            raise InputError(f"{path}: declares {name} of {text} values, more than any model needs; take another file")


def _files_beside(model: Any) -> set[str]:
    """Names of the files that hold weights of a graph."""
    import onnx
    from onnx.external_data_helper import uses_external_data

    tensors = [*model.graph.initializer, *_constants(model.graph)]
    found = (tensor for tensor in tensors if isinstance(tensor, onnx.TensorProto) and uses_external_data(tensor))
    return {entry.value for tensor in found for entry in tensor.external_data if entry.key == "location"}


def _constants(graph: Any) -> list[Any]:
    tensors = []
    for node in graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t, *attribute.tensors]
            for inner in (attribute.g, *attribute.graphs):
                tensors += [*inner.initializer, *_constants(inner)]
    return tensors


def _join(path: Path, destination: Path, beside: set[str]) -> tuple[str, int]:
    """One file of a graph and of the files that hold its weights."""
    import onnx
    from google.protobuf.message import EncodeError

    names = ", ".join(sorted(beside))
    try:
        data = onnx.load(path).SerializeToString()
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(f"{path}: its weights lie in {names}, which cannot be read; put it beside the file") from error
    except EncodeError as error:
        raise InputError(f"{path}: holds more than 2 GB with {names}; choose another file") from error
    with destination.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest(), len(data)


def _copy(path: Path, destination: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source, destination.open("wb") as file:
        while block := source.read(BLOCK):
            digest.update(block)
            size += len(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest(), size
