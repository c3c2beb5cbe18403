"""Composites with exact labels: a photo, occluders in front of it, light over all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from mien.mesh import SURFACE, topology
from training.occluder import cloth, glasses, hair, hands, labels, light, things
from training.occluder.canvas import Layer, blur
from training.occluder.crops import MASKS, SIZE, STORED, Array, Crops
from training.occluder.textures import Textures, cut

Rng = np.random.Generator
Maker = Callable[[Rng, Array, Textures], list[Layer]]
MAKERS: tuple[tuple[float, str, Maker | None], ...] = (
    (0.28, "glasses", glasses.glasses),
    (0.21, "hand", None),
    (0.08, "mask", cloth.face_mask),
    (0.04, "scarf", cloth.scarf),
    (0.06, "hat", cloth.hat),
    (0.04, "hood", cloth.hood),
    (0.09, "fringe", hair.fringe),
    (0.04, "sides", hair.sides),
    (0.05, "strays", hair.strays),
    (0.02, "braid", hair.braid),
    (0.03, "microphone", things.microphone),
    (0.03, "box", things.box),
    (0.02, "stick", things.stick),
    (0.03, "blob", things.blob),
    (0.01, "jewellery", things.jewellery),
)
"""Share, name and maker; a hand also needs the photo's colours."""
REAL = 0.2
"""Share of photos with real occluders in the second round."""
HELD_OUT = 20
"""Every 20th photo is never trained on, neither as a face nor as a material."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One training example."""

    image: Array
    """SIZE×SIZE×3 RGB."""
    label: Array
    """SIZE×SIZE, 0–1."""
    weight: Array
    """SIZE×SIZE."""
    kind: str


def mirror_points() -> Array:
    """(478,) index of each point's mirror image."""
    irises = [473, 474, 475, 476, 477, 468, 469, 470, 471, 472]
    return np.concatenate([topology().mirror, irises])


