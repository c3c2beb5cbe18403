"""The network: from a target's crop and the source's texture drawn on it to smooth maps that blend the two.

It predicts maps, not pixels: a gain, a bias, a small displacement, and how far the texture is trusted. So the result is
as sharp as the texture at any size. The light of the target is estimated first, by an arithmetic that is part of the
graph: what the network says is what is left to mend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.fusion import SIDE

WIDTHS = (32, 56, 96, 144)
"""Channels at 1/2, 1/4, 1/8 and 1/16 of the crop."""
GAIN, BIAS = 0.3, 0.25
"""Bounds of what the network adds to the logarithm of the contrast, and to the brightness. Unbounded exponentials went
to NaN."""
CONTRAST = (0.8, 1.2)
"""Bounds of the contrast that follows from the light alone."""
FLOW = 2.5
"""Bound of the displacement, in pixels of the crop: what a landmarker errs, and a little of a face's shape."""
HELD = 0.5
"""How much less of the correction of brightness is used well inside the face than was learnt. It follows the target's
shading into the relief of the face, which is where recognition networks see who it is; at the rim all of it is used."""
MOVED = 0.15
"""Share of the learnt displacement that is used. The teacher likes features moved to where the source has them; but
how a mouth or a brow is drawn up is the target's expression, and more than a little of it changes that."""
COARSE, SPREAD = 16, 2.2
"""Side of the grid on which the light is estimated, and the Gaussian's width in its cells."""
RIM = 0.7
"""Width of the Gaussian in such cells that softens the border between the rim and the inside of a face."""


@dataclass(frozen=True, slots=True)
class Maps:
    """What the network says; each N×C×SIDE×SIDE."""

    gain: Tensor
    """Three: logarithm of what the texture's colours are multiplied by."""
    bias: Tensor
    """Three: what is added to them then."""
    trust: Tensor
    """0–1: the texture's share; the rest is the target's."""
    flow: Tensor
    """Two, pixels right and down: where the texture that belongs here was drawn, from here."""


def blend(target: Tensor, drawn: Tensor, maps: Maps) -> Tensor:
    """The result at the size of the maps."""
    lit = (displaced(drawn, maps.flow) * maps.gain.exp() + maps.bias).clamp(0, 1)
    return target + maps.trust * (lit - target)


def displaced(images: Tensor, flow: Tensor) -> Tensor:
    """Each pixel from where `flow` says."""
    side = images.shape[-1]
    line = torch.arange(side, dtype=torch.float32)
    y, x = torch.meshgrid(line, line, indexing="ij")
    at = torch.stack([x, y])[None] + flow
    grid = ((at + 0.5) * (2 / side) - 1).permute(0, 2, 3, 1)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def conv(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution and ReLU. No norm: the colours themselves matter."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """Two 3×3 convolutions around a shortcut; begins as the shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(width, width), nn.Conv2d(width, width, 3, 1, 1))
        nn.init.zeros_(self.body[1].weight)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.relu(x + self.body(x))


