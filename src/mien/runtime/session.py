"""The only importer of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mien.errors import DeviceError, ModelError
from mien.options import Device

PROVIDERS: Mapping[str, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Name, shape (int, or str for a free dimension) and ONNX type of an input or output."""

    name: str
    shape: tuple[int | str | None, ...]
    type: str


def available_devices() -> tuple[str, ...]:
    """Devices whose provider the installed ONNX Runtime was built with, best first."""
    built = set(ort.get_available_providers())
    return tuple(d for d in ("cuda", "tensorrt", "cpu") if PROVIDERS[d] in built)


class Session:
    """One ONNX graph on one device, as a callable: arrays in by input order, arrays out.

    ONNX Runtime only warns when a provider fails to load and then runs on the CPU. A device asked
    for by name is checked after loading; `auto` takes the first that really loads.

    Raises:
        ModelError: the file is missing, corrupt, or an inference fails.
        DeviceError: the requested device did not load.
    """

    def __init__(self, model: Path | bytes, device: Device = "auto", *, threads: int = 0) -> None:
        self.name = model.name if isinstance(model, Path) else "model"
        wanted = available_devices() if device == "auto" else (device,)
        for candidate in wanted:
            session = self._open(model, candidate, threads)
            if session.get_providers()[0] == PROVIDERS[candidate]:
                self._session, self.device = session, candidate
                break
        else:
            raise DeviceError(
                f"device {device!r} is not available (this ONNX Runtime offers {', '.join(available_devices())}); "
                "run `mien doctor`, or choose --device cpu"
            )
        self._running: set[ort.RunOptions] = set()
        self.inputs = tuple(Tensor(i.name, tuple(i.shape), i.type) for i in self._session.get_inputs())
        self.outputs = tuple(Tensor(o.name, tuple(o.shape), o.type) for o in self._session.get_outputs())

    def _open(self, model: Path | bytes, device: str, threads: int) -> Any:
        if PROVIDERS[device] not in ort.get_available_providers():
            raise DeviceError(
                f"device {device!r} is not in this ONNX Runtime (it offers {', '.join(available_devices())}); "
                "run `mien doctor` for the package to install, or choose --device cpu"
            )
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        # Spinning workers starve the decode and encode threads that run beside the network.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        data = str(model) if isinstance(model, Path) else model
        try:
            return ort.InferenceSession(data, options, providers=[PROVIDERS[device]])
        except Exception as error:
            raise ModelError(f"{self.name}: cannot load the model ({_first_line(error)}); verify the file") from error

    def __call__(self, *arrays: npt.NDArray[Any]) -> Sequence[npt.NDArray[np.float32]]:
        """Run once; arrays in the order of `inputs`, results in the order of `outputs`."""
        feeds = {tensor.name: array for tensor, array in zip(self.inputs, arrays, strict=True)}
        options = ort.RunOptions()
        self._running.add(options)
        try:
            results: Sequence[npt.NDArray[np.float32]] = self._session.run(None, feeds, options)
        except Exception as error:
            raise ModelError(f"{self.name}: inference failed ({_first_line(error)})") from error
        finally:
            self._running.discard(options)
        return results

    def cancel(self) -> None:
        """End the inferences that run now, from any thread: they fail with ModelError. Later ones are not affected."""
        for options in tuple(self._running):
            options.terminate = True


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
