from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mien.zoo.locks import locked, try_lock

HOLD = """
import sys, time
from pathlib import Path
from mien.zoo.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_thread_at_a_time_and_no_file_is_left(tmp_path: Path) -> None:
    path, inside, most = tmp_path / ".x.lock", 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with locked(path):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (inside, most) == (0, 1) and list(tmp_path.iterdir()) == []


def test_who_waits_is_told_once_and_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    path, told = tmp_path / ".x.lock", threading.Event()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        assert not try_lock(path)
        waiter = threading.Thread(target=lambda: _hold(path, told))
        waiter.start()
        assert told.wait(10)
        process.kill()
    waiter.join(10)
    assert not waiter.is_alive() and not path.exists()


def _hold(path: Path, told: threading.Event) -> None:
    with locked(path, told.set):
        pass


def test_a_free_lock(tmp_path: Path) -> None:
    assert try_lock(tmp_path / "none")
    (tmp_path / "left").touch()
    assert try_lock(tmp_path / "left")
    with locked(tmp_path / "left", lambda: pytest.fail("nobody holds it")):
        assert not try_lock(tmp_path / "left")


def test_an_error_frees_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "x"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError), locked(tmp_path / "none" / "x"):
        pass
