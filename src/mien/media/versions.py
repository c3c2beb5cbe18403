"""What the media libraries are and can write, for reports and for `mien doctor`."""

from __future__ import annotations

from collections.abc import Mapping

import av
import PIL

ENCODERS = ("libx264", "libx265", "libsvtav1", "libvpx-vp9", "prores_ks", "ffv1", "mjpeg", "gif")
"""Software video encoders that an output may use; hardware encoders also need a device."""


def library_versions() -> Mapping[str, str]:
    """Versions by name: PyAV, the FFmpeg inside it, and Pillow."""
    return {"PyAV": av.__version__, "FFmpeg": av.ffmpeg_version_info, "Pillow": PIL.__version__}


def encoders() -> tuple[str, ...]:
    """The encoders of `ENCODERS` that this FFmpeg was built with."""
    return tuple(name for name in ENCODERS if _built(name))


def _built(name: str) -> bool:
    try:
        av.Codec(name, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True
