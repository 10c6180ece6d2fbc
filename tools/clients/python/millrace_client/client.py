"""The base class of the HTTP client and the UDP client."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .errors import MillraceError
from .tensors import Model, find_numpy

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
    from typing_extensions import Self


_LONGEST_TIMEOUT = 1e6  # in seconds; a socket accepts at most 2**31 milliseconds


def check_timeout(timeout: float) -> float:
    """Checks a time-out. Raises MillraceError 'invalid' if the time-out is not finite, or too long for a socket."""
    if not abs(timeout) <= _LONGEST_TIMEOUT:
        raise MillraceError("invalid", f"a time-out is at most {_LONGEST_TIMEOUT:,.0f} seconds, not {timeout}")
    return timeout


class Client(abc.ABC):
    """A connection to one server, to be used by one thread at a time. A `with` block closes the connection at its end."""

    def __init__(self, timeout: float, arrays: bool | None) -> None:
        self._timeout = check_timeout(timeout)
        self._numpy = find_numpy(arrays)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. After this, only close() may be called again."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise MillraceError("invalid", "the client is closed; connect again")

    @staticmethod
    def _check_name(name: str, version: str) -> None:
        try:
            (name + version).encode()
        except UnicodeError:
            raise MillraceError(
                "invalid", f"model {name!r}, version {version!r}: has characters that UTF-8 cannot encode"
            ) from None

    @abc.abstractmethod
    def ready(self) -> bool:
        """Whether the server accepts requests."""

    @abc.abstractmethod
    def model(self, name: str, version: str = "") -> Model:
        """The inputs and outputs of the given version of the model. Without a version: those of the served version."""

    @abc.abstractmethod
    def infer(
        self, name: str, inputs: Sequence[Buffer], timeout: float | None = None, version: str = ""
    ) -> list[Any]:
        """The outputs for one frame, in the model's order: NumPy arrays of the model's shape, or bytes.

        Each input is any object with the buffer protocol. Bytes, and any one-dimensional buffer of unsigned bytes,
        are sent as they are. Other elements must be of the model's datatype. Their shape must be the model's
        (dimensions of 1 do not count) or flat. NumPy lacks BF16: its values are given and returned as the 16-bit
        unsigned integers that hold their bits.
        """
