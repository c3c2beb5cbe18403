"""Every picture of a clip in one size and pixel format: the first picture's, or the size that was asked for."""

from __future__ import annotations

import av

from mien.media import planes
from mien.media.info import MediaInfo
from mien.media.limits import Limits
from mien.media.normalize import Converter, planar_format
from mien.media.planes import PlaneFormat

_SAME_SHAPE = 0.02
"""Share by which a picture's shape may differ before borders keep it from being stretched."""


def working_format(pixel_format: str) -> str:
    """The pixel format itself if its planes can be worked on as they are, else the one that it is unpacked to."""
    as_is = PlaneFormat.of(av.VideoFrame(16, 16, pixel_format)) is not None
    return pixel_format if as_is else planar_format(pixel_format)


def unpacked(picture: av.VideoFrame, converter: Converter) -> av.VideoFrame:
    """The picture in its working format."""
    name = working_format(picture.format.name)
    return picture if name == picture.format.name else converter.to_format(picture, name)


def scaled_size(info: MediaInfo, scale: tuple[int | None, int | None], pixel_format: str) -> tuple[int, int]:
    """(width, height), as shown, of square pixels, for the option `scale`.

    A side that is left out follows from the shape as shown. Sides are even where chroma has half as many samples.
    """
    aspect = info.sample_aspect if info.rotation % 180 == 0 else 1 / info.sample_aspect
    shape = info.width * aspect / info.height
    width, height = scale
    if width is None:
        assert height is not None
        width = round(height * shape)
    if height is None:
        height = round(width / shape)
    fmt = av.VideoFormat(pixel_format)
    steps = (16 // fmt.chroma_width(16), 16 // fmt.chroma_height(16))
    if info.rotation % 180:
        steps = steps[::-1]
    return _multiple(width, steps[0]), _multiple(height, steps[1])


def _multiple(side: int, step: int) -> int:
    return max(step, (side + (step - 1) // 2) // step * step)


class Fitter:
    """Brings pictures to one size and pixel format, their colours and shapes kept."""

    def __init__(self, info: MediaInfo, scale: tuple[int | None, int | None] | None, limits: Limits) -> None:
        self._source = info.pixel_format
        self._format = working_format(info.pixel_format)
        self._first = (info.height, info.width) if info.rotation % 180 else (info.width, info.height)
        self._size = self._first
        if scale is not None:
            width, height = scaled_size(info, scale, self._format)
            limits.check_size(info.path, width, height)
            self._size = (height, width) if info.rotation % 180 else (width, height)
        self._converter = Converter()
        self.changed = 0
        """Pictures that were of another size or pixel format than the first."""

    def __call__(self, picture: av.VideoFrame) -> av.VideoFrame:
        """The picture in the clip's size and format; itself if it has them."""
        size = (picture.width, picture.height)
        self.changed += picture.format.name != self._source or size != self._first
        if picture.format.name != self._format:
            picture = self._converter.to_format(picture, self._format)
        if size == self._size:
            return picture
        inner = self._inner(*size)
        if inner == self._size:
            return self._resized(picture, inner)
        return _bordered(self._converter.resize(picture, *self._size), self._resized(picture, inner))

    def _inner(self, width: int, height: int) -> tuple[int, int]:
        """The part of the clip's frame that a picture of that size fills, so that its shape is kept."""
        x, y = width / self._first[0], height / self._first[1]
        part = (round(self._size[0] * min(1, x / y)), round(self._size[1] * min(1, y / x)))
        return self._size if min(x / y, y / x) > 1 - _SAME_SHAPE else part

    def _resized(self, picture: av.VideoFrame, size: tuple[int, int]) -> av.VideoFrame:
        if size == (picture.width, picture.height):
            return picture
        made = self._converter.resize(picture, *size)
        if picture.interlaced_frame and picture.height % 4 == 0 and size[1] % 4 == 0:
            # Two moments in one picture would mix.
            for parity in (0, 1):
                half = self._converter.resize(planes.field_of(picture, parity), size[0], size[1] // 2)
                planes.weave(half, made, parity)
        return made


def _bordered(canvas: av.VideoFrame, picture: av.VideoFrame) -> av.VideoFrame:
    """The canvas black, with the picture in its middle."""
    layout = PlaneFormat.of(canvas)
    assert layout is not None
    x0 = (canvas.width - picture.width) // 2 >> layout.shift_x
    y0 = (canvas.height - picture.height) // 2 >> layout.shift_y
    both = zip(planes.views(canvas, layout), planes.views(picture, layout), layout.model.offset, strict=True)
    for number, (to, of, black) in enumerate(both):
        x, y = (x0, y0) if number and layout.subsampled else (x0 << layout.shift_x, y0 << layout.shift_y)
        to[...] = round(float(black))
        to[y : y + of.shape[0], x : x + of.shape[1]] = of
    return canvas
