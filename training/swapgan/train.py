"""Trains the network: `python -m training.swapgan.train --faces FILE.npz --teacher FILE.onnx --work DIR`.

Steps with a known truth and steps of two people at once; a discriminator joins late. It goes on from the work folder's
last checkpoint, or from exported weights (`--start`), and may be stopped at any time.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from training.swapgan.export import load_exported
from training.swapgan.faces import Faces
from training.swapgan.model import Maps, SwapGAN, blend, displaced
from training.swapgan.samples import Batch, Samples
from training.swapgan.teacher import Teacher

TRUTHS, PAIRS = 10, 6
"""Samples of each kind in a step."""
RATE, LEAST = 6e-4, 2e-5
KEEP = 0.998
"""Of the moving average of the weights, each step."""
SAVE_EVERY = 100
log = logging.getLogger("swapgan")


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the losses."""

    pixels: float = 1.0
    edges: float = 2.0
    slow: float = 1.5
    features: float = 0.15
    same: float = 0.1
    """Distance of the embedding to the truth's."""
    identity: float = 0.35
    """Distance of the embedding to the source's, of two people."""
    light: float = 0.8
    """Change of slow colours, of two people."""
    kept: float = 3.0
    """Change of what lies in front of the face."""
    detail: float = 0.6
    """Edges that are not those of the texture in the target's light, of two people."""
    printed: float = 0.2
    """Places that the source shows and the target does not hide, where the texture is not used."""
    flat: float = 0.02
    """Unevenness of the maps."""
    still: float = 0.5
    """Unevenness of the displacement."""
    fooled: float = 0.015


class Discriminator(nn.Module):
    """N×4×S×S, an image and its mask, to a map of scores (Isola et al. 2017), at two scales."""

    def __init__(self, width: int = 28) -> None:
        super().__init__()
        self.fine, self.coarse = _judge(width), _judge(width)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Scores of each scale."""
        return [self.fine(images), self.coarse(functional.avg_pool2d(images, 2))]


def _judge(width: int) -> nn.Sequential:
    def step(inputs: int, outputs: int, stride: int) -> nn.Module:
        return spectral_norm(nn.Conv2d(inputs, outputs, 4, stride, 1))

    return nn.Sequential(
        step(4, width, 2), nn.LeakyReLU(0.2), step(width, 2 * width, 2), nn.LeakyReLU(0.2),
        step(2 * width, 3 * width, 2), nn.LeakyReLU(0.2), step(3 * width, 1, 1),
    )  # fmt: skip


def edges(images: Tensor) -> tuple[Tensor, Tensor]:
    """Differences of neighbours, across and down."""
    return images[..., :, 1:] - images[..., :, :-1], images[..., 1:, :] - images[..., :-1, :]


def slow(images: Tensor, weight: Tensor, step: int) -> Tensor:
    """Weighted means of squares of `step` pixels."""
    return functional.avg_pool2d(images * weight, step) / (functional.avg_pool2d(weight, step) + 0.05)


class Trainer:
    """Everything that a step needs, and that a checkpoint holds."""

    def __init__(self, faces: Faces, teacher: Path, seed: int, weights: Weights) -> None:
        torch.manual_seed(seed)
        self.weights = weights
        self.net = SwapGAN().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = copy.deepcopy(self.net).eval()
        self.judge = Discriminator().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = torch.optim.AdamW(self.net.parameters(), RATE, betas=(0.9, 0.99), weight_decay=1e-3)
        self.against = torch.optim.Adam(self.judge.parameters(), 3e-4, betas=(0.5, 0.99))
        self.samples = Samples(faces, seed)
        self.teacher = Teacher(teacher)
        self.known = self._embeddings()
        self.step = 0

    def _embeddings(self) -> Tensor:
        parts = torch.arange(len(self.samples)).split(64)
        with torch.no_grad():
            return torch.cat([self.teacher(*self.samples.photos(part))[1] for part in parts])

    def run(self, rate: float, adversarial: bool) -> dict[str, float]:
        """One step; what each loss was."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        batch = self.samples.with_truth(TRUTHS).joined(self.samples.of_two(PAIRS))
        maps = self.net(*batch.inputs)
        output = blend(batch.target, batch.drawn, maps)
        terms = self._terms(batch, output, maps)
        if adversarial:
            terms["fooled"] = self.weights.fooled * sum(
                -score.mean() for score in self.judge(torch.cat([output, batch.mask], 1))
            )
        total = sum(terms.values())
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        if math.isfinite(float(norm)):
            self.optimiser.step()
        if adversarial:
            terms["judged"] = self._judged(batch, output.detach())
        self.step += 1
        keep = min(KEEP, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 1 - keep)
        return {name: float(value.detach()) for name, value in terms.items()}

    def _terms(self, batch: Batch, output: Tensor, maps: Maps) -> dict[str, Tensor]:
        w, n = self.weights, TRUTHS
        mask = batch.mask
        weight = 1 + 4 * mask
        made, truth = output[:n], batch.truth[:n]
        seen = mask * (1 - batch.covered)
        terms = {
            "pixels": w.pixels * ((made - truth).abs() * weight[:n]).mean(),
            "edges": w.edges * sum((a - b).abs().mean() for a, b in zip(edges(made), edges(truth), strict=True)),
            "slow": w.slow * (slow(made, mask[:n], 8) - slow(truth, mask[:n], 8)).abs().mean(),
        }
        # A little beside its usual crop: what the teacher sees in one exact place only, no other network sees.
        aligned = self.samples.nudged(batch.aligned)
        features, embedding = self.teacher(output, aligned)
        with torch.no_grad():
            wanted, known = self.teacher(truth, aligned[:n])
        terms["features"] = w.features * sum(
            ((a[:n] - b).abs().mean() / (b.abs().mean() + 1e-3)) for a, b in zip(features, wanted, strict=True)
        )
        terms["same"] = w.same * (embedding[:n] - known).norm(dim=1).mean()
        away = (embedding[n:] - self.known[batch.person[n:]]).norm(dim=1)
        terms["identity"] = w.identity * away.mean()
        skin = (seen * batch.skin)[n:]
        change = (slow(output[n:], skin, 32) - slow(batch.target[n:], skin, 32)).abs()
        # A beard or a brow of one of the two is a large change, and no light.
        terms["light"] = w.light * (0.1 * torch.log1p(change / 0.1)).mean()
        lit = self._lit(batch, maps)[n:]
        shown = (seen * batch.trust)[n:]
        terms["detail"] = w.detail * sum(
            ((a - b).abs() * shown[..., : a.shape[2], : a.shape[3]]).mean()
            for a, b in zip(edges(output[n:]), edges(lit), strict=True)
        )
        terms["kept"] = w.kept * ((output - batch.target).abs() * mask * batch.covered)[n:].mean()
        terms["printed"] = w.printed * ((mask - maps.trust) * (1 - batch.covered) * batch.trust)[n:].mean()
        terms["flat"] = w.flat * sum(d.abs().mean() for m in (maps.gain, maps.bias, maps.trust) for d in edges(m))
        terms["still"] = w.still * sum(d.pow(2).mean() for d in edges(maps.flow))
        return terms

    def _lit(self, batch: Batch, maps: Maps) -> Tensor:
        """The texture in the target's light, before the network mends anything but its place."""
        weight = batch.mask * batch.seen * batch.trust * batch.skin
        ground, light, contrast = self.net.light(batch.target, batch.drawn, weight)
        return displaced((batch.drawn - ground) * contrast + light, maps.flow.detach()).clamp(0, 1)

    def _judged(self, batch: Batch, output: Tensor) -> Tensor:
        real, made = torch.cat([batch.truth, batch.mask], 1), torch.cat([output, batch.mask], 1)
        loss = sum(
            functional.relu(1 - a).mean() + functional.relu(1 + b).mean()
            for a, b in zip(self.judge(real), self.judge(made), strict=True)
        )
        assert isinstance(loss, Tensor)
        self.against.zero_grad(set_to_none=True)
        loss.backward()
        self.against.step()
        return loss.detach()

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        parts = ("net", "average", "judge", "optimiser", "against")
        return {"step": self.step, **{name: getattr(self, name).state_dict() for name in parts}}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.step = state["step"]
        for name in ("net", "average", "judge", "optimiser", "against"):
            getattr(self, name).load_state_dict(state[name])

    def start_from(self, file: Path) -> None:
        """Begin with exported weights."""
        for net in (self.net, self.average):
            load_exported(net, file)


