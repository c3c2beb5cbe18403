"""The network: a small residual network that looks at a face and its surroundings at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = (16, 32, 48, 72)
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
        norm = nn.BatchNorm2d(width)
        nn.init.zeros_(norm.weight)  # begins as its shortcut
        self.body = nn.Sequential(conv(width, width), nn.Conv2d(width, width, 3, 1, 1, bias=False), norm)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return functional.relu(x + self.body(x))


class Naturalness(nn.Module):
    """N×3×S×S RGB 0–1 (S a multiple of 16) → N×1 logits, higher for swapped."""

    def __init__(self, widths: tuple[int, int, int, int] = WIDTHS) -> None:
        super().__init__()
        a, b, c, d = widths
        self.body = nn.Sequential(
            conv(3, a, 5, 2),
            conv(a, b, 3, 2), Residual(b),
            conv(b, c, 3, 2), Residual(c), Residual(c),
            conv(c, d, 3, 2), Residual(d),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * d, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Logits from the mean and the largest of each feature: faults are often small."""
        features = self.body(2 * x - 1)
        logits: Tensor = self.head(torch.cat([features.mean((2, 3)), features.amax((2, 3))], 1))
        return logits
