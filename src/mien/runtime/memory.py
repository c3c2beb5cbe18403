"""Telling an exhausted memory from every other failure of an inference."""

from __future__ import annotations

import re

_SIGNS = re.compile(
    r"failed to allocate memory"  # ONNX Runtime's arena, on any device
    r"|available memory of \d+ is smaller than requested"  # the same, under a limit of its own
    r"|out ?of ?memory"  # CUDA failure 2, cudaErrorMemoryAllocation, TensorRT's OutOfMemory
    r"|bad allocation|bad_alloc"  # C++
    r"|_STATUS_(ALLOC_FAILED|INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)"  # cuDNN, cuBLAS
    r"|cuda ?(failure|error in allocate:?) 2\b"
    r"|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|cannot allocate memory|insufficient (device )?memory",
    re.IGNORECASE,
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device, or this machine, had no memory left; ONNX Runtime says so only in words."""
    return isinstance(error, MemoryError) or _SIGNS.search(str(error)) is not None