def rate_at(step: int, steps: int) -> float:
    """Warm-up, then a cosine to `LEAST`."""
    done = min(1.0, step / steps)
    return min(1.0, (step + 1) / 100) * (LEAST + (RATE - LEAST) * 0.5 * (1 + math.cos(math.pi * done)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Train the network that blends a source's texture into a face.")
    parser.add_argument("--faces", type=Path, required=True, help="what training.swapgan.faces wrote")
    parser.add_argument("--teacher", type=Path, required=True, help="dlib_resnet_128.onnx")
    parser.add_argument("--work", type=Path, required=True, help="folder of checkpoints")
    parser.add_argument("--start", type=Path, help="exported weights to begin with")
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--adversary", type=int, default=3_000, help="step at which the discriminator joins")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; a later run goes on")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    last = args.work / "last.pt"
    trainer = Trainer(Faces.load(args.faces), args.teacher, args.seed, Weights())
    if last.exists():
        trainer.restore(torch.load(last, weights_only=True))
        trainer.samples.reseed(args.seed + trainer.step)
    elif args.start:
        trainer.start_from(args.start)
    began, sums = time.monotonic(), dict[str, float]()
    while trainer.step < args.steps and time.monotonic() - began < 60 * args.minutes:
        terms = trainer.run(rate_at(trainer.step, args.steps), trainer.step >= args.adversary)
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value
        if trainer.step % SAVE_EVERY == 0:
            told = {name: round(value / SAVE_EVERY, 4) for name, value in sums.items()}
            log.info("%d %.0f s %s", trainer.step, time.monotonic() - began, json.dumps(told))
            sums.clear()
            _save(trainer, last)
    _save(trainer, last)


def _save(trainer: Trainer, path: Path) -> None:
    fresh = path.with_suffix(".new")
    torch.save(trainer.state(), fresh)
    fresh.replace(path)


if __name__ == "__main__":
    main()
