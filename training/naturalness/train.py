"""Trains the classifier of swapped faces on swaps of both kinds, and checks it on people set aside.

usage: python -m training.naturalness.train --data DIR --out FILE [--work DIR] [--steps N] [--start CHECKPOINT]

DIR holds train/, portraits/ and london/; people that are held out (`training/people.csv`) are left out. The work folder
keeps photos, swaps and checkpoints: swaps of weights that did not change are not made again.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from mien.evaluate.statistics import auc
from mien.types import ByteArray, FloatArray
from mien.zoo.swappers.texture import TextureSwapper
from training.naturalness.batches import Batches
from training.naturalness.export import export, load
from training.naturalness.model import Naturalness
from training.naturalness.photos import Photo, chosen, look_at, of_people
from training.naturalness.swaps import JUDGED, KINDS, STORED, Swaps, View, cut, make, pairs

PAIRS, RATE, DECAY = 16, 2e-3, 0.02
"""Photos of a batch, each with a swap of it."""
USUAL, OFTEN = 2, 6
"""Swaps of each photo of train/, and of each of the fewer others."""
log = logging.getLogger("naturalness")


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """Photos of some people and swaps among them."""

    untouched: ByteArray
    """(P, S, S, 3) crops."""
    kinds: tuple[Swaps, ...]
    """In the order of `KINDS`."""


def material(found: Sequence[Photo], view: View, weights: Path, work: Path, jobs: int) -> Material:
    """Photos and both kinds of swaps, cut out by a view."""
    drawn = pairs(found, USUAL, OFTEN, seed=1)
    kinds = tuple(make(found, drawn, kind, view, weights, work, jobs) for kind in KINDS)
    return Material(np.stack([cut(photo.image, photo, view) for photo in found]), kinds)


def judged(net: torch.nn.Module, crops: ByteArray) -> FloatArray:
    """(N,) logits of (N, S, S, 3) crops."""
    with torch.no_grad():
        parts = [net(_tensor(crops[i : i + 64]))[:, 0].numpy() for i in range(0, len(crops), 64)]
    return np.asarray(np.concatenate(parts), np.float32)


def areas(net: torch.nn.Module, seen: Material) -> dict[str, float]:
    """Area under the ROC curve of each kind of swap against the photos that were swapped."""
    before = judged(net, seen.untouched)
    return {
        kind: auc(before[swaps.target], judged(net, swaps.crops)) for kind, swaps in zip(KINDS, seen.kinds, strict=True)
    }


def run(net: Naturalness, batches: Batches, check: Material, steps: int, keep: Path) -> Naturalness:
    """Train for `steps`; the moving average of the weights is returned, and saved."""
    torch.manual_seed(1)
    net.train().to(memory_format=torch.channels_last)
    average = AveragedModel(net, avg_fn=_mix, use_buffers=True)
    optimiser = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.15)
    began, total = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        images, label = batches.draw(PAIRS)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(images.to(memory_format=torch.channels_last))
        loss = loss_of(logits.float(), label)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        average.update_parameters(net)
        total += float(loss)
        if step % 100 == 0:
            now = time.monotonic() - began
            log.info("step %d of %d, loss %.4f, %.2f s a step", step, steps, total / 100, now / step)
            total = 0.0
        if step % 300 == 0 or step == steps:
            torch.save(average.module.state_dict(), keep)
            log.info("people set aside: %s", areas(load(keep), check))
    return load(keep)


def loss_of(logits: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy, and how often a photo looks more swapped than its own swap."""
    before, after = logits.chunk(2)
    return functional.binary_cross_entropy_with_logits(logits, label) + 0.5 * functional.softplus(before - after).mean()


def _mix(average: Tensor, now: Tensor, count: Tensor | int) -> Tensor:
    """Moving average that forgets the first steps quickly."""
    return average + (now - average) * max(0.01, 9 / (10 + int(count)))


def _tensor(crops: ByteArray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(crops.transpose(0, 3, 1, 2))).float() / 255


def bundled() -> Path:
    """The weights of the blending network that ships."""
    card = TextureSwapper.card
    assert card.weights is not None
    return card.weights.path


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the classifier of swapped faces.")
    parser.add_argument("--data", type=Path, required=True, help="folder of photos")
    parser.add_argument("--out", type=Path, required=True, help="ONNX file to write")
    parser.add_argument("--work", type=Path, default=Path("naturalness-work"), help="folder for photos and swaps")
    parser.add_argument("--swapgan", type=Path, default=bundled(), help="weights of the blending network")
    parser.add_argument("--photos", type=int, default=1700, help="photos of train/ to use")
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--start", type=Path, help="checkpoint to go on from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    found = look_at(chosen(options.data, "training", options.photos), options.work / "photos", options.jobs)
    own, aside = (list(of_people(found, checked=checked)) for checked in (False, True))
    taught = material(own, STORED, options.swapgan, options.work, options.jobs)
    check = material(aside, JUDGED, options.swapgan, options.work, options.jobs)
    log.info("%d photos with %d swaps of each kind", len(own), len(taught.kinds[0].crops))
    torch.manual_seed(options.seed)
    net = load(options.start) if options.start else Naturalness()
    net = run(
        net, Batches(taught.untouched, taught.kinds, options.seed), check, options.steps, options.work / "last.pt"
    )
    export(net, options.out)


if __name__ == "__main__":
    main()
