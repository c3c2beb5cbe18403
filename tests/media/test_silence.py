"""FFmpeg and OpenCV say what they have to say by errors, never on the terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.media.counter import count_clip

_READ = """
import sys
from mien.errors import MienError
from mien.media import open_reader, open_writer
from mien.options import SwapOptions
options = SwapOptions(preset="ultrafast", encoder_threads=1, fps="50", scale="80x")
for path in sys.argv[2:]:
    try:
        with open_reader(path, options) as reader, open_writer(sys.argv[1], reader, options) as writer:
            for frame in reader:
                frame.thumbnail(20)
                writer.write(frame)
    except MienError as error:
        assert str(error).startswith(path), error
"""


def test_nothing_is_printed(tmp_path: Path) -> None:
    """In a process of its own, since a library's messages do not pass through Python."""
    whole = count_clip(tmp_path / "whole.mp4", range(30), options={"g": "5", "bf": "2"})
    data = bytearray(whole.read_bytes())
    start = data.index(b"mdat") + 8
    for at in range(start + 400, len(data), 97):
        data[at] ^= 0x55
    (tmp_path / "damaged.mp4").write_bytes(data)
    (tmp_path / "cut.mp4").write_bytes(whole.read_bytes()[: len(data) // 2])
    (tmp_path / "noise.mp4").write_bytes(bytes(range(256)) * 50)
    plain = count_clip(tmp_path / "whole.ts", range(30), options={"g": "5", "bf": "2"})
    (tmp_path / "late.ts").write_bytes(plain.read_bytes()[188 * 20 : -188 * 5])
    files = [str(tmp_path / name) for name in ("damaged.mp4", "cut.mp4", "noise.mp4", "late.ts", "whole.ts")]
    command = [sys.executable, "-W", "error", "-c", _READ, str(tmp_path / "out.mp4"), *files]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
