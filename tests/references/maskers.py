"""Maskers: crops in, probabilities of classes out."""

from __future__ import annotations

import numpy as np

from tests.references.base import HALF, IMAGENET, Array, File, planes

SIZES = {
    "occluder": 160, "skin_hair": 512, "xseg_1": 256, "xseg_2": 256, "xseg_3": 256,
    "bisenet_resnet_18": 512, "bisenet_resnet_34": 512,
}  # fmt: skip
MARGINS = {
    "occluder": 1.3, "skin_hair": 1.6, **dict.fromkeys(("xseg_1", "xseg_2", "xseg_3"), 1.3),
    **dict.fromkeys(("bisenet_resnet_18", "bisenet_resnet_34"), 1.5),
}  # fmt: skip
"""Side of the crop over the extent of the face's mesh."""

# CelebAMask-HQ's order, as the BiSeNet face parsers number it.
PARTS = (
    "background", "skin", "left_brow", "right_brow", "left_eye", "right_eye", "glasses", "left_ear", "right_ear",
    "earring", "nose", "mouth", "upper_lip", "lower_lip", "neck", "necklace", "cloth", "hair", "hat",
)  # fmt: skip


GROUPS = {
    "skin": ("skin", "left_brow", "right_brow", "left_eye", "right_eye", "left_ear", "right_ear", "nose", "mouth",
             "upper_lip", "lower_lip", "neck"),
    "clothes": ("necklace", "cloth"),
    "hair": ("hair",),
    "occluder": ("glasses", "hat"),
}  # fmt: skip
CLASSES = {
    "occluder": ("occluder",), "skin_hair": ("skin", "clothes", "hair"),
    **dict.fromkeys(("xseg_1", "xseg_2", "xseg_3"), ("occluder",)),
    **dict.fromkeys(("bisenet_resnet_18", "bisenet_resnet_34"), tuple(GROUPS)),
}  # fmt: skip


def mask(name: str, file: File, crop: Array) -> Array:
    """One RGB crop → H×W×K in the order of `CLASSES`.

    XSeg tells what is seen of the face, so what covers it is the rest; of BiSeNet's 19 parts the likeliest one counts.
    """
    if name.startswith("xseg"):
        (out,) = file(crop[None, :, :, ::-1].astype(np.float32) / np.float32(255))
        return np.asarray(1 - np.clip(out[0], 0, 1))
    if name.startswith("bisenet"):
        (out,) = file(planes(crop, *IMAGENET))
        best = np.array(PARTS)[out[0].argmax(0)]
        return np.stack([np.isin(best, GROUPS[group]) for group in CLASSES[name]], 2).astype(np.float32)
    (out,) = file(planes(crop, *(HALF if name == "occluder" else IMAGENET)))
    return np.asarray(out[0].transpose(1, 2, 0))