class Surround(nn.Module):
    """Tells every place what the whole crop looks like."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, width))
        nn.init.zeros_(self.mix[2].weight)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        seen: Tensor = self.mix(x.mean((2, 3)))
        return x + seen[:, :, None, None]


class SwapGAN(nn.Module):
    """U-Net on the halved crop.

    Inputs, each N×C×SIDE×SIDE: `target` and `drawn` RGB 0–1; `mask` (1), 0 outside of the mesh and in an open mouth;
    `seen` (1), 0 where a masker found something in front of the face; `trust` (1) of the texture; `skin` (1), plain
    skin by the atlas.

    Args:
        held: share of the correction of brightness that is left out well inside the face: none in training.
        moved: share of the displacement that is used: all in training.
    """

    def __init__(self, widths: tuple[int, int, int, int] = WIDTHS, held: float = 0.0, moved: float = 1.0) -> None:
        super().__init__()
        self.held, self.moved = held, moved
        a, b, c, d = widths
        self.stem = conv(4 * 13, a)
        self.down1 = nn.Sequential(conv(a, b, 3, 2), Residual(b))
        self.down2 = nn.Sequential(conv(b, c, 3, 2), Residual(c))
        self.down3 = nn.Sequential(conv(c, d, 3, 2), Residual(d), Surround(d), Residual(d))
        self.up3, self.mix3 = nn.Conv2d(d, c, 1), Residual(c)
        self.up2, self.mix2 = nn.Conv2d(c, b, 1), Residual(b)
        self.up1, self.mix1 = nn.Conv2d(b, a, 1), conv(a, a)
        self.head = nn.Conv2d(a, 4 * 7, 3, 1, 1)
        self.move = nn.Conv2d(b, 2, 3, 1, 1)
        for last in (self.head, self.move):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        with torch.no_grad():
            self.head.bias[4 * 6 :] = 3.0  # trust begins near 1
        self.register_buffer("kernel", _gaussian(SPREAD), persistent=False)
        self.register_buffer("edge", _gaussian(RIM), persistent=False)

    def light(self, target: Tensor, drawn: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Slow colours of the texture and of the target, N×3×SIDE×SIDE each, and the contrast between them, N×1.

        Normalised convolution over plain skin that both show. What is quick is added, not multiplied: shine on dark
        skin made pale would glare, and pale skin made dark go flat; so contrast follows only a part of the way.
        """
        step = target.shape[-1] // COARSE
        sums = functional.avg_pool2d(torch.cat([drawn * weight, target * weight, weight], 1), step)
        total = blurred(sums, 7, self.kernel) + 0.02 * sums.mean((2, 3), keepdim=True)
        slow = total[:, :6] / (total[:, 6:] + 1e-5)
        ground, light = slow[:, :3], slow[:, 3:]
        contrast = ((light.mean(1, keepdim=True) + 0.1) / (ground.mean(1, keepdim=True) + 0.1)).sqrt().clamp(*CONTRAST)
        found = functional.interpolate(
            torch.cat([slow, contrast], 1), scale_factor=float(step), mode="bilinear", align_corners=False
        )
        return found[:, :3], found[:, 3:6], found[:, 6:]

    def _inner(self, mask: Tensor) -> Tensor:
        """N×1×SIDE×SIDE: 0 at the rim of the face, rising to 1 within a tenth of it."""
        step = mask.shape[-1] // COARSE
        full = functional.avg_pool2d(((mask - 0.85) * 10).clamp(0, 1), step)
        inner = functional.interpolate(
            blurred(full, 1, self.edge), scale_factor=float(step), mode="bilinear", align_corners=False
        )
        return inner * inner

    def forward(self, target: Tensor, drawn: Tensor, mask: Tensor, seen: Tensor, trust: Tensor, skin: Tensor) -> Maps:
        """See the class."""
        weight = mask * seen * trust * skin
        ground, light, contrast = self.light(target, drawn, weight)
        lit = ((drawn - ground) * contrast + light).clamp(0, 1)
        x = torch.cat([target - 0.5, lit - 0.5, light - ground, mask, seen, trust, skin], 1)
        full = functional.pixel_unshuffle(x, 2)
        x1 = self.stem(full)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        y = self.down3(x3)
        y = self.mix3(x3 + _up(self.up3(y)))
        y = self.mix2(x2 + _up(self.up2(y)))
        # Displacements are smooth: a quarter of the crop's grid is enough.
        flow = self.moved * FLOW * torch.tanh(_up(_up(self.move(y))) / FLOW)
        y = self.mix1(x1 + _up(self.up1(y)))
        said = functional.pixel_shuffle(self.head(y), 2)
        gain = contrast.log() + GAIN * torch.tanh(said[:, :3] / GAIN)
        mended = BIAS * torch.tanh(said[:, 3:6] / BIAS)
        if self.held:
            mended = mended * (1 - self.held * self._inner(mask))
        bias = light - ground * gain.exp() + mended
        return Maps(gain, bias, torch.sigmoid(said[:, 6:]) * mask, flow)


def blurred(images: Tensor, count: int, kernel: Tensor) -> Tensor:
    """N×count×H×W, each channel by a (K,) kernel across and down."""
    reach = kernel.shape[0] // 2
    rows = kernel.reshape(1, 1, -1, 1).repeat(count, 1, 1, 1)
    columns = kernel.reshape(1, 1, 1, -1).repeat(count, 1, 1, 1)
    images = functional.conv2d(images, rows, padding=(reach, 0), groups=count)
    return functional.conv2d(images, columns, padding=(0, reach), groups=count)


def _up(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


def _gaussian(sigma: float) -> Tensor:
    reach = math.ceil(3 * sigma)
    kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)
    return kernel / kernel.sum()


assert SIDE % (COARSE * 2) == 0
