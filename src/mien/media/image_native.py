"""Photos whose own mode is not what mien works in: 1-bit, palette and CMYK, kept beside what was made of them.

On writing, the pixels that were not changed are the file's own again; only changed ones are converted back.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from mien.media.image_palette import fill
from mien.media.orientation import Orientation
from mien.types import ByteArray

NativeMode = Literal["1", "P", "CMYK", "RGBA"]
_ROWS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """A photo in its own mode, upright."""

    mode: NativeMode
    """"RGBA" stands for frames of a palette animation as they were before any change."""
    array: ByteArray
    """(H, W): 0 or 255 for "1", indices for "P"; (H, W, 4) for "CMYK" and "RGBA"."""
    palette: ByteArray = field(default_factory=lambda: np.zeros((0, 4), np.uint8))
    """(N, 4) RGBA of "P", N ≤ 256."""
    icc: bytes | None = None
    """Profile of the samples of "CMYK"."""

    @classmethod
    def of(cls, image: Image.Image, orientation: Orientation) -> Native | None:
        """The native samples of a loaded photo; None for the modes that mien works in."""
        if image.mode == "1":
            return cls("1", orientation.apply(np.asarray(image).astype(np.uint8) * 255))
        if image.mode == "P":
            return cls("P", orientation.apply(np.asarray(image)), palette_of(image))
        if image.mode == "CMYK":
            return cls("CMYK", orientation.apply(np.asarray(image)), icc=image.info.get("icc_profile"))
        return None

    @property
    def transparent(self) -> bool:
        """Whether a palette holds colours that are not opaque."""
        return bool((self.palette[:, 3] < 255).any())

    def promoted(self) -> ByteArray:
        """(H, W, C) as mien works on it: grey for "1", RGB or RGBA for "P" and "RGBA", sRGB for "CMYK"."""
        return np.concatenate([part for _, part in self._promoted()])

    def scaled(self, height: int, width: int) -> Native:
        """The same mode and palette for a picture of another size, all of whose pixels count as changed."""
        return replace(self, array=np.zeros((height, width, *self.array.shape[2:])[: self.array.ndim], np.uint8))

    def changed(self, array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """(H, W) where `array` (H, W, C) no longer is what was made of the native samples."""
        mask = np.ones(array.shape[:2], bool)
        if array.shape[:2] == self.array.shape[:2] and array.dtype == np.uint8:
            for rows, part in self._promoted():
                if part.shape[2] == array.shape[2]:
                    mask[rows] = (part != array[rows]).any(-1)
        return mask

    def restored(self, array: ByteArray) -> Native:
        """The native photo for a changed picture (H, W, C)."""
        mask = self.changed(array)
        if not mask.any():
            return self
        if mask.shape != self.array.shape[:2]:
            return self.scaled(*mask.shape)._with(array, mask)
        return self._with(array, mask)

    def _with(self, array: ByteArray, mask: npt.NDArray[np.bool_]) -> Native:
        samples = self.array.copy()
        x, y, width, height = cv2.boundingRect(mask.view(np.uint8))
        part = (slice(y, y + height), slice(x, x + width))
        if self.mode == "1":
            grey = array[part][..., 0] if array.shape[2] < 3 else cv2.cvtColor(array[part], cv2.COLOR_RGB2GRAY)
            dithered = Image.fromarray(np.ascontiguousarray(grey)).convert("1")
            samples[part][mask[part]] = np.asarray(dithered)[mask[part]].astype(np.uint8) * 255
            return replace(self, array=samples)
        rgb = np.ascontiguousarray(np.broadcast_to(array[part][..., :3], (height, width, 3)))
        if self.mode == "CMYK":
            samples[part][mask[part]] = self._to_cmyk(rgb[mask[part]])
            return replace(self, array=samples)
        palette = np.zeros((256, 4), np.uint8)
        palette[:, 3] = 255
        palette[: len(self.palette)] = self.palette
        counts = np.bincount(samples[~mask], minlength=256)
        fill(samples[part], palette, [int(i) for i in np.flatnonzero(counts == 0)], rgb, mask[part])
        length = max(len(self.palette), int(samples.max()) + 1)
        return replace(self, array=samples, palette=palette[:length])

    def _promoted(self) -> Iterator[tuple[slice, ByteArray]]:
        """Bands of rows, so that a large photo is not held twice more."""
        convert = self._converter()
        step = max(1, _ROWS // max(1, self.array.shape[1]))
        for top in range(0, len(self.array), step):
            rows = slice(top, min(top + step, len(self.array)))
            yield rows, convert(self.array[rows])

    def _converter(self) -> Any:
        if self.mode == "1":
            return lambda part: part[..., None]
        if self.mode == "RGBA":
            return lambda part: part
        if self.mode == "P":
            table = np.zeros((256, 4), np.uint8)
            table[:, 3] = 255  # Indices beyond the palette are black, as everywhere.
            table[: len(self.palette)] = self.palette
            if not self.transparent:
                table = np.ascontiguousarray(table[:, :3])
            return lambda part: table[part]
        transform = _transform(self.icc, inverse=False)
        if transform is None:
            return lambda part: np.asarray(Image.fromarray(part, "CMYK").convert("RGB"))
        return lambda part: np.asarray(ImageCms.applyTransform(Image.fromarray(part, "CMYK"), transform))

    def _to_cmyk(self, colors: ByteArray) -> ByteArray:
        """(N, 3) sRGB to (N, 4)."""
        row = Image.fromarray(colors[None])
        transform = _transform(self.icc, inverse=True)
        if transform is None:
            return np.asarray(row.convert("CMYK")).reshape(-1, 4)
        return np.asarray(ImageCms.applyTransform(row, transform)).reshape(-1, 4)


def palette_of(image: Image.Image) -> ByteArray:
    """(N, 4) RGBA of a palette photo."""
    palette = image.palette
    assert palette is not None
    raw = image.getpalette("RGBA") or []
    made = np.array(raw, np.uint8).reshape(-1, 4)[:256].copy()
    clear = image.info.get("transparency")
    if isinstance(clear, bytes):
        made[: len(clear), 3] = np.frombuffer(clear, np.uint8)[: len(made)]
    elif isinstance(clear, int) and clear < len(made):
        made[clear, 3] = 0
    return made


def _transform(icc: bytes | None, *, inverse: bool) -> ImageCms.ImageCmsTransform | None:
    """CMYK → sRGB by the profile, or back; None where there is no profile that can."""
    if not icc:
        return None
    try:
        ours, srgb = ImageCms.ImageCmsProfile(io.BytesIO(icc)), ImageCms.createProfile("sRGB")
        # Profiles of scanners go one way only; both ways must be the profile's, or neither.
        back = ImageCms.buildTransform(srgb, ours, "RGB", "CMYK")
        if inverse:
            return back
        return ImageCms.buildTransform(ours, srgb, "CMYK", "RGB")
    except (ImageCms.PyCMSError, OSError):
        return None  # A broken profile is as good as none.
