"""Samples with a known truth, made from photos of single people, and samples of two people without one.

The truth is a photo X of A. Another person's texture, pasted on X, makes the target; A's own texture, disturbed, is the
source. What a disturbance does is what a source photo may have done to it: another light, hard shadows, another camera,
another skin tone, hair or a hand before the face, parts never seen, a landmarker's error.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mien.atlas import atlas
from training.swapgan.faces import TEXTURE, Faces
from training.swapgan.teacher import SIDE as IDENTITY_SIDE

MATES = 0.25
"""Share of samples with a truth whose source is another photo of the person, where there is one."""


@dataclass(frozen=True, slots=True)
class Batch:
    """N×C×SIDE×SIDE each, 0–1."""

    target: Tensor
    drawn: Tensor
    mask: Tensor
    seen: Tensor
    """As the network is told, which may be less than the truth."""
    trust: Tensor
    skin: Tensor
    truth: Tensor
    """The wanted result; for two people, the target again."""
    covered: Tensor
    """1 where something lies in front of the target's face in truth."""
    aligned: Tensor
    """(N, 2, 3) to the identity network's crop."""
    person: Tensor
    """(N,) index of a photo of the source."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the network takes."""
        return self.target, self.drawn, self.mask, self.seen, self.trust, self.skin

    def joined(self, other: Batch) -> Batch:
        """Both, one after the other."""
        return Batch(*(torch.cat([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


class Samples:
    """Draws batches. All its randomness comes from the seed."""

    def __init__(self, faces: Faces, seed: int) -> None:
        self._chance = torch.Generator().manual_seed(seed)
        self._crop = _image(faces.crop)
        self._uv = torch.from_numpy(faces.uv)
        self._mask, self._seen = torch.from_numpy(faces.mask)[:, None], torch.from_numpy(faces.seen)[:, None]
        self._texture, self._trust = _image(faces.texture), torch.from_numpy(faces.trust)[:, None]
        self._aligned = torch.from_numpy(faces.aligned)
        self._skin = torch.from_numpy(atlas(TEXTURE).skin)[None, None]
        self._mates = _mates(faces)
        self._paired = torch.tensor(sorted(self._mates))
        self._count, self._side = len(faces), faces.crop.shape[1]
        self._tone = self._tones()

    def reseed(self, seed: int) -> None:
        """Other samples from here on, so that a run that goes on does not repeat itself."""
        self._chance.manual_seed(seed)

    def with_truth(self, count: int) -> Batch:
        """Samples whose truth is a photo."""
        photo, other = self._pick(count), self._pick(count)
        if len(self._paired):
            mated = self._paired[torch.randint(len(self._paired), (count,), generator=self._chance)]
            photo = torch.where(self._often(MATES, count), mated, photo)
        source = torch.tensor([self._mates.get(int(i), int(i)) for i in photo])
        source = torch.where(self._often(0.8, count), source, photo)
        truth, uv, mask, seen = self._photo(photo)
        skin = _drawn(self._skin.expand(count, -1, -1, -1), uv)
        texture, trust = self._disturbed(source)
        drawn, trust = _drawn(texture, uv), _drawn(trust, uv)
        target = self._pasted(truth, other, uv, mask, seen, skin)
        target, truth, covered = self._covered(target, truth, 1 - seen)
        target, truth = self._filmed(target, truth)
        told = self._told(1 - covered)
        return self._flipped(
            Batch(target, drawn, mask, told, trust, skin, truth, covered, self._aligned[photo], source)
        )

    def of_two(self, count: int) -> Batch:
        """Samples of two people."""
        photo, source = self._pick(count), self._pick(count)
        target, uv, mask, seen = self._photo(photo)
        skin = _drawn(self._skin.expand(count, -1, -1, -1), uv)
        texture, trust = self._texture[source].float() / 255, self._trust[source].float() / 255
        drawn, trust = _drawn(texture, uv), _drawn(trust, uv)
        target, _, covered = self._covered(target, target, 1 - seen)
        told = self._told(1 - covered)
        return self._flipped(
            Batch(target, drawn, mask, told, trust, skin, target, covered, self._aligned[photo], source)
        )

    def photos(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Crops 0–1 and the matrices to the identity network's crop."""
        return self._crop[index].float() / 255, self._aligned[index]

    def nudged(self, aligned: Tensor) -> Tensor:
        """Matrices to the identity network's crop, each turned, scaled and moved a little in it."""
        count, middle = len(aligned), IDENTITY_SIDE / 2
        turn, size = self._normal(count) * 0.05, (self._normal(count) * 0.04).exp()
        cos, sin = size * turn.cos(), size * turn.sin()
        linear = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
        moved = linear @ (aligned - torch.tensor([[0.0, 0, middle], [0, 0, middle]]))
        moved[:, :, 2] += middle + self._normal(count, 2) * 2.5
        return moved

    def __len__(self) -> int:
        return self._count

    def _photo(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return (
            self._crop[index].float() / 255,
            self._uv[index].float(),
            self._mask[index].float() / 255,
            self._seen[index].float() / 255,
        )

    def _tones(self) -> Tensor:
        """(N, 3) mean colour of plain skin of each texture."""
        tones = []
        for start in range(0, self._count, 256):
            part = slice(start, start + 256)
            weight = self._trust[part].float() * self._skin + 1e-3
            texture = self._texture[part].float() / 255
            tones.append((texture * weight).sum((2, 3)) / weight.sum((2, 3)))
        return torch.cat(tones)

    # ------------------------------------------------------------------------------------------- the source's texture

    def _disturbed(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Textures and trust of photos, as other photos of these people would have given them."""
        count = len(index)
        texture, trust = self._texture[index].float() / 255, self._trust[index].float() / 255
        texture, trust = self._holes(*self._foreign(*self._mirrored(texture, trust)))
        gain = self._field(count, 3, 0.16) + self._normal(count, 3, 1, 1) * 0.12
        gain = gain + self._field(count, 4, 0.1, 1)
        gain = gain + self._shadow(count)
        texture = (self._toned(texture, index) * gain.exp()).clamp(0, 1)
        texture = texture ** self._normal(count, 1, 1, 1).mul(0.2).exp()
        texture = self._glossy(texture + self._shine(count))
        texture = self._soft(texture) + self._normal(*texture.shape) * self._sometimes(0.3, count) * 0.015
        return self._moved(texture.clamp(0, 1), trust)

    def _toned(self, texture: Tensor, index: Tensor) -> Tensor:
        """Another person's skin tone, at times, and the contrast that goes with it, more or less."""
        count = len(texture)
        own, other = self._tone[index], self._tone[self._pick(count)]
        share = torch.rand(count, 1, generator=self._chance) * self._often(0.5, count)[:, None]
        tone = own + share * (other - own)
        power = torch.rand(count, 1, generator=self._chance)
        contrast = ((tone.mean(1, keepdim=True) + 0.1) / (own.mean(1, keepdim=True) + 0.1)) ** power
        contrast = contrast * (self._normal(count, 1) * 0.1).exp()
        own, tone, contrast = own[..., None, None], tone[..., None, None], contrast[..., None, None]
        return ((texture - own) * contrast + tone).clamp(0, 1)

    def _mirrored(self, texture: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
        """One half is the mirror of the other at times, as after a half profile."""
        count, side = len(texture), texture.shape[-1]
        ramp = ((torch.arange(side) - side / 2) / 8).sigmoid()[None, None, None]
        ramp = torch.where(self._often(0.5, count)[:, None, None, None], ramp, 1 - ramp)
        share = ramp * self._sometimes(0.12, count)
        return texture + share * (texture.flip(3) - texture), trust + share * (0.7 * trust.flip(3) - trust)

    def _foreign(self, texture: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
        """Hair, cloth or a hand that was not told from the face."""
        count, side = len(texture), texture.shape[-1]
        things = functional.interpolate(self._things(count), side, mode="bilinear", align_corners=False)
        blob = self._blob(count, side, 0.08, 0.22) * self._sometimes(0.3, count)
        trust = trust * (1 - blob * self._sometimes(0.4, count))
        return texture + blob * (things - texture), trust

    def _holes(self, texture: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
        """Parts that no photo showed: filled with smooth skin, and not trusted."""
        count = len(texture)
        hole = self._blob(count, texture.shape[-1], 0.1, 0.35) * self._sometimes(0.25, count)
        smooth = functional.interpolate(functional.avg_pool2d(texture, 16), texture.shape[-1], mode="bilinear")
        return texture + hole * (smooth - texture), trust * (1 - hole)

    def _shadow(self, count: int) -> Tensor:
        """Log-gain of a shadow with a border from hard to soft."""
        side = TEXTURE
        line = torch.linspace(-1, 1, side)
        turn = torch.rand(count, 1, 1, 1, generator=self._chance) * 2 * np.pi
        plane = line[None, None, None] * turn.cos() + line[None, None, :, None] * turn.sin()
        plane = plane + self._normal(count, 1, 1, 1) * 0.35 + self._field(count, 4, 0.25, 1)
        sharp = 3 * torch.exp(torch.rand(count, 1, 1, 1, generator=self._chance) * 2.5)
        depth = 0.2 + torch.rand(count, 1, 1, 1, generator=self._chance) * 0.9
        tint = self._normal(count, 3, 1, 1) * 0.08
        return -(plane * sharp).sigmoid() * (depth + tint) * self._sometimes(0.35, count)

    def _shine(self, count: int) -> Tensor:
        amount = torch.rand(count, 1, 1, 1, generator=self._chance) * 0.35
        return self._blob(count, TEXTURE, 0.03, 0.12) * amount * self._sometimes(0.2, count)

    def _glossy(self, texture: Tensor) -> Tensor:
        """Stronger highlights at times: those of dark skin in hard light, which pale skin in soft light has not."""
        count = len(texture)
        light = texture.mean(1, keepdim=True)
        around = functional.avg_pool2d(functional.pad(light, (4, 4, 4, 4), mode="replicate"), 9, 1)
        amount = torch.rand(count, 1, 1, 1, generator=self._chance) * 2 * self._sometimes(0.3, count)
        return texture + amount * (light - around - 0.01).clamp(min=0)

    def _soft(self, texture: Tensor) -> Tensor:
        """Fewer pixels, at times."""
        side = texture.shape[-1]
        low = int(side * (0.3 + 0.5 * float(torch.rand((), generator=self._chance))))
        small = functional.interpolate(texture, low, mode="area")
        small = functional.interpolate(small, side, mode="bilinear", align_corners=False)
        return texture + self._sometimes(0.25, len(texture)) * (small - texture)

    def _moved(self, texture: Tensor, trust: Tensor) -> tuple[Tensor, Tensor]:
        """The landmarker's error, in texels."""
        count, side = len(texture), texture.shape[-1]
        line = torch.arange(side, dtype=torch.float32)
        y, x = torch.meshgrid(line, line, indexing="ij")
        shift = self._field(count, 6, 0.7, 2) + self._field(count, 3, 0.8, 2)
        at = torch.stack([x, y], 0)[None] + shift
        grid = ((at + 0.5) * (2 / side) - 1).permute(0, 2, 3, 1)
        moved = functional.grid_sample(torch.cat([texture, trust], 1), grid, padding_mode="border", align_corners=False)
        return moved[:, :3], moved[:, 3:]

    # -------------------------------------------------------------------------------------------------- the target

    def _pasted(self, truth: Tensor, other: Tensor, uv: Tensor, mask: Tensor, seen: Tensor, skin: Tensor) -> Tensor:
        """The truth with another person's texture on it, in the truth's light."""
        count = len(truth)
        texture, trust = self._texture[other].float() / 255, self._trust[other].float() / 255
        drawn, trust = _drawn(texture, uv), _drawn(trust, uv)
        weight = mask * seen * skin * trust
        spread = 1 + 3 * float(torch.rand((), generator=self._chance))
        ground, light = _slow(torch.cat([drawn, truth], 1), weight, spread).split(3, 1)
        contrast = ((light.mean(1, keepdim=True) + 0.1) / (ground.mean(1, keepdim=True) + 0.1)) ** 0.4
        drawn = (drawn - ground) * contrast + light
        drawn = drawn * (self._normal(count, 3, 1, 1) * 0.04 + self._field(count, 3, 0.05, 1)).exp()
        drawn = drawn.clamp(0, 1)
        share = (mask ** (0.5 + 1.5 * torch.rand(count, 1, 1, 1, generator=self._chance))) * seen * trust
        return truth + share * (drawn - truth)

    def _covered(self, target: Tensor, truth: Tensor, covered: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Put the same thing in front of both, at times."""
        count = len(target)
        things = self._things(count)
        blob = self._blob(count, target.shape[-1], 0.08, 0.25) * self._sometimes(0.4, count)
        return (
            target + blob * (things - target),
            truth + blob * (things - truth),
            1 - (1 - covered) * (1 - blob),
        )

    def _filmed(self, target: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """One camera and light for both."""
        count = len(target)
        gain = (self._normal(count, 3, 1, 1) * 0.12 + self._field(count, 2, 0.2, 1)) * self._sometimes(0.6, count)
        power = (self._normal(count, 1, 1, 1) * 0.2 * self._sometimes(0.5, count)).exp()
        noise = self._normal(*target.shape) * self._sometimes(0.25, count) * 0.02
        target, truth = (((x * gain.exp()).clamp(0, 1) ** power) for x in (target, truth))
        return (target + noise).clamp(0, 1), truth

    def _told(self, seen: Tensor) -> Tensor:
        """What a masker says of it: much, or nothing."""
        count = len(seen)
        error = self._field(count, 10, 0.15, 1)
        told = ((seen + error - 0.5) * 4 + 0.5).clamp(0, 1)
        return torch.where(self._often(0.3, count)[:, None, None, None], torch.ones_like(told), told)

    def _flipped(self, batch: Batch) -> Batch:
        """Half of the samples as in a mirror; their identity crops follow."""
        flip = self._often(0.5, len(batch.target))
        pick = flip[:, None, None, None]
        images = {
            f.name: torch.where(pick, getattr(batch, f.name).flip(3), getattr(batch, f.name))
            for f in fields(batch)
            if f.name not in ("aligned", "person")
        }
        # x' = (side - 1) - x in the crop, and the identity network's crop mirrored as well.
        turned = batch.aligned.clone()
        turned[:, 0, 2] = IDENTITY_SIDE - 1 - (turned[:, 0, 2] + turned[:, 0, 0] * (self._side - 1))
        turned[:, 1, 2] = turned[:, 1, 2] + turned[:, 1, 0] * (self._side - 1)
        turned[:, 0, 1] *= -1
        turned[:, 1, 0] *= -1
        return Batch(**images, aligned=torch.where(flip[:, None, None], turned, batch.aligned), person=batch.person)

    # --------------------------------------------------------------------------------------------------- randomness

    def _pick(self, count: int) -> Tensor:
        return torch.randint(self._count, (count,), generator=self._chance)

    def _often(self, share: float, count: int) -> Tensor:
        return torch.rand(count, generator=self._chance) < share

    def _sometimes(self, share: float, count: int) -> Tensor:
        return self._often(share, count).float()[:, None, None, None]

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._chance)

    def _field(self, count: int, cells: int, amplitude: float, channels: int = 3) -> Tensor:
        """Smooth noise over a texture or crop."""
        small = self._normal(count, channels, cells, cells) * amplitude
        return functional.interpolate(small, TEXTURE, mode="bicubic", align_corners=False)

    def _blob(self, count: int, side: int, least: float, most: float) -> Tensor:
        """N×1×side×side 0–1, an uneven patch with a rather hard border."""
        line = torch.linspace(0, 1, side)
        centre = torch.rand(count, 2, 1, 1, generator=self._chance)
        width = least + (most - least) * torch.rand(count, 2, 1, 1, generator=self._chance)
        x = (line[None, None, None] - centre[:, :1]) / width[:, :1]
        y = (line[None, None, :, None] - centre[:, 1:]) / width[:, 1:]
        hill = torch.exp(-(x * x) - y * y) + self._field(count, 7, 0.2, 1)
        return ((hill - 0.45) * 8).clamp(0, 1)

    def _things(self, count: int) -> Tensor:
        """What may lie in front of a face: pieces of other photos, moved, or plain colours with some grain."""
        things = self._crop[self._pick(count)].float() / 255
        shift = int(torch.randint(self._side, (), generator=self._chance))
        things = torch.roll(things, (shift, shift // 2), (2, 3))
        plain = torch.rand(count, 3, 1, 1, generator=self._chance) + self._field(count, 32, 0.05, 1)
        return torch.where(self._often(0.35, count)[:, None, None, None], plain.clamp(0, 1), things)


def _image(images: np.ndarray) -> Tensor:  # type: ignore[type-arg]
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _drawn(texture: Tensor, uv: Tensor) -> Tensor:
    return functional.grid_sample(texture, uv * 2 - 1, padding_mode="border", align_corners=True)


def _slow(values: Tensor, weight: Tensor, cells: float) -> Tensor:
    """Weighted mean of the neighbourhood, about `cells` eighths of a crop wide."""
    side = values.shape[-1]
    step = max(2, round(side * cells / 32))
    small = functional.interpolate(torch.cat([values * weight, weight], 1), side // step, mode="area")
    small = functional.avg_pool2d(functional.pad(small, (2, 2, 2, 2), mode="replicate"), 5, 1)
    mean = small.mean((2, 3), keepdim=True)
    total = small + 0.02 * mean + 1e-5
    return functional.interpolate(total[:, :-1] / total[:, -1:], side, mode="bilinear", align_corners=False)


def _mates(faces: Faces) -> dict[int, int]:
    """Photo → another photo of the same person (the studio set's neutral and smiling ones)."""
    people: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(faces.name.tolist()):
        if name.startswith("london/"):
            people[name.split("_")[0]].append(index)
    return {a: b for pair in people.values() if len(pair) == 2 for a, b in (pair, pair[::-1])}
