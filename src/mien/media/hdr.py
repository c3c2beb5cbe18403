"""High dynamic range (PQ and HLG, ITU-R BT.2100) to ordinary RGB for networks, and back without loss.

Light is counted in units of an ordinary picture's white, 203 nits (BT.2408). Up to `KNEE` of it nothing is
changed but primaries (BT.2020 to BT.709) and gamma (2.4); from there to the brightest that the signal can
tell, a soft shoulder keeps highlights apart. Every step has an inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import cv2
import numpy as np

from mien.types import FloatArray

PQ, HLG = 16, 18
"""H.273 codes of the transfer functions."""
WHITE = 203.0
"""Nits of an ordinary picture's white within an HDR one."""
KNEE = 0.7
"""Light, in units of white, from which the shoulder bends."""
_BT2020 = 9
_PEAK = MappingProxyType({PQ: 10_000 / WHITE, HLG: 1_000 / WHITE})
"""Light of the highest code; HLG as on the display of 1,000 nits that BT.2100 refers to."""
_GAMMA = 2.4
_SYSTEM_GAMMA = 1.2
_TINY = 1e-9
_SHARPNESS = np.float32(32)  # per unit of change, as in `planes`
_M1, _M2, _C1, _C2, _C3 = 2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128
_A, _B, _C = 0.17883277, 0.28466892, 0.55991073
_LUMA = np.array([[0.2627, 0.6780, 0.0593]], np.float32)
_TO_BT709 = np.array(
    [[1.660491, -0.587641, -0.072850], [-0.124550, 1.132900, -0.008349], [-0.018151, -0.100579, 1.118730]]
)
_TO_BT2020 = np.linalg.inv(_TO_BT709)


@dataclass(frozen=True, slots=True)
class ToneMap:
    """Maps the RGB of one stream; arrays are (h, w, 3) float32 0–1."""

    transfer: int
    """H.273 code: `PQ` or `HLG`."""
    wide: bool = True
    """Whether the primaries are those of BT.2020."""

    @classmethod
    def of(cls, transfer: int, primaries: int) -> ToneMap | None:
        """The map for H.273 codes; None for anything but PQ and HLG."""
        return cls(transfer, primaries in (_BT2020, 2)) if transfer in _PEAK else None

    def to_sdr(self, signal: FloatArray) -> FloatArray:
        """Ordinary RGB of a PQ or HLG signal."""
        light = _pq_light(signal) if self.transfer == PQ else _hlg_light(signal)
        if self.wide:
            light = np.asarray(cv2.transform(light, _TO_BT709), np.float32)
        light = np.clip(light, 0, _PEAK[self.transfer])
        return np.minimum(_power(self._shoulder(light), 1 / _GAMMA), 1)

    def from_sdr(self, rgb: FloatArray) -> FloatArray:
        """The signal that `to_sdr` takes to ordinary RGB."""
        light = self._unbent(_power(np.clip(rgb, 0, 1).astype(np.float32), _GAMMA))
        if self.wide:
            light = np.asarray(np.maximum(cv2.transform(light, _TO_BT2020), 0), np.float32)
        signal = _pq_signal(light) if self.transfer == PQ else _hlg_signal(light)
        return np.clip(signal, 0, 1)

    def edited(self, signal: FloatArray, rgb: FloatArray) -> FloatArray:
        """The signal after its ordinary RGB was changed to `rgb`; exactly itself where that did not change.

        What ordinary RGB cannot tell, colours out of its gamut, stays where little is edited and goes where
        something else is shown.
        """
        made = signal.copy()
        old = self.to_sdr(signal)
        where = np.nonzero((rgb != old).any(axis=2))
        if len(where[0]):
            before, after, kept = old[where][None], rgb[where][None], signal[where][None]
            share = np.minimum(np.abs(after - before).max(axis=2, keepdims=True) * _SHARPNESS, 1)
            made[where] = (self.from_sdr(after) + (kept - self.from_sdr(before)) * (1 - share))[0]
        return made

    @property
    def _bend(self) -> tuple[float, float]:
        """Steepness of the shoulder's logarithm, and what that is at the peak: 1 there, without a kink at the knee."""
        reach, steep = _PEAK[self.transfer] - KNEE, 20.0
        for _ in range(40):
            steep = math.log1p(steep * reach) / (1 - KNEE)
        return steep, math.log1p(steep * reach)

    def _shoulder(self, light: FloatArray) -> FloatArray:
        steep, top = self._bend
        high = light > KNEE
        if high.any():
            light[high] = KNEE + (1 - KNEE) / top * np.log1p(np.float32(steep) * (light[high] - np.float32(KNEE)))
        return light

    def _unbent(self, level: FloatArray) -> FloatArray:
        steep, top = self._bend
        high = level > KNEE
        if high.any():
            bent = np.expm1((level[high] - np.float32(KNEE)) * np.float32(top / (1 - KNEE)))
            level[high] = np.float32(KNEE) + bent / np.float32(steep)
        return level


def _pq_light(signal: FloatArray) -> FloatArray:
    root = _power(np.clip(signal, 0, 1), 1 / _M2)
    return _power(np.maximum(root - np.float32(_C1), 0) / (np.float32(_C2) - np.float32(_C3) * root), 1 / _M1) * (
        np.float32(_PEAK[PQ])
    )


def _pq_signal(light: FloatArray) -> FloatArray:
    root = _power(light * np.float32(1 / _PEAK[PQ]), _M1)
    return _power((np.float32(_C1) + np.float32(_C2) * root) / (1 + np.float32(_C3) * root), _M2)


def _hlg_light(signal: FloatArray) -> FloatArray:
    high = (_exp((signal - np.float32(_C)) * np.float32(1 / _A)) + np.float32(_B)) * np.float32(1 / 12)
    scene = np.where(signal <= 0.5, np.square(np.maximum(signal, 0)) * np.float32(1 / 3), high).astype(np.float32)
    return scene * _gain(scene, _SYSTEM_GAMMA - 1) * np.float32(_PEAK[HLG])


def _hlg_signal(light: FloatArray) -> FloatArray:
    display = light * np.float32(1 / _PEAK[HLG])
    scene = display * _gain(display, 1 / _SYSTEM_GAMMA - 1)
    high = np.float32(_A) * _log(np.maximum(12 * scene - np.float32(_B), np.float32(_TINY))) + np.float32(_C)
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), high).astype(np.float32)


def _gain(light: FloatArray, exponent: float) -> FloatArray:
    """(h, w, 1) power of the luminance."""
    luma = np.maximum(cv2.transform(light, _LUMA), np.float32(_TINY)).astype(np.float32)
    return _power(luma, exponent).reshape(*light.shape[:2], 1)


def _power(array: FloatArray, exponent: float) -> FloatArray:
    return np.asarray(cv2.pow(array, exponent), np.float32)


def _log(array: FloatArray) -> FloatArray:
    return np.asarray(cv2.log(array), np.float32)


def _exp(array: FloatArray) -> FloatArray:
    return np.asarray(cv2.exp(array), np.float32)
