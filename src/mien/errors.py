"""The error tree. Each error also inherits the builtin that fits, so callers may catch either.

MienError
├── InputError (ValueError)          bad media, options or weights given by the caller
│   ├── MediaError                   a file that cannot be read as what it claims to be
│   ├── NoFaceError                  no face where one is needed
│   ├── OptionsError                 options that contradict each other or the installation
│   └── GeometryError                points from which no transform can be fitted
├── OutputError (OSError)            the result cannot be written
├── ModelError (RuntimeError)        weights that do not fit their contract, or a failed inference
├── DeviceError (RuntimeError)       the requested device or provider is not there, or has no memory left
├── DownloadError (ConnectionError)  weights that cannot be fetched
├── RefusedError (PermissionError)   refused by policy
└── PipelineError (RuntimeError)     a stage that hung or could not be stopped
"""


class MienError(Exception):
    """Base of every error that mien raises on purpose; its text is one line with a next step."""

    exit_code = 1


class InputError(MienError, ValueError):
    """The caller's input cannot be used."""


class MediaError(InputError):
    """A media file that cannot be read, with the file and the reason."""


class NoFaceError(InputError):
    """No face was found where one is needed."""


class OptionsError(InputError):
    """Options that contradict each other or name something unknown."""

    exit_code = 2


class GeometryError(InputError):
    """Degenerate points: no transform can be fitted."""


class OutputError(MienError, OSError):
    """The result cannot be written."""


class ModelError(MienError, RuntimeError):
    """Weights that do not fit their contract, or an inference that failed."""


class DeviceError(MienError, RuntimeError):
    """The requested device is not available, or has no memory left."""


class DownloadError(MienError, ConnectionError):
    """A file that cannot be fetched, with the address, the reason and what to do."""


class RefusedError(MienError, PermissionError):
    """The request was refused by policy."""

    exit_code = 3


class PipelineError(MienError, RuntimeError):
    """A stage hung or could not be stopped."""
