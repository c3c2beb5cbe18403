"""Damage is drawn from the generator alone, and is of every documented kind."""

from __future__ import annotations

import io
import zipfile
import zlib
from random import Random

import pytest

from benchmarks.fuzz.mutate import DAMAGES, mutate, mutate_member, pack

DATA = bytes(range(256)) * 8


def test_same_generator_same_damage() -> None:
    for seed in range(50):
        assert mutate(DATA, Random(seed), b"donor") == mutate(DATA, Random(seed), b"donor")


def test_damage_differs_with_the_generator() -> None:
    made = {mutate(DATA, Random(seed), b"donor" * 99) for seed in range(200)}
    assert len(made) > 190
    assert DATA not in made or len(made) > 195


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_kind_changes_bytes_and_survives_one_byte(damage: object) -> None:
    assert callable(damage)
    changed = 0
    for seed in range(40):
        made = bytearray(DATA)
        damage(made, Random(seed), b"donor" * 99)
        changed += bytes(made) != DATA
        damage(bytearray(b"x"), Random(seed), b"y")
    assert changed >= 36


def test_lengths_shrink_and_grow() -> None:
    lengths = [len(mutate(DATA, Random(seed), DATA)) for seed in range(200)]
    assert min(lengths) < len(DATA) / 2
    assert max(lengths) > len(DATA) + 500


def test_checksums_of_a_png_are_mended() -> None:
    chunk = b"IHDR" + bytes(13)
    png = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    mended = 0
    for seed in range(300):
        made = mutate(png, Random(seed), png)
        if len(made) == len(png) and made[:16] == png[:16] and made[16:29] != png[16:29]:
            mended += zlib.crc32(made[12:29]).to_bytes(4, "big") == made[29:33]
    assert mended > 5


def test_a_member_of_an_archive_is_damaged_and_the_archive_stays_whole() -> None:
    archive = pack({"a": DATA, "b": DATA})
    assert pack({"a": DATA, "b": DATA}) == archive
    for seed in range(20):
        with zipfile.ZipFile(io.BytesIO(mutate_member(archive, Random(seed), DATA))) as made:
            assert made.testzip() is None
            assert made.namelist() == ["a", "b"]
    with zipfile.ZipFile(io.BytesIO(mutate_member(archive, Random(1), DATA, drop=1))) as made:
        assert len(made.namelist()) == 1
