"""PIPNet: 98 points (WFLW layout) from coarse score maps, offsets and votes of neighbours.

Jin et al., "Pixel-in-Pixel Net: Towards Efficient Facial Landmark Detection in the Wild", 2021. Each cell of an 8 × 8
grid holds a point's score, its offset, and the offsets of its 10 nearest points. No licence is stated for the weights;
they were trained on WFLW, which is for research.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from mien.runtime.session import Where
from mien.types import ByteArray, FloatArray
from mien.zoo.cards import ModelCard, Weights
from mien.zoo.registry import register
from mien.zoo.tensors import IMAGENET_MEAN, IMAGENET_STD, Network, to_nchw

CELLS, STRIDE, NEIGHBOURS = 8, 32, 10
MEAN_FACE = (
    (7960, 39216), (8315, 43510), (8676, 47810), (9142, 52104), (9840, 56375), (10871, 60604), (12315, 64753),
    (14242, 68772), (16706, 72596), (19694, 76173), (23132, 79482), (26917, 82533), (30994, 85333), (35352, 87825),
    (40089, 89841), (45293, 91122), (50786, 91467), (56165, 90943), (61192, 89505), (65746, 87381), (69948, 84827),
    (73881, 81988), (77516, 78899), (80788, 75555), (83611, 71955), (85921, 68128), (87712, 64122), (89025, 59997),
    (89930, 55800), (90501, 51565), (90834, 47313), (91049, 43054), (91248, 38798), (18466, 35063), (24110, 31190),
    (30032, 30828), (36031, 31356), (41711, 32433), (41684, 35267), (36011, 34397), (30009, 33890), (24116, 34066),
    (57097, 32141), (63057, 30973), (68952, 30365), (74886, 30691), (80305, 34352), (74851, 33488), (68930, 33403),
    (63048, 34038), (57100, 34988), (49542, 40202), (49605, 45929), (49644, 51629), (49812, 57033), (40749, 59836),
    (45374, 60572), (50073, 61167), (54485, 60441), (58821, 59617), (24303, 40721), (27772, 39072), (31848, 38417),
    (36218, 39008), (39653, 41071), (35868, 42037), (31848, 42377), (27895, 41943), (59385, 40906), (63036, 38645),
    (67748, 38093), (71509, 38752), (74752, 40252), (71552, 41460), (68005, 42004), (63591, 41804), (33916, 69686),
    (40009, 67581), (47182, 66789), (50254, 66829), (53377, 66719), (60159, 67425), (65871, 69322), (61928, 72831),
    (56659, 75502), (50313, 76483), (43710, 75725), (38149, 73206), (35130, 69868), (42480, 69128), (50277, 69111),
    (57700, 68963), (64714, 69490), (57999, 71853), (50249, 72854), (42181, 72091), (32198, 40376), (67511, 40023),
)  # fmt: skip
"""The 98 points of the mean face of WFLW in 1/100000 of the crop; which points are neighbours follows from it."""


@register(
    ModelCard(
        name="pipnet_98",
        task="landmarker",
        licence="LicenseRef-PIPNet-not-stated",
        commercial=False,
        origin="https://github.com/jhb86253817/PIPNet; converted, in https://github.com/DefTruth/lite.ai.toolkit",
        weights=Weights("pipnet_resnet18_10x98x32x256_wflw.onnx", bundled=False),
    )
)
class PipNet98:
    """Landmarker; it was trained on boxes without their upper tenth."""

    card: ModelCard
    size = 256
    points = 98
    crop: Literal["mesh", "bbox"] = "bbox"
    margin = 1.0
    shift = 0.1

    def __init__(self, where: Where = "auto", file: Path | bytes | None = None) -> None:
        maps = [("n", 98 * times, CELLS, CELLS) for times in (1, 1, 1, NEIGHBOURS, NEIGHBOURS)]
        self._network = Network(self.card, where, file, [("n", 3, 256, 256)], maps)

    def __call__(self, crops: ByteArray) -> tuple[FloatArray, FloatArray]:
        """N×256×256×3 RGB uint8 → (N×98×2 crop pixels, N scores: the mean of the maps' maxima)."""
        return decode(self._network(to_nchw(crops, IMAGENET_MEAN, IMAGENET_STD)))


def decode(maps: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """(N, 98, 2) crop pixels and (N,) scores 0–1 of the maps: score, x, y, neighbours' x, neighbours' y.

    A point lies at the mean of where it sees itself and of the votes of the points that have it for a neighbour.
    """
    score, *offsets = (np.reshape(each, (len(each), 98, -1, CELLS * CELLS)) for each in maps)
    best = score.argmax(3)[..., None]
    x, y, near_x, near_y = (np.take_along_axis(each, best, 3)[..., 0] for each in offsets)
    column, row = best[..., 0] % CELLS, best[..., 0] // CELLS
    merged = [
        np.concatenate([own + cell, (near + cell).reshape(len(best), -1)[:, votes_of_neighbours()]], 2).mean(2)
        for own, near, cell in ((x, near_x, column), (y, near_y, row))
    ]
    points = np.stack(merged, 2) * STRIDE
    return points.astype(np.float32), np.clip(score.max(3)[..., 0].mean(1), 0, 1).astype(np.float32)


@cache
def votes_of_neighbours() -> npt.NDArray[np.intp]:
    """(98, 17) the maps, of 98 × 10 of neighbours, that tell of a point.

    As in the authors' code, all points have as many votes as the one with the most: those of others are counted again
    from the first on.
    """
    mean = np.array(MEAN_FACE, np.float64)
    apart = ((mean[:, None] - mean[None]) ** 2).sum(2)
    nearest = np.argsort(apart, 1, kind="stable")[:, 1 : 1 + NEIGHBOURS].ravel()
    told_by = [np.flatnonzero(nearest == point) for point in range(len(mean))]
    most = max(map(len, told_by))
    votes = np.stack([np.resize(maps, most) for maps in told_by])
    votes.setflags(write=False)
    return votes
