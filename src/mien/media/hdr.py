"""High dynamic range (PQ and HLG, ITU-R BT.2100) to ordinary RGB for networks, and back without loss.

Light is counted in units of an ordinary picture's white, 203 nits (BT.2408). Up to `KNEE` of it nothing is
changed but primaries (BT.2020 to BT.709) and gamma (2.4); from there to the brightest that has to be told, a soft
shoulder keeps highlights apart. Every step has an inverse.

Where something is edited, that brightest is what the part itself holds, and a part that is bright as a whole is exposed
less (`ToneMap.exposed`). With the signal's own 10,000 nits behind the shoulder, the difference between two light skins
would be taken back as one between skin and a lamp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import cv2
import numpy as np
import numpy.typing as npt

from mien.media.planes import bands
from mien.types import FloatArray

PQ, HLG = 16, 18
"""H.273 codes of the transfer functions."""
WHITE = 203.0
"""Nits of an ordinary picture's white within an HDR one."""
KNEE = 0.7
"""Light, in units of white, from which the shoulder bends."""
BRIGHT, FACE = 95.0, 0.5
"""Percentile of a part's luminance that is shown at this light at most, well below the knee."""
BRIGHTEST = 99.5
"""Percentile of a part's luminance behind which an edit may not go by more than a little."""
_SAMPLES = 64  # places along each side at which a part is measured
_STEPS = 8  # per doubling of the peak, so that few tables are made
_BT2020, _UNTAGGED = 9, 2
_PEAK = MappingProxyType({PQ: 10_000 / WHITE, HLG: 1_000 / WHITE})
"""Light of the highest code; HLG as on the display of 1,000 nits that BT.2100 refers to."""
_GAMMA = 2.4
_SYSTEM_GAMMA = 1.2
_TINY = 1e-9
_SHARPNESS = np.float32(32)  # per unit of change, as in `planes`
_TOP = 65_535
_LUMA = np.array([[0.2627, 0.6780, 0.0593]], np.float32)
_TO_BT709 = np.array(
    [[1.660491, -0.587641, -0.072850], [-0.124550, 1.132900, -0.008349], [-0.018151, -0.100579, 1.118730]]
)
_TO_BT2020 = np.linalg.inv(_TO_BT709)
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ToneMap:
    """Maps the RGB of one stream; arrays are (h, w, 3) float32 0–1."""

    transfer: int
    """H.273 code: `PQ` or `HLG`."""
    wide: bool = True
    """Whether the primaries are those of BT.2020."""
    exposure: float = 1.0
    """Factor that light is shown by."""
    peak: float | None = None
    """Light, exposed and in units of white, from which all is shown as white; None: that of the highest code."""

    @classmethod
    def of(cls, transfer: int, primaries: int) -> ToneMap | None:
        """The map for H.273 codes; None for anything but PQ and HLG."""
        return cls(transfer, primaries in (_BT2020, _UNTAGGED)) if transfer in _PEAK else None

    def exposed(self, signal: FloatArray) -> ToneMap:
        """The map for showing and editing this part of a picture."""
        part = signal[:: -(-signal.shape[0] // _SAMPLES), :: -(-signal.shape[1] // _SAMPLES)]
        luma = cv2.transform(self._light(np.ascontiguousarray(part)), _LUMA) * _PEAK[self.transfer]
        bright, brightest = (float(value) for value in np.percentile(luma, (BRIGHT, BRIGHTEST)))
        exposure = min(1.0, FACE / max(bright, _TINY))
        peak = 2.0 ** (np.ceil(_STEPS * np.log2(max(1.0, brightest * exposure))) / _STEPS)
        return replace(self, exposure=exposure, peak=min(float(peak), _PEAK[self.transfer]))

    def to_sdr(self, signal: FloatArray) -> FloatArray:
        """Ordinary RGB of a PQ or HLG signal."""
        tables = _tables(self.transfer, self.peak)
        light = self._light(signal)
        if self.exposure != 1:
            light *= np.float32(self.exposure)
        if self.wide:
            light = np.asarray(cv2.transform(light, _TO_BT709), np.float32)
        return _look_up(tables.shown, _root(light))

    def from_sdr(self, rgb: FloatArray) -> FloatArray:
        """The signal that `to_sdr` takes to ordinary RGB."""
        tables = _tables(self.transfer, self.peak)
        light = _look_up(tables.meant, rgb)
        if self.exposure != 1:
            light *= np.float32(1 / self.exposure)
        if self.wide:
            light = np.asarray(cv2.transform(light, _TO_BT2020), np.float32)
        if self.transfer == HLG:
            light *= _gain(light, 1 / _SYSTEM_GAMMA - 1)
        return _look_up(tables.signal, _root(light))

    def _light(self, signal: FloatArray) -> FloatArray:
        """What the display shows, 0–1 of the peak, in the signal's primaries."""
        light = _look_up(_tables(self.transfer, self.peak).light, signal)
        if self.transfer == HLG:
            light *= _gain(light, _SYSTEM_GAMMA - 1)
        return light

    def edited(self, signal: FloatArray, rgb: FloatArray) -> FloatArray:
        """The signal after its ordinary RGB was changed to `rgb`; exactly itself where that did not change.

        What ordinary RGB cannot tell, colours out of its gamut and light above the peak, stays where little is edited
        and goes where something else is shown.
        """
        made = signal.copy()
        for rows in bands(signal.shape[1], signal.shape[0]):
            kept, after = signal[rows], rgb[rows]
            before = self.to_sdr(kept)
            change = np.abs(after - before)
            change = np.maximum(np.maximum(change[..., 0], change[..., 1]), change[..., 2])
            if change.any():
                lost = kept - self.from_sdr(before)
                lost *= (1 - np.minimum(change * _SHARPNESS, 1))[..., None]
                lost += self.from_sdr(after)
                np.copyto(made[rows], lost, where=(change != 0)[..., None])
        return made


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Functions of one component at 65,536 places; light is 0–1, of the peak."""

    light: FloatArray
    """By the signal; of HLG, the scene's."""
    shown: FloatArray
    """Ordinary RGB, by the fourth root of light."""
    meant: FloatArray
    """Light, by ordinary RGB."""
    signal: FloatArray
    """By the fourth root of light, which spreads the dark much as eyes do; of HLG, the scene's."""


@lru_cache(maxsize=16)
def _tables(transfer: int, shown_peak: float | None) -> _Tables:
    places = np.linspace(0, 1, _TOP + 1)
    decode, encode = (_pq_light, _pq_signal) if transfer == PQ else (_hlg_light, _hlg_signal)
    peak = _PEAK[transfer]
    white = peak if shown_peak is None else shown_peak
    made = (
        decode(places),
        _bent(np.minimum(places**4 * peak, white), white) ** (1 / _GAMMA),
        _unbent(places**_GAMMA, white) / peak,
        encode(places**4),
    )
    tables = [np.ascontiguousarray(table, np.float32) for table in made]
    for table in tables:
        table.setflags(write=False)
    return _Tables(*tables)


def _look_up(table: FloatArray, array: FloatArray) -> FloatArray:
    places = np.clip(array, 0, 1)
    places *= np.float32(_TOP)
    places += np.float32(0.5)
    return np.asarray(table[places.astype(np.uint16)], np.float32)


def _root(light: FloatArray) -> FloatArray:
    return np.sqrt(np.sqrt(np.maximum(light, 0)))


def _gain(light: FloatArray, exponent: float) -> FloatArray:
    """(h, w, 1) power of the luminance."""
    luma = np.maximum(cv2.transform(light, _LUMA), np.float32(_TINY)).astype(np.float32)
    return np.asarray(cv2.pow(luma, exponent), np.float32).reshape(*light.shape[:2], 1)


def _bend(peak: float) -> tuple[float, float]:
    """Steepness of the shoulder's logarithm, and what that is at the peak: 1 there, without a kink at the knee."""
    steep = 20.0
    for _ in range(60):
        steep = math.log1p(steep * (peak - KNEE)) / (1 - KNEE)
    return steep, math.log1p(steep * (peak - KNEE))


def _bent(light: _Floats, peak: float) -> _Floats:
    if peak <= 1:
        return light
    steep, top = _bend(peak)
    return np.where(light > KNEE, KNEE + (1 - KNEE) / top * np.log1p(steep * np.maximum(light - KNEE, 0)), light)


def _unbent(level: _Floats, peak: float) -> _Floats:
    if peak <= 1:
        return level
    steep, top = _bend(peak)
    return np.where(level > KNEE, KNEE + np.expm1(np.maximum(level - KNEE, 0) * top / (1 - KNEE)) / steep, level)


_M1, _M2, _C1, _C2, _C3 = 2610 / 16384, 2523 / 32, 3424 / 4096, 2413 / 128, 2392 / 128
_A, _B, _C = 0.17883277, 0.28466892, 0.55991073


def _pq_light(signal: _Floats) -> _Floats:
    root = signal ** (1 / _M2)
    return np.asarray((np.maximum(root - _C1, 0) / (_C2 - _C3 * root)) ** (1 / _M1))


def _pq_signal(light: _Floats) -> _Floats:
    root = light**_M1
    return np.asarray(((_C1 + _C2 * root) / (1 + _C3 * root)) ** _M2)


def _hlg_light(signal: _Floats) -> _Floats:
    return np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - _C) / _A) + _B) / 12)


def _hlg_signal(scene: _Floats) -> _Floats:
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), _A * np.log(np.maximum(12 * scene - _B, _TINY)) + _C)
