"""What many tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def portraits() -> Path:
    """Folder of small CC0 portraits: one face each, looking at the camera."""
    return ROOT / "tests" / "fixtures" / "portraits"


@pytest.fixture(scope="session")
def examples() -> Path:
    """Folder of the example media that the demo uses."""
    return ROOT / "examples"


@pytest.fixture(scope="session")
def python() -> tuple[str, ...]:
    """Start of a command line for a new interpreter that treats warnings as errors, as the tests do."""
    return (sys.executable, "-W", "error")
