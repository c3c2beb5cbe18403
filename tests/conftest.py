"""What many tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mien.faces import FaceFinder
from mien.identity import Identity
from mien.media import open_reader
from mien.types import Box, Face, Image
from mien.zoo.registry import Zoo

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees what is installed for the user who runs it; programs that tests start do not either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


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


@pytest.fixture(scope="session")
def models() -> Zoo:
    """The models that ship, each loaded once for all tests that use this."""
    return Zoo("cpu")


@pytest.fixture(scope="session")
def woman(portraits: Path, models: Zoo) -> Identity:
    """female_031 as a source."""
    return Identity.from_images([portraits / "female_031.jpg"], zoo=models)


@pytest.fixture(scope="session")
def woman_face(portraits: Path, models: Zoo) -> tuple[Image, Face]:
    """female_031 as a target: the picture, and its face with embedding and expression."""
    with open_reader(portraits / "female_031.jpg") as reader:
        frame = next(iter(reader))
        image = np.asarray(frame.read(Box(0, 0, frame.width, frame.height)))
    (face,) = FaceFinder(models).find_in_image(image, expressions=True)
    return image, face
