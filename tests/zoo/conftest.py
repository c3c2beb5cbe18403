"""What the model tests share."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from mien.types import ByteArray


@pytest.fixture(scope="session")
def skin(portraits: Path) -> ByteArray:
    """female_001: 512×512 RGB."""
    image = cv2.imread(str(portraits / "female_001.jpg"))
    assert image is not None
    return np.ascontiguousarray(image[:, :, ::-1], np.uint8)
