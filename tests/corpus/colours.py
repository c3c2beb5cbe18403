"""Colours worked out by hand: PQ and HLG from and to ordinary pictures, and a Display-P3 profile."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import ImageCms

from tests.corpus.scene import Array, Pixels

Floats = npt.NDArray[np.float64]
WHITE = 203.0
"""Nits of an ordinary picture's white within an HDR one (ITU-R BT.2408)."""
_TO_2020 = np.array([[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]])
_M1, _M2, _C1, _C2, _C3 = 2610 / 16384, 2523 / 4096 * 128, 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
_A, _B, _C = 0.17883277, 0.28466892, 0.55991073
PQ, HLG = 16, 18


def to_hdr(rgb: Pixels, transfer: int) -> npt.NDArray[np.uint16]:
    """8-bit BT.709 (gamma 2.4) → 16-bit BT.2020 in PQ or HLG, the same colours."""
    light = np.clip((rgb / 255.0) ** 2.4 @ _TO_2020.T, 0, 1) * WHITE
    return np.rint(65535 * (_pq(light) if transfer == PQ else _hlg(light))).astype(np.uint16)


def to_sdr(rgb: Array, transfer: int) -> Pixels:
    """The way back."""
    code = rgb / 65535.0
    light = (_pq_back(code) if transfer == PQ else _hlg_back(code)) / WHITE
    return np.rint(255 * np.clip(light @ np.linalg.inv(_TO_2020).T, 0, 1) ** (1 / 2.4)).astype(np.uint8)


def _pq(nits: Floats) -> Floats:
    y = (nits / 10_000) ** _M1
    return np.asarray(((_C1 + _C2 * y) / (1 + _C3 * y)) ** _M2)


def _pq_back(code: Floats) -> Floats:
    x = code ** (1 / _M2)
    return np.asarray(10_000 * (np.maximum(x - _C1, 0) / (_C2 - _C3 * x)) ** (1 / _M1))


def _luma(rgb: Floats) -> Floats:
    return np.asarray(rgb @ [0.2627, 0.6780, 0.0593])[..., None]


def _hlg(nits: Floats) -> Floats:
    """On a display of 1,000 nits, whose system gamma is 1.2."""
    display = nits / 1000
    scene = display * np.maximum(_luma(display), 1e-9) ** (1 / 1.2 - 1)
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), _A * np.log(np.maximum(12 * scene - _B, 1e-9)) + _C)


def _hlg_back(code: Floats) -> Floats:
    scene = np.where(code <= 0.5, code**2 / 3, (np.exp((code - _C) / _A) + _B) / 12)
    return np.asarray(1000 * scene * np.maximum(_luma(scene), 1e-9) ** 0.2)


@cache
def display_p3() -> bytes:
    """An ICC profile: that of sRGB with the primaries of Display P3."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    wanted = {
        b"rXYZ": (0.51512, 0.24120, -0.00105),
        b"gXYZ": (0.29198, 0.69225, 0.04189),
        b"bXYZ": (0.15710, 0.06657, 0.78407),
    }
    (count,) = struct.unpack_from(">I", data, 128)
    for tag in range(count):
        name, at, _ = struct.unpack_from(">4sII", data, 132 + 12 * tag)
        if name in wanted:
            struct.pack_into(">3i", data, at + 8, *(round(value * 65536) for value in wanted[name]))
    return bytes(data)
