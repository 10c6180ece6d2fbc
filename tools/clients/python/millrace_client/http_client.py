"""The client over HTTP: the Open Inference Protocol with binary tensors."""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .client import Client, check_timeout
from .errors import MillraceError
from .tensors import Model, Tensor, check_description, pack_inputs, unpack_outputs

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_CODES = {
    401: "denied",
    403: "denied",
    404: "not_found",
    429: "busy",
    500: "internal",
    503: "unavailable",
    504: "deadline",
}
_DOCUMENT_BYTES = 16 << 20  # the longest JSON document accepted, alone or before tensors


class Connector(Protocol):
    """Makes connections to one server."""

    name: str

    def open(self, timeout: float) -> http.client.HTTPConnection:
        ...


class TcpConnector:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.name = f"http://{host}:{port}"

    def open(self, timeout: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)


class TlsConnector(TcpConnector):
    def __init__(self, host: str, port: int, ca_file: str | None, verify: bool) -> None:
        super().__init__(host, port)
        self.name = f"https://{host}:{port}"
        try:
            self._context = ssl.create_default_context(cafile=ca_file)
        except ssl.SSLError:
            raise MillraceError("invalid", f"{ca_file} holds no certificate in PEM") from None
        except OSError as error:
            raise MillraceError("invalid", f"CA file {ca_file}: {error.strerror}") from None
        if not verify:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE

    def open(self, timeout: float) -> http.client.HTTPConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class UnixConnector:
    def __init__(self, path: str) -> None:
        self._path, self.name = path, f"unix:{path}"

    def open(self, timeout: float) -> http.client.HTTPConnection:
        return _UnixConnection(self._path, timeout)


class _BoundedReader(io.RawIOBase):
    def __init__(self, owner: _BoundedSocket, raw: io.RawIOBase) -> None:
        self._owner, self._raw = owner, raw

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        self._owner.arm()
        return self._raw.readinto(room)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _BoundedSocket:
    """A socket whose calls all end by `deadline`. (A plain socket's time-out starts again with each call.)"""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self.deadline = connected, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def arm(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def sendall(self, data: Buffer) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            self.arm()
            rest = rest[self._socket.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self, self._socket.makefile("rb", buffering=0)))


class HttpClient(Client):
    def __init__(self, connector: Connector, timeout: float, token: str, arrays: bool | None = None) -> None:
        super().__init__(timeout, arrays)
        self._connector = connector
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self._connection: http.client.HTTPConnection | None = None
        self._models: dict[tuple[str, str], Model] = {}
        self._exchange("GET", "/v2/health/live")

    def close(self) -> None:
        super().close()
        self._disconnect()

    def ready(self) -> bool:
        return self._exchange("GET", "/v2/health/ready")[0] == 200

    def model(self, name: str, version: str = "") -> Model:
        return self._find(name, version, time.monotonic() + self._timeout)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _find(self, name: str, version: str, deadline: float) -> Model:
        self._check_open()
        if (name, version) not in self._models:
            self._check_name(name, version)
            path = self._path(name, version)
            status, _, body = self._exchange("GET", path, deadline=deadline)
            if status != 200:
                self._raise(path, status, body)
            try:
                document = json.loads(body)
                inputs, outputs = (
                    [
                        Tensor(t["name"], t["datatype"], tuple(int(n) for n in t["shape"]))
                        for t in document[key]
                    ]
                    for key in ("inputs", "outputs")
                )
                newest = (document.get("versions") or [""])[-1]
                check_description(name, inputs, outputs)
                self._models[name, version] = Model(document["name"], version or newest, inputs, outputs)
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
                raise MillraceError("protocol", f"{path}: the answer is not a model's metadata") from None
        return self._models[name, version]

    def infer(
        self, name: str, inputs: Sequence[Buffer], timeout: float | None = None, version: str = ""
    ) -> list[Any]:
        timeout = self._timeout if timeout is None else check_timeout(timeout)
        deadline = time.monotonic() + timeout
        model = self._find(name, version, deadline)
        data = pack_inputs(model, inputs)
        head = json.dumps(
            {
                "parameters": {"timeout": max(1, int(timeout * 1e6))},
                "inputs": [
                    {
                        "name": t.name,
                        "datatype": t.datatype,
                        "shape": t.shape,
                        "parameters": {"binary_data_size": t.nbytes},
                    }
                    for t in model.inputs
                ],
                "outputs": [{"name": t.name, "parameters": {"binary_data": True}} for t in model.outputs],
            }
        ).encode()
        headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(head)),
        }
        path = self._path(name, version) + "/infer"
        limit = _DOCUMENT_BYTES + sum(t.nbytes for t in model.outputs)
        status, answer, body = self._exchange(
            "POST", path, b"".join([head, *data]), headers, deadline, limit
        )
        if status != 200:
            self._models.pop((name, version), None)  # the server may serve another version by now
            self._raise(path, status, body)
        try:
            skip = int(answer.get("Inference-Header-Content-Length", ""))
        except ValueError:
            raise MillraceError("protocol", f"{path}: the answer has no binary outputs") from None
        return unpack_outputs(model, body[skip:], self._numpy)

    @staticmethod
    def _path(name: str, version: str) -> str:
        path = "/v2/models/" + urllib.parse.quote(name, safe="")
        return path + ("/versions/" + urllib.parse.quote(version, safe="") if version else "")

    @staticmethod
    def _raise(path: str, status: int, body: bytes) -> NoReturn:
        try:
            message = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError, RecursionError):
            message = "no reason given"
        code = _CODES.get(status, "invalid" if 400 <= status < 500 else "protocol")
        raise MillraceError(code, f"{path}: status {status}: {message}")

    def _connected(self, deadline: float) -> http.client.HTTPConnection:
        """Returns the open connection, or opens one. The socket of the connection observes the deadline."""
        if self._connection is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection = self._connector.open(left)
            self._connection.connect()
            if self._connection.sock.family != socket.AF_UNIX:
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._bounded = _BoundedSocket(self._connection.sock)
            self._connection.sock = self._bounded
        self._bounded.deadline = deadline
        return self._connection

    def _read(self, response: http.client.HTTPResponse, path: str, limit: int) -> bytes:
        data = response.read(limit + 1)
        if len(data) > limit:
            self._disconnect()  # the rest of this answer would precede the next answer
            raise MillraceError("protocol", f"{path}: the answer is longer than the allowed {limit:,} bytes")
        if response.length:
            raise http.client.IncompleteRead(data, response.length)
        return data

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
        limit: int = _DOCUMENT_BYTES,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        self._check_open()
        deadline = time.monotonic() + self._timeout if deadline is None else deadline
        kept = self._connection is not None
        for attempt in range(2):
            try:
                connection = self._connected(deadline)
                connection.request(method, path, body, {**self._headers, **(headers or {})})
                response = connection.getresponse()
                data = self._read(response, path, limit)
                if response.will_close:
                    self._disconnect()
                return response.status, response.headers, data
            except TimeoutError:
                self._disconnect()
                raise MillraceError("deadline", f"{self._connector.name}: no answer in time") from None
            except ssl.SSLCertVerificationError as error:
                self._disconnect()
                raise MillraceError(
                    "untrusted",
                    f"{self._connector.name}: its certificate is not accepted: {error.verify_message}; "
                    "give a CA file with the certificates to trust",
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self._disconnect()
                # The server may have closed the kept connection, which does not mean that it refused this request.
                if attempt == 1 or not kept:
                    raise MillraceError("unavailable", f"{self._connector.name}: {error}") from None
        raise AssertionError("the second attempt returns or raises")
