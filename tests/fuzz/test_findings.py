"""What the fuzzer found, small enough to read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mien
from benchmarks.fuzz.mutate import pack
from mien.identity import FORMAT


def test_an_identity_with_one_array_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "person.npz"
    np.savez(path, allow_pickle=False, format=np.int32(FORMAT), embedding=np.ones(4, np.float32))
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path.write_bytes(pack({**members, "embedding.npy": b"\x00NUMPY"}))
    with pytest.raises(mien.MediaError, match="not an identity made by mien"):
        mien.Identity.load(path)
