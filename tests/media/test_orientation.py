"""The eight orientations: pixels, sizes and boxes go there and back."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
from PIL import Image, ImageOps

from mien.media.demux import display_matrix
from mien.media.orientation import Orientation
from mien.types import Box
from tests.media.clips import make_clip

STORED = np.arange(6 * 10 * 3, dtype=np.uint8).reshape(6, 10, 3)


@pytest.mark.parametrize("value", range(1, 9))
def test_exif_orientations_agree_with_pillow(value: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    file = io.BytesIO()
    Image.fromarray(STORED).save(file, "PNG", exif=exif.tobytes())
    expected = np.asarray(ImageOps.exif_transpose(Image.open(file)))

    orientation = Orientation.from_exif(value)
    shown = orientation.apply(STORED)

    assert np.array_equal(shown, expected)
    assert np.array_equal(orientation.undo(shown), STORED)
    assert orientation.size(10, 6) == (shown.shape[1], shown.shape[0])


@pytest.mark.parametrize("value", range(1, 9))
def test_boxes_turn_with_the_pixels(value: int) -> None:
    orientation = Orientation.from_exif(value)
    shown = orientation.apply(STORED)
    width, height = orientation.size(10, 6)
    box = Box(1, 2, 4, 5)
    stored = orientation.to_stored(box, width, height)
    cut = STORED[stored.y0 : stored.y1, stored.x0 : stored.x1]
    assert np.array_equal(orientation.apply(cut), shown[2:5, 1:4])


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
@pytest.mark.parametrize(("hflip", "vflip"), [(False, False), (True, False), (False, True)])
def test_display_matrix_means_what_ffmpeg_wrote(tmp_path, degrees: int, hflip: bool, vflip: bool) -> None:  # type: ignore[no-untyped-def]
    path = make_clip(tmp_path / "turned.mp4", pts=range(1), rotation=(degrees, hflip, vflip))
    with av.open(str(path)) as container:
        matrix = display_matrix(next(container.decode(video=0)))
    expected = np.rot90(STORED, degrees // 90)
    if hflip:
        expected = expected[:, ::-1]
    if vflip:
        expected = expected[::-1]
    orientation = Orientation.from_matrix(matrix)
    assert np.array_equal(orientation.apply(STORED), expected)
    assert orientation.mirrored is (hflip != vflip)
    if not (hflip or vflip):
        assert orientation.rotation == degrees
