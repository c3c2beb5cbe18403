"""What swappers are given of a source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mien.errors import GeometryError, OptionsError
from mien.geometry import TEMPLATES, fit_similarity, transform
from mien.identity_data import IdentityData
from mien.paste import moved
from mien.source import LONGEST, portrait, prepare_source
from mien.types import FloatArray
from mien.zoo.contracts import SourceNeeds
from tests.fakes import FakeEmbedder, FakeFrame, FakeSwapper, FakeZoo, card, face, grey, identity


def picture(width: int, height: int) -> FakeFrame:
    """Every pixel tells where it is: red is a quarter of x, green a quarter of y."""
    frame = grey(width, height)
    frame.pixels[..., 0], frame.pixels[..., 1] = np.meshgrid(np.arange(width) // 4, np.arange(height) // 4)
    return frame


@pytest.mark.parametrize("angle", [0.0, 0.8, 2.5])
def test_a_small_photo_is_cut_out_as_it_is_and_holds_every_templates_square(angle: float) -> None:
    frame, at = picture(900, 900), turned(angle)
    photo, keypoints = portrait(frame, at)
    shift = (at - keypoints)[0].round().astype(int)
    np.testing.assert_allclose(at - keypoints, [shift] * 5, atol=1e-3)
    np.testing.assert_array_equal(
        photo, frame.pixels[shift[1] : shift[1] + photo.shape[0], shift[0] : shift[0] + photo.shape[1]]
    )
    for name in TEMPLATES:
        back = fit_similarity(TEMPLATES[name] * 256, keypoints)
        corners = transform(np.array([[0, 0], [255, 0], [255, 255], [0, 255]], np.float32), back)
        assert (corners > 0).all() and (corners < photo.shape[1::-1]).all(), name


def turned(angle: float, x: float = 450, y: float = 440, side: float = 120) -> FloatArray:
    cos, sin = np.cos(angle), np.sin(angle)
    about = np.array([[cos, -sin, x - cos * x + sin * y], [sin, cos, y - sin * x - cos * y]], np.float32)
    return moved(face(x, y, side), about).keypoints


def test_a_large_photo_is_shrunk_with_its_keypoints() -> None:
    frame, at = picture(1000, 1000), turned(0.1, 500, 500, 900)
    frame = FakeFrame(np.asarray(frame.pixels.repeat(3, 0).repeat(3, 1)))
    photo, keypoints = portrait(frame, 3 * at + 1)
    assert max(photo.shape) == LONGEST and photo.shape[2] == 3
    for x, y in keypoints:
        red, green, _ = photo[round(float(y)), round(float(x))]
        back = transform(np.array([[x, y]], np.float32), fit_similarity(keypoints, at))[0]
        assert abs(float(red) - back[0] / 4) <= 1.5 and abs(float(green) - back[1] / 4) <= 1.5


def test_a_photo_that_ends_near_the_face_is_kept_to_its_end() -> None:
    frame, at = picture(130, 120), turned(0.0, 65, 60)
    photo, keypoints = portrait(frame, at)
    np.testing.assert_array_equal(photo, frame.pixels)
    np.testing.assert_allclose(keypoints, at, atol=1e-3)


def test_a_photo_with_more_bits_becomes_bytes() -> None:
    class Deep(FakeFrame):
        def read(self, box: Any) -> Any:
            return (super().read(box) / 255).astype(np.float32)

    frame = picture(300, 300)
    photo, _ = portrait(Deep(frame.pixels), turned(0, 150, 150))
    assert photo.dtype == np.uint8
    np.testing.assert_array_equal(photo, portrait(frame, turned(0, 150, 150))[0])


def test_coinciding_keypoints_are_an_error() -> None:
    with pytest.raises(GeometryError):
        portrait(grey(), np.full((5, 2), 9, np.float32))


def person(**known: Any) -> IdentityData:
    photo, keypoints = portrait(picture(900, 900), turned(0.3))
    return replace(identity(), photo=photo, keypoints=keypoints, **known)


class Converter:
    """Adds 1000."""

    card, embedder = card("converter"), "fake"

    def __call__(self, embeddings: FloatArray) -> FloatArray:
        assert embeddings.ndim == 2
        return embeddings + 1000


def zoo() -> FakeZoo:
    return FakeZoo(more={("embedder", "fake"): FakeEmbedder(), ("converter", "fake"): Converter()})


def test_a_swapper_without_needs_gets_the_identity_alone() -> None:
    who, models = identity(), zoo()
    source = prepare_source(models, FakeSwapper(), who)
    assert source.identity is who and source.embedding is None and source.photo is None
    assert models.asked == []


def test_a_raw_embedding_that_is_known_is_used() -> None:
    models = zoo()
    who = person(embeddings={"fake": np.array([3, 4, 5], np.float32)})
    source = prepare_source(models, FakeSwapper(needs=SourceNeeds("fake")), who)
    np.testing.assert_array_equal(source.embedding, [3, 4, 5])
    assert models.asked == []


def test_another_is_made_from_the_photo_and_converted() -> None:
    who = person(embeddings={"other": np.zeros(3, np.float32)})
    raw = prepare_source(zoo(), FakeSwapper(needs=SourceNeeds("fake")), who).embedding
    converted = prepare_source(zoo(), FakeSwapper(needs=SourceNeeds("fake", "fake")), who).embedding
    assert raw is not None and converted is not None
    # The crop's mean colour tells where its middle is.
    back = fit_similarity(TEMPLATES["arcface_112_v2"] * 16, turned(0.3))
    x, y = transform(np.array([[7.5, 7.5]], np.float32), back)[0]
    np.testing.assert_allclose(raw, [x / 4, y / 4, 90], atol=0.7)
    np.testing.assert_allclose(converted, raw + 1000, atol=1e-3)


def test_a_photo_is_cut_by_the_template() -> None:
    who = person()
    source = prepare_source(zoo(), FakeSwapper(needs=SourceNeeds(template="ffhq_512", size=96)), who)
    assert source.embedding is None and source.photo is not None
    assert source.photo.shape == (96, 96, 3) and source.photo.dtype == np.uint8
    back = fit_similarity(TEMPLATES["ffhq_512"] * 96, turned(0.3))
    for at in ((10, 80), (48, 48), (90, 5)):
        x, y = transform(np.array([at], np.float32), back)[0]
        red, green, _ = source.photo[at[1], at[0]].astype(float)
        assert abs(red - x / 4) < 6 and abs(green - y / 4) < 6


def test_an_identity_without_a_photo_is_told() -> None:
    for needs in (SourceNeeds("fake"), SourceNeeds(template="ffhq_512", size=96)):
        with pytest.raises(
            OptionsError, match=r"^fake needs a photo of the source, which this identity lacks; make it"
        ):
            prepare_source(zoo(), FakeSwapper(needs=needs), identity())


def test_a_model_that_is_missing_is_told_with_who_needs_it() -> None:
    for needs in (SourceNeeds("nobody"), SourceNeeds("fake", "nobody")):
        with pytest.raises(
            OptionsError, match=r"^fake needs the (embedder|converter) nobody: no .* is called 'nobody'"
        ):
            prepare_source(zoo(), FakeSwapper(needs=needs), person())
