from __future__ import annotations

import av

from mien.media.versions import encoders, library_versions


def test_versions_are_those_of_the_libraries() -> None:
    assert library_versions()["PyAV"] == av.__version__
    assert library_versions()["FFmpeg"][0].isdigit()


def test_the_default_encoders_are_built_in() -> None:
    assert {"libx264", "libx265", "ffv1"} <= set(encoders())
