"""The network: a small U-Net whose stem and head work at half the crop's resolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (16, 24, 48, 80)
"""Channels at 1/2, 1/4, 1/8 and 1/16 of the crop."""


def conv(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU: the norm folds into the convolution on export."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class Residual(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(width, width), nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        )
        nn.init.zeros_(self.body[2].weight)  # begins as its shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.relu(x + self.body(x))


class Surround(nn.Module):
    """Tells every pixel what the whole crop looks like: colour of the skin, light, blur."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        seen: Tensor = self.mix(x.mean((2, 3)))
        return x + seen[:, :, None, None]


class Occluder(nn.Module):
    """N×3×S×S in −1…1 (S a multiple of 16) → N×1×S×S logits."""

    def __init__(self, widths: tuple[int, int, int, int] = WIDTHS) -> None:
        super().__init__()
        a, b, c, d = widths
        self.stem = conv(3, a, 5, 2)
        self.down1 = nn.Sequential(conv(a, b, 3, 2), Residual(b))
        self.down2 = nn.Sequential(conv(b, c, 3, 2), Residual(c))
        self.down3 = nn.Sequential(conv(c, d, 3, 2), Residual(d), Surround(d), Residual(d))
        self.up3 = nn.Sequential(conv(d + c, c, 3), Residual(c))
        self.up2 = nn.Sequential(conv(c + b, b, 3), conv(b, b))
        self.up1 = nn.Sequential(conv(b + a, a, 3), conv(a, a))
        self.head = nn.Conv2d(a, 4, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of being covered."""
        half = self.stem(x)
        quarter = self.down1(half)
        eighth = self.down2(quarter)
        x = self.up3(torch.cat([_double(self.down3(eighth)), eighth], 1))
        x = self.up2(torch.cat([_double(x), quarter], 1))
        x = self.up1(torch.cat([_double(x), half], 1))
        logits: Tensor = functional.pixel_shuffle(self.head(x), 2)
        return logits


def _double(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")
