"""Trains the occluder masker: two rounds, the second with real occluders that the first one found.

usage: python -m training.occluder.train --data DIR --out FILE [--work DIR] [--steps N N] [--seed N]

DIR holds photos with one face each. The work folder keeps crops and checkpoints; a finished round is not repeated.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training.occluder import labels
from training.occluder.crops import MARGIN, MASKS, SIZE, STORED, Array, Crops, load_or_make
from training.occluder.dataset import Composer
from training.occluder.export import export
from training.occluder.model import Occluder

BATCH, RATE, DECAY = 8, 7e-4, 0.01
"""Rates of 2e-3 and more stall this network from the first steps on."""
SAVE_EVERY = 400
log = logging.getLogger("occluder")


class Stream(IterableDataset[tuple[Tensor, Tensor, Tensor]]):
    """Endless (3×S×S uint8, S×S label, S×S weight)."""

    def __init__(self, composer: Composer, seed: int) -> None:
        self._composer, self._seed = composer, seed

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        info = get_worker_info()
        for sample in self._composer.samples(self._seed * 1000 + (info.id if info else 0)):
            image = np.ascontiguousarray(sample.image.transpose(2, 0, 1))
            yield torch.from_numpy(image), torch.from_numpy(sample.label), torch.from_numpy(sample.weight)


def to_input(images: Tensor) -> Tensor:
    """uint8 → −1…1, as the masker does."""
    return images.float() / 127.5 - 1


def loss_of(logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
    """Weighted cross-entropy and a soft Dice term over the batch."""
    each = functional.binary_cross_entropy_with_logits(logits, label, reduction="none")
    said = torch.sigmoid(logits)
    overlap = (weight * said * label).sum()
    dice = 1 - (2 * overlap + 1) / ((weight * (said + label)).sum() + 1)
    return (each * weight).sum() / weight.sum().clamp(min=1) + 0.3 * dice


def _mix(average: Tensor, now: Tensor, count: Tensor | int) -> Tensor:
    """Moving average that forgets the first steps quickly."""
    return average + (now - average) * max(0.0015, 9 / (10 + int(count)))


def run(net: Occluder, composer: Composer, steps: int, rate: float, seed: int, keep: Path) -> Occluder:
    """Train for `steps`, return the moving average of the weights; it is saved every few minutes."""
    torch.manual_seed(seed)
    net.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average = AveragedModel(net, avg_fn=_mix, use_buffers=True)
    optimiser = torch.optim.AdamW(net.parameters(), rate, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, rate, total_steps=steps, pct_start=0.08, final_div_factor=100
    )
    batches = iter(DataLoader(Stream(composer, seed), BATCH, num_workers=1, prefetch_factor=4))
    began, total = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        images, label, weight = next(batches)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(to_input(images).to(memory_format=torch.channels_last))[:, 0]
        loss = loss_of(logits.float(), label, weight)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        average.update_parameters(net)
        total += float(loss)
        if step % 100 == 0:
            log.info(
                "step %d of %d, loss %.4f, %.2f s a step", step, steps, total / 100, (time.monotonic() - began) / step
            )
            total = 0.0
        if step % SAVE_EVERY == 0 or step == steps:
            torch.save(average.module.state_dict(), keep.with_suffix(".part"))
    keep.with_suffix(".part").replace(keep)
    return load(keep)


def predict(net: Occluder, images: Array) -> Array:
    """N×S×S probabilities of N×S×S×3 crops, averaged over the mirror image."""
    with torch.no_grad():
        batch = to_input(torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))))
        said = torch.sigmoid(net(batch)) + torch.sigmoid(net(batch.flip(3))).flip(3)
    return np.asarray(said[:, 0].numpy() / 2, np.float32)


def relabel(net: Occluder, crops: Crops) -> dict[str, tuple[Array, Array]]:
    """Labels of the photos with real occluders, as far as the network is sure of them."""
    lists = labels.known()
    found = {}
    edge = (STORED - SIZE) // 2
    for name, image, mesh, masks in zip(crops.names, crops.images, crops.meshes, crops.masks, strict=True):
        kinds = frozenset(kind for kind, names in lists.items() if name in names)
        if kinds and "test" not in kinds:
            said = predict(net, image[None, edge : edge + SIZE, edge : edge + SIZE])[0]
            said = cv2.copyMakeBorder(said, edge, edge, edge, edge, cv2.BORDER_REPLICATE)
            small = cv2.resize(said, (MASKS, MASKS), interpolation=cv2.INTER_AREA)
            found[name] = labels.from_prediction(mesh, masks, small, kinds)
    return found


def load(path: Path) -> Occluder:
    """A network from a checkpoint, ready to predict."""
    net = Occluder()
    net.load_state_dict(torch.load(path, weights_only=True))
    return net.eval()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the occluder masker.")
    parser.add_argument("--data", type=Path, required=True, help="folder of photos")
    parser.add_argument("--out", type=Path, required=True, help="ONNX file to write")
    parser.add_argument("--work", type=Path, default=Path("occluder-work"), help="folder for crops and checkpoints")
    parser.add_argument("--steps", type=int, nargs=2, default=(2000, 5300), help="steps of the two rounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    cv2.setNumThreads(0)  # the workers are forked, and a forked thread pool hangs
    options.work.mkdir(parents=True, exist_ok=True)
    crops = load_or_make(options.data, options.work / "crops.npz")
    first, second = options.work / "round1.pt", options.work / "round2.pt"
    torch.manual_seed(options.seed)
    if not first.exists():
        run(Occluder(), Composer(crops, held_out=False), options.steps[0], RATE, options.seed, first)
    net = load(first)
    if not second.exists():
        composer = Composer(crops, held_out=False, relabelled=relabel(net, crops))
        run(net, composer, options.steps[1], RATE, options.seed + 1, second)
    export(load(second), options.out)
    log.info("wrote %s; crops are %d × %d, %.2f times the mesh", options.out, SIZE, SIZE, MARGIN)


if __name__ == "__main__":
    main()
