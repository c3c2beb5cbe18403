"""One batch against single runs of a file of one item: `python -m benchmarks.batches FILE [--items 8]`.

The file is given a free batch dimension, which is proved first, and both versions run on the CPU.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

from mien.runtime.batching import best_batch, difference, free_batch, run_batch
from mien.runtime.session import Session


def main() -> None:
    """Print the largest difference, over the largest value, and the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--items", type=int, default=8)
    parser.add_argument("--probe", action="store_true", help="find the best size of a batch too")
    arguments = parser.parse_args()
    ort.set_default_logger_severity(4)
    started = time.perf_counter()
    freed = free_batch(arguments.file)
    print(f"{arguments.file.name}: {'has no' if freed is None else 'proved a'} free batch", end="")
    print(f" in {time.perf_counter() - started:.1f} s")
    if freed is None:
        return
    single, batch = Session(arguments.file, "cpu"), Session(freed, "cpu", name="freed")
    random = np.random.default_rng(0)

    def items(count: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
        return [
            random.random((count, *(int(size or 0) for size in tensor.shape[1:])), np.float32)
            for tensor in single.inputs
        ]

    arrays = items(arguments.items)
    times, results = [], []
    for session in (single, batch):
        started = time.perf_counter()
        results.append(run_batch(session, arrays))
        times.append(time.perf_counter() - started)
    for tensor, one, many in zip(single.outputs, *results, strict=True):
        print(f"  {tensor.name}: batch {arguments.items} differs from {arguments.items} single runs", end="")
        print(f" by at most {difference(many, one):.2e} of the largest value, {abs(many - one).max():.2e}")
    print(f"  {arguments.items} single runs {times[0]:.2f} s, one batch {times[1]:.2f} s")
    if arguments.probe:
        print(f"  best size {best_batch(lambda count: batch(*items(count)), seconds=60)}")


if __name__ == "__main__":
    main()
