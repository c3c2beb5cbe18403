"""Codecs of this machine's hardware: those that open say nothing."""

from __future__ import annotations

import pytest

from mien.media import hardware
from mien.media.hardware import DECODERS, ENCODERS, hardware_codecs


def test_each_codec_that_ffmpeg_has_opens_or_says_why_not(capfd: pytest.CaptureFixture[str]) -> None:
    found = hardware_codecs()
    assert set(found) <= {*ENCODERS, *DECODERS}
    assert all("\n" not in reason for reason in found.values())
    assert capfd.readouterr() == ("", "")


def test_what_opens_and_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "ENCODERS", ("libx264", "no_such_encoder"))
    monkeypatch.setattr(hardware, "DECODERS", ("h264",))
    assert hardware_codecs() == {"libx264": "", "h264": ""}