class Composer:
    """Makes samples from stored crops; deterministic for a seed."""

    def __init__(self, crops: Crops, held_out: bool, relabelled: dict[str, tuple[Array, Array]] | None = None) -> None:
        relabelled = relabelled or {}
        lists = labels.known()
        real = lists["glasses"] | lists["sunglasses"] | lists["others"]
        every = np.arange(len(crops.names))
        part = every[(every % HELD_OUT == 0) == held_out]
        clean = [i for i in part.tolist() if crops.names[i] not in real | lists["test"]]
        self._crops = crops
        self._labels = {
            i: labels.hair_label(crops.meshes[i], crops.masks[i], crops.names[i] in lists["hats"]) for i in clean
        }
        self._real = [i for i in part.tolist() if crops.names[i] in relabelled and crops.names[i] not in lists["test"]]
        for i in self._real:
            self._labels[i] = relabelled[crops.names[i]]
        self._clean = clean
        self.textures = cut(crops, np.array(clean))
        self._mirror = mirror_points()
        self._shares = np.array([share for share, _, _ in MAKERS]) / sum(share for share, _, _ in MAKERS)

    def samples(self, seed: int, kind: str | None = None) -> Iterator[Sample]:
        """Endless samples; all of one kind if it is given ("none": without occluder)."""
        rng = np.random.default_rng(seed)
        while True:
            yield self.sample(rng, kind)

    def sample(self, rng: Rng, kind: str | None = None) -> Sample:
        """One sample."""
        real = kind is None and self._real and rng.random() < REAL
        index = int(rng.choice(self._real if real else self._clean))
        image, mesh, label, weight = self._base(rng, index)
        if rng.random() < 0.25:
            image = light.make_up(rng, image, mesh)
        if rng.random() < 0.12:
            image = light.shadows(rng, image)
        chosen = self._choose(rng, kind, bool(real))
        layers = [layer for name in chosen for layer in self._layers(rng, name, image, mesh)]
        for layer in layers:
            image = _in_front(image, layer)
            cover = layer.alpha if layer.cover is None else layer.cover
            label = 1 - (1 - label) * (1 - cover)
            near = (weight > 0) | (cover > 0.02)
            own = np.where(cover > 0.02, layer.weight, weight)
            weight = np.where(near & (self._grown > 0), np.maximum(weight, own), weight)
        if rng.random() < 0.14:
            image = light.shadows(rng, image)
        if rng.random() < 0.14:
            image = light.shine(rng, image)
        image = light.colours(rng, image) if rng.random() < 0.65 else image
        return Sample(
            light.degrade(rng, image), label.astype(np.float32), weight.astype(np.float32), "+".join(chosen) or "none"
        )

    def _choose(self, rng: Rng, kind: str | None, real: bool) -> list[str]:
        if kind is not None:
            return [] if kind == "none" else [kind]
        count = rng.choice(3, p=[0.8, 0.2, 0.0] if real else [0.16, 0.64, 0.2])
        return [MAKERS[i][1] for i in rng.choice(len(MAKERS), count, replace=False, p=self._shares)]

    def _layers(self, rng: Rng, name: str, image: Array, mesh: Array) -> list[Layer]:
        maker = next(make for _, known, make in MAKERS if known == name)
        return hands.hand(rng, image, mesh, self.textures) if maker is None else maker(rng, mesh, self.textures)

    def _base(self, rng: Rng, index: int) -> tuple[Array, Array, Array, Array]:
        """Image, mesh, label and weight of a photo, slightly turned, zoomed, shifted, perhaps mirrored."""
        turn, zoom = np.radians(rng.normal(0, 6)), rng.uniform(0.88, 1.1)
        cos, sin = zoom * np.cos(turn), zoom * np.sin(turn)
        linear = np.array([[cos, -sin], [sin, cos]])
        if rng.random() < 0.5:
            linear = linear @ np.diag([-1, 1])
            flip = True
        else:
            flip = False
        middle = np.array([(STORED - 1) / 2] * 2)
        shift = np.array([(SIZE - 1) / 2] * 2) + rng.normal(0, 3, 2) - linear @ middle
        matrix = np.c_[linear, shift].astype(np.float32)
        image = cv2.warpAffine(
            self._crops.images[index], matrix, (SIZE, SIZE), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        coarse = matrix @ np.diag([STORED / MASKS, STORED / MASKS, 1]).astype(np.float32)
        label, weight = (
            cv2.warpAffine(part, coarse, (SIZE, SIZE), flags=cv2.INTER_LINEAR).astype(np.float32) / 255
            for part in self._labels[index]
        )
        mesh = self._crops.meshes[index]
        mesh = np.c_[mesh[:, :2] @ linear.T + shift, mesh[:, 2] * zoom].astype(np.float32)
        mesh = mesh[self._mirror] if flip else mesh
        self._grown = self._silhouette(mesh)
        return image.astype(np.float32) / 255, mesh, label, weight

    @staticmethod
    def _silhouette(mesh: Array) -> Array:
        points = cv2.convexHull(np.round(mesh[:SURFACE, :2]).astype(np.int32))
        mask = np.zeros((SIZE, SIZE), np.uint8)
        cv2.fillConvexPoly(mask, points, 1)
        grow = 2 * round(labels.BORDER * STORED / MASKS) + 1
        return cv2.dilate(mask, np.ones((grow, grow), np.uint8))


def _in_front(image: Array, layer: Layer) -> Array:
    if layer.shadow > 0:
        offset = np.array([[1, 0, layer.lift * 0.4], [0, 1, layer.lift]], np.float32)
        dark = cv2.warpAffine(blur(layer.alpha, layer.lift), offset, (SIZE, SIZE), borderMode=cv2.BORDER_REPLICATE)
        image = image * (1 - layer.shadow * dark[..., None])
    alpha = layer.alpha[..., None]
    return np.asarray(image * (1 - alpha) + layer.rgb * alpha, np.float32)
