"""An engine built in a child process, under a time limit, while its caller goes on with something else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, TypeAlias

from mien.errors import OutputError
from mien.runtime import engines
from mien.runtime.engines import Order
from mien.runtime.kept import read_json

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

State: TypeAlias = Literal["new", "waiting", "building", "done", "failed", "cancelled"]
COMMAND = (sys.executable, "-m", "mien.runtime.engines")


class EngineJob:
    """Builds one engine. Any thread may poll or cancel it; the child ends with this object and with this process.

    Of several processes that want the same engine one builds it and the others wait for it.

    Args:
        cache: the folder of engines.
        limit: seconds that the child may take.
        progress: called by `poll` with what is new.
        command: what is started, with four arguments more: see `engines.child`.
    """

    def __init__(
        self,
        order: Order,
        cache: Path,
        *,
        limit: float = 1200.0,
        progress: Callable[[float, str], None] | None = None,
        command: Sequence[str] = COMMAND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order, self._cache, self._limit, self._progress = order, cache, limit, progress
        self._command, self._clock = tuple(command), clock
        self._folder = engines.folder_of(order, cache)
        self._work = cache / f".{self._folder.name}.building"
        self._lock = threading.RLock()
        self._held = _Held(self._work)
        weakref.finalize(self, self._held.release)
        self._started = 0.0
        self.state: State = "new"
        self.reason = ""
        """Why it failed, in one line."""
        self.progress: tuple[float, str] = (0.0, "")
        """The part that is done, 0 to 1, and the name of what goes on."""

    @property
    def done(self) -> bool:
        """Whether the engine is there."""
        return self.state == "done"

    @property
    def result(self) -> Path | None:
        """The file to open instead of the model, once it is done."""
        return self._folder / engines.WRAPPER if self.done else None

    def start(self) -> State:
        """Begin, unless the engine is there already, or is known to be no good.

        Raises:
            OutputError: the folder of engines cannot be written to.
        """
        with self._lock:
            if self.state == "new":
                self._started = self._clock()
                self._begin()
            return self.poll()

    def poll(self) -> State:
        """See how it goes: collects the engine, or ends a child that takes too long. Cheap."""
        with self._lock:
            try:
                if self.state == "waiting":
                    self._try_to_build()
                elif self.state == "building":
                    self._look()
                elif self.state == "done":
                    self._again()
            except OSError as error:
                self._end("failed", " ".join(str(error).split()))
            return self.state

    def cancel(self) -> None:
        """End it; what was half built is removed."""
        with self._lock:
            if self.state in ("new", "waiting", "building"):
                self._end("cancelled")

    def _again(self) -> None:
        """An engine that was there and is no more did not open, or failed its test."""
        if not (self._folder / engines.WRAPPER).exists():
            self._end("failed", engines.refused(self._folder) or "its engine does not open")

    def _begin(self) -> None:
        reason = engines.refused(self._folder)
        if reason:
            self._end("failed", reason)
        else:
            self.state = "done" if (self._folder / engines.WRAPPER).exists() else "waiting"

    def _try_to_build(self) -> None:
        if (self._folder / engines.WRAPPER).exists():
            self._end("done")
        elif self._clock() - self._started > self._limit:
            self._end("failed", f"another process did not build it within {self._limit:g} s")
        elif self._claimed():
            shutil.rmtree(self._work, ignore_errors=True)  # of a process that died
            self._spawn()

    def _claimed(self) -> bool:
        """Whether no other process builds it; the claim ends with this process, however that ends."""
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            claim = os.open(self._cache / f".{self._folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise OutputError(
                f"{self._cache}: cannot be written ({error.strerror}); free space, or name another folder in MIEN_CACHE"
            ) from error
        try:
            if fcntl is not None:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(claim)
            return False
        self._held.claim = claim
        return True

    def _spawn(self) -> None:
        self._work.mkdir(parents=True, exist_ok=True)
        order = json.dumps(asdict(replace(self._order, device=0, profile=dict(self._order.profile))))
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": _visible(self._order.device)}
        with (self._work / "log.txt").open("wb") as log:
            self._held.process = subprocess.Popen(
                [*self._command, order, str(self._work), str(self._limit), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        self._started, self.state = self._clock(), "building"

    def _look(self) -> None:
        process = self._held.process
        assert process is not None
        told = read_json(self._work / engines.PROGRESS) or {}
        now = (float(told.get("done", self.progress[0])), str(told.get("phase", self.progress[1])))
        if now != self.progress:
            self.progress = now
            if self._progress is not None:
                self._progress(*now)
        code = process.poll()
        if code is None:
            if self._clock() - self._started > self._limit:
                self._end("failed", f"it took longer than {self._limit:g} s")
        elif code == 0 and (self._work / engines.OUT / engines.WRAPPER).exists():
            shutil.rmtree(self._folder, ignore_errors=True)
            os.replace(self._work / engines.OUT, self._folder)
            self._end("done")
        else:
            self._end("failed", str(told.get("failed") or self._last_words(code)))

    def _last_words(self, code: int) -> str:
        """Of a child that died without telling why."""
        with suppress(OSError):
            lines = (self._work / "log.txt").read_text(errors="replace").split("\n")
            words = [" ".join(line.split()) for line in lines if line.strip()]
            if words:
                return words[-1][:300]
        return f"the process that builds it ended with {code}"

    def _end(self, state: State, reason: str = "") -> None:
        self._held.release()
        self.state, self.reason = state, reason


class Jobs:
    """The jobs of one program, each kept with what became of it, so that no engine is built or tried twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Path, EngineJob] = {}

    def get(self, order: Order, cache: Path) -> EngineJob:
        """The job for this order, new or the one that there is."""
        folder = engines.folder_of(order, cache)
        with self._lock:
            return self._jobs.setdefault(folder, EngineJob(order, cache))


class _Held:
    """What a job holds while it builds: the child, the claim, and the folder that the child works in."""

    def __init__(self, work: Path) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.claim: int | None = None
        self._work = work

    def release(self) -> None:
        """End it all; what was half built is removed."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.claim is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            os.close(self.claim)
            self.claim = None


def _visible(device: int) -> str:
    """What makes this GPU the first that the child sees."""
    listed = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    return listed[device] if device < len(listed) else str(device)
