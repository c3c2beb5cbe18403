"""What must NOT be taken for an occluder: light, shadow, make-up, colour, blur, noise, few pixels."""

from __future__ import annotations

import cv2
import numpy as np

from mien.mesh import EYES, LIPS
from training.occluder.canvas import blur, filled, noise, smooth, stroked
from training.occluder.crops import SIZE, Array

Rng = np.random.Generator


def shadows(rng: Rng, image: Array) -> Array:
    """Cast shadows and patches of light with hard or soft edges."""
    for _ in range(int(rng.integers(1, 4))):
        kind = rng.integers(4)
        if kind == 0:
            corners = rng.uniform(-40, SIZE + 40, (int(rng.integers(3, 6)), 2))
            mask = filled(corners)
        elif kind == 1:
            angle, period = rng.uniform(0, np.pi), rng.uniform(12, 60)
            rows, columns = np.mgrid[:SIZE, :SIZE]
            mask = ((columns * np.cos(angle) + rows * np.sin(angle)) % period < period * rng.uniform(0.1, 0.6)).astype(
                np.float32
            )
        elif kind == 2:
            mask = (noise(rng, rng.uniform(15, 60)) > rng.normal(0, 0.5)).astype(np.float32)
        else:
            line = rng.uniform(0, SIZE, (2, 2))
            mask = stroked([line[0] + np.array([[-2], [0], [2]]) * (line[1] - line[0])], [rng.uniform(1, 14)])
        mask = blur(mask, rng.choice([0.6, 1.2, 3, 8]))[..., None]
        tint = rng.uniform(0.85, 1.15, 3).astype(np.float32)
        gain = rng.uniform(0.25, 0.85) if rng.random() < 0.7 else rng.uniform(1.15, 2.0)
        image = image * (1 - mask + mask * gain * tint)
    return np.clip(image, 0, 1).astype(np.float32)


def shine(rng: Rng, image: Array) -> Array:
    """Highlights, lens flare and haze."""
    spots = np.clip(noise(rng, rng.uniform(8, 50)) - rng.uniform(0.5, 1.5), 0, 1) * rng.uniform(0.1, 0.7)
    return np.clip(image + spots[..., None] * rng.uniform(0.7, 1, 3), 0, 1).astype(np.float32)


def make_up(rng: Rng, image: Array, mesh: Array) -> Array:
    """Lipstick, eyeshadow, blush, freckles, moles and drawn lines, all of them on the skin."""
    points = mesh[:, :2]
    if rng.random() < 0.5:
        lips = blur(filled(points[list(LIPS)]), 0.7)[..., None] * rng.uniform(0.2, 0.8)
        image = image * (1 - lips) + lips * image.mean(2, keepdims=True) * rng.uniform(0.2, 2.2, 3)
    if rng.random() < 0.4:
        colour, strength = rng.uniform(0, 1, 3), rng.uniform(0.1, 0.6)
        for eye in EYES:
            rim = points[list(eye)]
            grown = rim.mean(0) + (rim - rim.mean(0)) * np.array([rng.uniform(1.1, 1.5), rng.uniform(1.6, 3.2)])
            shade = blur(filled(smooth(grown)), rng.uniform(1, 3))[..., None] * strength
            image = image * (1 - shade) + shade * image * colour * 1.5
    if rng.random() < 0.4:
        spots = points[rng.integers(0, 468, int(rng.integers(3, 60)))] + rng.normal(0, 3, 2)
        dots = stroked([np.stack([p, p + 0.1]) for p in spots], rng.uniform(0.4, 1.6, len(spots)).tolist())[..., None]
        image = image * (1 - dots * rng.uniform(0.1, 0.5))
    return np.clip(image, 0, 1).astype(np.float32)


def colours(rng: Rng, image: Array) -> Array:
    """Exposure, contrast, colour cast, saturation, grey and coloured light."""
    image = image ** rng.uniform(0.7, 1.45) * rng.uniform(0.7, 1.2)
    image = image * rng.uniform(0.85, 1.15, 3)
    grey = image.mean(2, keepdims=True)
    draw = rng.random()
    if draw < 0.1:
        image = np.repeat(grey, 3, 2) * (rng.uniform(0.85, 1.1, 3) if rng.random() < 0.3 else 1)
    elif draw < 0.14:
        image = grey * rng.uniform(0.0, 1.5, 3) + 0.2 * image
    elif draw < 0.18:
        side = np.clip(0.5 + noise(rng, 120), 0, 1)[..., None]
        image = image * (side * rng.uniform(0.1, 1.5, 3) + (1 - side) * rng.uniform(0.1, 1.5, 3))
    else:
        image = grey + (image - grey) * rng.uniform(0.5, 1.4)
    if rng.random() < 0.3:
        low = rng.uniform(0, 0.12)
        image = low + image * (1 - low)
    return np.clip(image, 0, 1).astype(np.float32)


def degrade(rng: Rng, image: Array) -> Array:
    """Few pixels, blur, noise and JPEG."""
    draw = rng.random()
    if draw < 0.25:
        side = int(SIZE * rng.uniform(0.33, 0.95))
        image = cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)
        if rng.random() < 0.4:
            image = image + rng.normal(0, rng.uniform(0, 0.04), image.shape)
        way = cv2.INTER_CUBIC if rng.random() < 0.5 else cv2.INTER_LINEAR
        image = cv2.resize(image.astype(np.float32), (SIZE, SIZE), interpolation=way)
    elif draw < 0.38:
        image = blur(image, rng.uniform(0.4, 1.6))
    elif draw < 0.43:
        length = int(rng.integers(3, 9))
        kernel = cv2.warpAffine(
            np.eye(length, dtype=np.float32),
            cv2.getRotationMatrix2D((length / 2 - 0.5, length / 2 - 0.5), rng.uniform(0, 180), 1),
            (length, length),
        )
        image = cv2.filter2D(image, -1, np.asarray(kernel / max(float(kernel.sum()), 0.1), np.float32))
    elif draw < 0.5:
        image = image + rng.uniform(0.3, 1) * (image - blur(image, 1.2))
    if rng.random() < 0.25:
        image = image + rng.normal(0, rng.uniform(0.005, 0.05), image.shape)
    pixels = np.clip(image * 255 + 0.5, 0, 255).astype(np.uint8)
    if rng.random() < 0.35:
        data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(25, 95))])[1]
        pixels = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))
    return np.asarray(pixels, np.uint8)
