from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from mien.cli.progress import byte_bar, part_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


def test_bytes_are_drawn_with_their_sum() -> None:
    terminal = Terminal()
    with redirect_stderr(terminal), byte_bar("gfpgan_1.4", 340_000_000) as progress:
        assert progress is not None
        progress(170_000_000)
        progress(340_000_000)
    text = terminal.getvalue()
    assert "gfpgan_1.4" in text and "340.0/340.0 MB" in text


def test_parts_are_drawn_with_what_goes_on() -> None:
    terminal = Terminal()
    with redirect_stderr(terminal), part_bar() as progress:
        assert progress is not None
        progress(0.5, "choosing kernels")
    text = terminal.getvalue()
    assert "choosing kernels" in text and "50%" in text


def test_nothing_is_drawn_where_nobody_sees_it(capfd: pytest.CaptureFixture[str]) -> None:
    with byte_bar("x", 9) as a, part_bar() as b:
        assert a is None and b is None
    assert capfd.readouterr() == ("", "")
