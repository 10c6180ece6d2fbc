#!/usr/bin/env python3
"""Inference with a Millrace server from Python: one file, standard library only, HTTP and UDP.

As a library (bytes in, bytes out: row-major, little-endian, as numpy's tobytes() gives and frombuffer() takes):

    import millrace_client
    client = millrace_client.connect("udp://127.0.0.1:8001")      # or "http://127.0.0.1:8000", "https://…", "unix:PATH"
    info = client.model("lenet5")                                  # inputs and outputs: name, datatype, shape
    outputs = client.infer("lenet5", [image_bytes], timeout=0.05)  # a list of bytes, one an output

As a program:

    python3 millrace_client.py --url udp://127.0.0.1:8001 --model lenet5 --input x.npy [--output y.npy]

Everything that fails raises MillraceError, whose `code` is one of: invalid, not_found, denied (the token), untrusted
(the server's certificate), busy, unavailable, deadline, protocol, internal. A client is for one thread at a time. The datagrams are those of server/udp/README.md.
"""

import argparse
import ast
import dataclasses
import hmac
import http.client
import io
import json
import os
import select
import socket
import ssl
import struct
import sys
import time
import urllib.parse


class MillraceError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


# Bytes of an element and NumPy's name, in the order of the COOKIE's datatype numbers, which start at 1.
DATATYPES = {
    "BOOL": (1, "|b1"), "UINT8": (1, "|u1"), "UINT16": (2, "<u2"), "UINT32": (4, "<u4"), "UINT64": (8, "<u8"),
    "INT8": (1, "|i1"), "INT16": (2, "<i2"), "INT32": (4, "<i4"), "INT64": (8, "<i8"),
    "FP16": (2, "<f2"), "FP32": (4, "<f4"), "FP64": (8, "<f8"), "BF16": (2, ""),
}


@dataclasses.dataclass
class Tensor:
    name: str
    datatype: str  # Open Inference Protocol: "FP32", "UINT8", ...
    shape: tuple

    @property
    def nbytes(self):
        size = DATATYPES.get(self.datatype, (0, ""))[0]
        for n in self.shape:
            size *= n
        return size


@dataclasses.dataclass
class Model:
    name: str
    version: str
    inputs: list
    outputs: list


def connect(url, timeout=5.0, fragment_bytes=1200, key_id=0, key=b"", ca_file=None, verify=True, token=""):
    """A client for "http://HOST:PORT", "https://HOST:PORT", "unix:PATH" (HTTP through a Unix socket) or "udp://HOST:PORT".

    `timeout` bounds connecting and all that has none of its own; a call as a whole, however its bytes trickle in.

    HTTP only: `ca_file` (PEM) says whom to trust over https, else it is whom the system trusts; without `verify`, whoever
    answers is trusted. `token` is sent as a bearer token.

    UDP only: `fragment_bytes` is the payload of a datagram (256 to 65,000); with `key_id` (1 to 255) and `key` (16 bytes
    or more) every datagram is authenticated.
    """
    if not all(" " < character <= "~" for character in token):
        raise MillraceError("invalid", "the token has a character that no token has: a space, or one beyond ASCII")
    if url.startswith("unix:"):
        if len(url) == 5 or "\0" in url:
            raise MillraceError("invalid", f"URL {url!r} names no socket")
        if len(os.fsencode(url[5:])) > 107:
            raise MillraceError("invalid", f"URL {url!r} has a path of {len(os.fsencode(url[5:]))} bytes, that of a Unix socket has 107 at the most")
        return HttpClient(_UnixConnector(url[5:]), timeout, token)
    parts = urllib.parse.urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise MillraceError("invalid", f"URL {url!r}: {error}") from None
    if parts.scheme not in ("http", "https", "udp") or not host or not port or parts.path not in ("", "/"):
        raise MillraceError("invalid", f"URL {url!r} is not http://HOST:PORT, https://HOST:PORT, unix:PATH or udp://HOST:PORT")
    if parts.scheme == "http":
        return HttpClient(_TcpConnector(host, port), timeout, token)
    if parts.scheme == "https":
        return HttpClient(_TlsConnector(host, port, ca_file, verify), timeout, token)
    return UdpClient(host, port, timeout, fragment_bytes, key_id, key)


def _check_inputs(model, inputs):
    if len(inputs) != len(model.inputs):
        raise MillraceError("invalid", f"model {model.name!r} takes {len(model.inputs)} inputs, not {len(inputs)}")
    for tensor, data in zip(model.inputs, inputs):
        if len(data) != tensor.nbytes:
            raise MillraceError("invalid", f"input {tensor.name!r} has {len(data)} bytes; the model takes {tensor.nbytes}")


def _split(model, data):
    outputs, at = [], 0
    for tensor in model.outputs:
        outputs.append(bytes(data[at : at + tensor.nbytes]))
        at += tensor.nbytes
    if at != len(data):
        raise MillraceError("protocol", f"the answer has {len(data)} bytes of outputs, the model gives {at}")
    return outputs


# --- HTTP: Open Inference Protocol, tensors in binary ---


class _TcpConnector:
    """Makes connections to one server."""

    def __init__(self, host, port):
        self._host, self._port = host, port
        self.name = f"http://{host}:{port}"

    def open(self, timeout):
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)


class _TlsConnector(_TcpConnector):
    def __init__(self, host, port, ca_file, verify):
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

    def open(self, timeout):
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)


class _UnixConnector:
    def __init__(self, path):
        self._path, self.name = path, f"unix:{path}"

    def open(self, timeout):
        connection = http.client.HTTPConnection("localhost", timeout=timeout)

        def connect():
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(timeout)
            connection.sock.connect(self._path)

        connection.connect = connect
        return connection


class _BoundedReader(io.RawIOBase):
    def __init__(self, owner, raw):
        self._owner, self._raw = owner, raw

    def readable(self):
        return True

    def readinto(self, room):
        self._owner.arm()
        return self._raw.readinto(room)

    def close(self):
        self._raw.close()
        super().close()


class _BoundedSocket:
    """A socket whose calls together end by `deadline`: its own time-out starts anew with each of them."""

    def __init__(self, connected):
        self._socket, self.deadline = connected, 0.0

    def __getattr__(self, name):
        return getattr(self._socket, name)

    def arm(self):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def sendall(self, data):
        rest = memoryview(data).cast("B")
        while rest:
            self.arm()
            rest = rest[self._socket.send(rest) :]

    def makefile(self, mode):
        return io.BufferedReader(_BoundedReader(self, self._socket.makefile(mode, buffering=0)))


class HttpClient:
    def __init__(self, connector, timeout, token):
        self._connector, self._timeout = connector, timeout
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self._connection = None
        self._models = {}
        self._exchange("GET", "/v2/health/live")

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ready(self):
        return self._exchange("GET", "/v2/health/ready")[0] == 200

    def model(self, name, version=""):
        return self._find(name, version, time.monotonic() + self._timeout)

    def _find(self, name, version, deadline):
        if (name, version) not in self._models:
            path = self._path(name, version)
            status, _, body = self._exchange("GET", path, deadline=deadline)
            if status != 200:
                self._raise(path, status, body)
            try:
                document = json.loads(body)
                inputs, outputs = ([Tensor(t["name"], t["datatype"], tuple(int(n) for n in t["shape"])) for t in document[key]]
                                   for key in ("inputs", "outputs"))
                newest = (document.get("versions") or [""])[-1]
                self._models[name, version] = Model(document["name"], version or newest, inputs, outputs)
            except (KeyError, TypeError, ValueError):
                raise MillraceError("protocol", f"{path}: the answer is not a model's metadata") from None
        return self._models[name, version]

    def infer(self, name, inputs, timeout=None, version=""):
        timeout = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        model = self._find(name, version, deadline)
        _check_inputs(model, inputs)
        head = json.dumps({
            "parameters": {"timeout": max(1, int(timeout * 1e6))},
            "inputs": [{"name": t.name, "datatype": t.datatype, "shape": t.shape, "parameters": {"binary_data_size": t.nbytes}}
                       for t in model.inputs],
            "outputs": [{"name": t.name, "parameters": {"binary_data": True}} for t in model.outputs],
        }).encode()
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
        path = self._path(name, version) + "/infer"
        status, answer, body = self._exchange("POST", path, b"".join([head, *inputs]), headers, deadline)
        if status != 200:
            self._models.pop((name, version), None)  # another version may be served by now
            self._raise(path, status, body)
        try:
            skip = int(answer.get("Inference-Header-Content-Length", ""))
        except ValueError:
            raise MillraceError("protocol", f"{path}: the answer has no binary outputs") from None
        return _split(model, body[skip:])

    @staticmethod
    def _path(name, version):
        path = "/v2/models/" + urllib.parse.quote(name, safe="")
        return path + ("/versions/" + urllib.parse.quote(version, safe="") if version else "")

    @staticmethod
    def _raise(path, status, body):
        try:
            message = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            message = "no reason given"
        code = {401: "denied", 403: "denied", 404: "not_found", 429: "busy", 503: "unavailable", 504: "deadline", 500: "internal"}.get(status, "invalid" if 400 <= status < 500 else "protocol")
        raise MillraceError(code, f"{path}: status {status}: {message}")

    def _exchange(self, method, path, body=None, headers=None, deadline=None):
        deadline = time.monotonic() + self._timeout if deadline is None else deadline
        kept = self._connection is not None
        for attempt in range(2):
            try:
                if self._connection is None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise TimeoutError
                    self._connection = self._connector.open(left)
                    self._connection.connect()
                    self._connection.sock = _BoundedSocket(self._connection.sock)
                    if self._connection.sock.family != socket.AF_UNIX:
                        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connection.sock.deadline = deadline
                self._connection.request(method, path, body, {**self._headers, **(headers or {})})
                response = self._connection.getresponse()
                data = response.read()
                if response.will_close:
                    self.close()
                return response.status, response.headers, data
            except TimeoutError:
                self.close()
                raise MillraceError("deadline", f"{self._connector.name}: no answer in time") from None
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise MillraceError("untrusted", f"{self._connector.name}: its certificate is not accepted: {error.verify_message}; "
                                                 "a CA file says whom to trust") from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                # A kept connection may have been closed by the server; that says nothing about this request.
                if attempt == 1 or not kept:
                    raise MillraceError("unavailable", f"{self._connector.name}: {error}") from None


# --- UDP: Millrace datagrams ---

REQ, RSP, ACK, NACK, ERR, BUSY, HELLO, COOKIE, PING, PONG = range(1, 11)
HEADER = struct.Struct("<2sBBBBHQQHHIII")
BURST = 64
GAP = 0.001  # silence before asking for missing fragments; doubles
GAP_TRIES = 3  # NACKs in a row; then fragment 0 is sent again instead
RETRY = 0.010  # first wait for an answer; doubles up to LONGEST_RETRY, and goes on until the deadline
LONGEST_RETRY = 0.080
REFUSALS = 4  # a single one may be of a server that is just being started anew
ERRORS = {1: "protocol", 2: "unavailable", 3: "not_found", 4: "unavailable", 5: "invalid", 6: "protocol", 7: "protocol",
          8: "deadline", 9: "unavailable", 10: "internal"}
NO_SESSION, GENERATION, UNAVAILABLE = 2, 4, 9


def _size(index, count, total, length):
    """Payload bytes of every fragment but the last, as one fragment implies; None where its numbers contradict each other."""
    if index >= count:
        return None
    if count == 1:
        return total if length == total else None
    size = length
    if index == count - 1:
        if length == 0 or length > total or (total - length) % (count - 1):
            return None
        size = (total - length) // (count - 1)
    return size if size and (count - 1) * size < total <= count * size else None


class _Response:
    """Puts the fragments of one response together."""

    def __init__(self, count, size, total):
        self.key = (count, size, total)
        self.data = bytearray(total)
        self.missing = set(range(count))
        self.asked = min(count, BURST)  # fragments below were sent unasked or asked for

    def add(self, index, payload):
        if index not in self.missing:
            return False
        at = index * self.key[1]
        self.data[at : at + len(payload)] = payload
        self.missing.discard(index)
        return True

    def wants_more(self):
        return bool(self.missing) and min(self.missing) >= self.asked

    def ask(self):
        """Body of the NACK for what is missing, or for the next burst."""
        base = min(self.missing)
        if base >= self.asked:
            self.asked = min(self.key[0], base + BURST)
        wanted = sorted(i - base for i in self.missing if i < self.asked)[:BURST]
        bits = wanted[-1] + 1
        bitmap = bytearray((bits + 7) // 8)
        for bit in wanted:
            bitmap[bit // 8] |= 1 << bit % 8
        return struct.pack("<HH", base, bits) + bitmap


def _longer(wait):
    return min(wait * 2, max(RETRY, LONGEST_RETRY))


class _Again(Exception):
    """The server wants a HELLO before it takes this request."""

    def __init__(self, err, message):
        super().__init__(message)
        self.err = err


class UdpClient:
    def __init__(self, host, port, timeout, fragment_bytes, key_id, key):
        if not 256 <= fragment_bytes <= 65000:
            raise MillraceError("invalid", "fragment_bytes must be 256 to 65000")
        if not 0 <= key_id <= 255 or (key_id and len(key) < 16):
            raise MillraceError("invalid", "key_id must be 0 to 255, and a key has 16 bytes or more")
        self._timeout, self._fragment_bytes, self._key_id, self._key = timeout, fragment_bytes, key_id, key
        self._name = f"udp://{host}:{port}"
        self._client_id = int.from_bytes(os.urandom(8), "little")
        self._last_id = 0
        self._cookie, self._epoch = bytes(16), None
        self._models = {}  # (name, version) -> (Model, handle, output_bytes)
        self._refusals = 0  # how often the system said that nobody listens there, since anything came
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind)
            self._socket.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self._socket.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
            self._socket.connect(address)
            self._poll = select.poll()  # select() takes no descriptor above 1,023
            self._poll.register(self._socket, select.POLLIN)
        except OSError as error:
            raise MillraceError("unavailable", f"{self._name}: {error}") from None
        try:
            self._greet("", "", time.monotonic() + timeout)
        except MillraceError as error:
            self.close()
            if error.code != "deadline":
                raise
            # As long as the server was never heard, its silence means that it cannot be reached.
            who = f"one with another key than key {key_id}" if key_id else "one that wants a key"
            raise MillraceError("unavailable", f"{error} (no Millrace server, or {who})") from None

    def close(self):
        self._socket.close()

    def ready(self):
        try:
            _, pong = self._ask(PING, self._next_id(), bytes(16), time.monotonic() + self._timeout, (PONG,))
        except MillraceError:
            return False
        return len(pong) >= 16 and not struct.unpack_from("<I", pong, 8)[0] & 2

    def model(self, name, version=""):
        return self._find(name, version, time.monotonic() + self._timeout)[0]

    def infer(self, name, inputs, timeout=None, version=""):
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        failure = None
        for _ in range(4):
            model, handle, output_bytes = self._find(name, version, deadline)
            _check_inputs(model, inputs)
            data = inputs[0] if len(inputs) == 1 else b"".join(inputs)
            try:
                return _split(model, self._run(handle, data, output_bytes, deadline))
            except _Again as again:
                # The session ended or the model was replaced: both are found again without bothering the caller.
                if again.err == NO_SESSION:
                    self._models.clear()
                else:
                    self._models.pop((name, version), None)
                failure = again
        raise MillraceError("unavailable", str(failure))

    # sending and receiving

    def _next_id(self):
        self._last_id += 1
        return self._last_id

    def _send(self, kind, request_id, payload, index=0, count=1, total=None, handle=0, micros=0):
        tagged = self._key_id != 0
        head = HEADER.pack(b"MR", 1, kind, int(tagged), self._key_id, 56 if tagged else 40, self._client_id, request_id,
                           index, count, len(payload) if total is None else total, handle, micros)
        tag = hmac.digest(self._key, head + payload, "sha256")[:16] if tagged else b""
        for _ in range(2):  # a refusal the system remembers from before is reported instead of sending
            try:
                self._socket.send(head + tag + payload)
                return
            except OSError as error:
                self._refusals += isinstance(error, ConnectionRefusedError)

    def _receive(self, request_id, until):
        """Headers and payloads that are meant for this request; waits until something is there or `until`."""
        out = []
        if not self._poll.poll(max(0.0, until - time.monotonic()) * 1000):
            return out
        for _ in range(2 * BURST):
            try:
                data = self._socket.recv(65536)
            except OSError as error:
                self._refusals += isinstance(error, ConnectionRefusedError)
                break
            self._refusals = 0
            if len(data) < 40:
                continue
            head = HEADER.unpack_from(data)
            magic, version, kind, flags, key_id, head_len, client_id, answered = head[:8]
            if (magic, version, client_id, answered) != (b"MR", 1, self._client_id, request_id) or flags & ~1 != 2:
                continue
            if key_id != self._key_id or head_len != (56 if key_id else 40) or bool(flags & 1) != bool(key_id) or len(data) < head_len:
                continue
            payload = data[head_len:]
            if key_id and not hmac.compare_digest(hmac.digest(self._key, data[:40] + payload, "sha256")[:16], data[40:56]):
                continue
            if _size(head[8], head[9], head[10], len(payload)) is None or (kind != RSP and head[9] != 1):
                continue
            out.append((head, payload))
        return out

    def _ask(self, kind, request_id, body, deadline, kinds):
        """Sends a message of one datagram, and again until the deadline; the first answer of these kinds: (header, payload)."""
        wait, self._refusals = RETRY, 0
        while time.monotonic() < deadline:
            self._check_refusals()
            self._send(kind, request_id, body)
            until = min(deadline, time.monotonic() + wait)
            while time.monotonic() < until:
                for head, payload in self._receive(request_id, until):
                    if head[2] in kinds:
                        return head, payload
            wait = _longer(wait)
        raise MillraceError("deadline", f"{self._name}: no answer within the deadline")

    def _check_refusals(self):
        if self._refusals >= REFUSALS:
            raise MillraceError("unavailable", f"{self._name}: nothing listens there")

    # sessions and models

    def _greet(self, name, version, deadline):
        """HELLO until the session is open. What the COOKIE says of the model, where a name is given."""
        n, v = name.encode(), version.encode()
        if len(n) > 255 or len(v) > 64:
            raise MillraceError("invalid", "model names have at most 255 bytes, versions 64")
        for _ in range(4):
            body = self._cookie + struct.pack("<HHHH", self._fragment_bytes, len(n), len(v), 0) + n + v
            head, payload = self._ask(HELLO, self._next_id(), body.ljust(64, b"\0"), deadline, (COOKIE, BUSY))
            if head[2] == BUSY:
                raise MillraceError("busy", f"{self._name}: the server has all the clients it takes")
            if len(payload) < 48:
                raise MillraceError("protocol", "the COOKIE is too short")
            self._cookie = payload[:16]
            epoch, state, _, _, _, error, described, handle, input_bytes, output_bytes = struct.unpack_from("<QHHHHHHIII", payload, 16)
            if epoch != self._epoch:
                self._models.clear()  # to another server process the handles mean nothing, or another model
            self._epoch = epoch
            if state != 2:
                continue
            if error:
                what = f"model {name!r}" + (f" version {version!r}" if version else "")
                raise MillraceError(ERRORS.get(error, "protocol"), f"{what} is being loaded" if error == UNAVAILABLE else f"no {what}")
            return handle, input_bytes, output_bytes, payload[48 : 48 + described]
        raise MillraceError("protocol", f"{self._name}: the server does not accept its own cookie")

    def _find(self, name, version, deadline):
        if (name, version) in self._models:
            return self._models[name, version]
        if not name:
            raise MillraceError("invalid", "a model name is needed over UDP")
        handle, input_bytes, output_bytes, described = self._greet(name, version, deadline)
        inputs, outputs = self._describe(described)
        if any(t.nbytes == 0 for t in (*inputs, *outputs)) or (sum(t.nbytes for t in inputs), sum(t.nbytes for t in outputs)) != (input_bytes, output_bytes):
            raise MillraceError("protocol", "the model's description contradicts its sizes")
        self._models[name, version] = (Model(name, version, inputs, outputs), handle, output_bytes)
        return self._models[name, version]

    @staticmethod
    def _describe(data):
        if not data:
            raise MillraceError("unavailable", "the model's description does not fit into one datagram; use larger ones, or HTTP")
        try:
            names = list(DATATYPES)
            lists, at = ([], []), 2
            for tensors, count in zip(lists, data[:2]):
                for _ in range(count):
                    datatype, rank, length = struct.unpack_from("<BBH", data, at)
                    shape = struct.unpack_from(f"<{rank}I", data, at + 4)
                    if not 1 <= datatype <= len(names):
                        raise IndexError
                    at += 4 + rank * 4
                    tensors.append(Tensor(data[at : at + length].decode(), names[datatype - 1], shape))
                    at += length
            if at != len(data):
                raise IndexError
            return lists
        except (struct.error, IndexError, UnicodeDecodeError):
            raise MillraceError("protocol", "the model's description is malformed") from None

    # one request

    def _run(self, handle, data, output_bytes, deadline):
        request_id = self._next_id()
        size, total = self._fragment_bytes, len(data)
        count = (total + size - 1) // size
        if count > 65535:
            raise MillraceError("invalid", "the inputs do not fit into 65,535 fragments; choose a larger fragment_bytes")
        if output_bytes > 65535 * size:  # before there is room for it: a server may name any size
            raise MillraceError("invalid", "the outputs do not fit into 65,535 fragments; choose a larger fragment_bytes")
        now = time.monotonic()
        if now >= deadline:
            raise MillraceError("deadline", "the deadline passed before the request was sent")
        micros = min(0xFFFFFFFF, max(1, int((deadline - now) * 1e6)))

        def send(indices):
            for i in indices:
                self._send(REQ, request_id, data[i * size : (i + 1) * size], i, count, total, handle, micros)

        response, busy, turned_away = None, False, False  # BUSY came and we wait; it was the last the server said
        wait, retry_at, self._refusals = RETRY, now + RETRY, 0
        gap, asked, gap_at = GAP, 0, float("inf")
        send(range(min(count, BURST)))
        while True:
            for head, payload in self._receive(request_id, min(deadline, retry_at, gap_at)):
                now = time.monotonic()
                kind = head[2]
                turned_away = kind == BUSY
                if kind == RSP:
                    index, fragments, length, sender = head[8:12]
                    key = (fragments, _size(index, fragments, length, len(payload)), length)
                    if length != output_bytes or sender != handle or (response is not None and response.key != key):
                        raise MillraceError("protocol", "the response is not of the model that was asked")
                    response = response or _Response(*key)
                    if not response.add(index, payload):
                        # What the server repeats unasked is its first burst: where no NACK was answered, it is asked anew.
                        if gap_at == float("inf"):
                            gap, asked, gap_at = GAP, 0, now + GAP
                        continue
                    if not response.missing:
                        return response.data
                    wait, retry_at = RETRY, now + RETRY
                    gap, asked, gap_at = GAP, 0, now + GAP
                    if response.wants_more():
                        self._send(NACK, request_id, response.ask())
                elif kind == ACK:
                    retry_at = now + wait
                elif kind == NACK and len(payload) >= 5:
                    base, bits = struct.unpack_from("<HH", payload)
                    if len(payload) != 4 + (bits + 7) // 8:
                        continue
                    busy, wait, retry_at = False, RETRY, now + RETRY
                    wanted = [base + i for i in range(bits) if payload[4 + i // 8] >> i % 8 & 1]
                    send([i for i in wanted if i < count][:BURST])
                elif kind == BUSY and len(payload) == 8:
                    busy, wait = True, RETRY
                    retry_at = now + struct.unpack_from("<I", payload, 4)[0] / 1e6
                elif kind == ERR and len(payload) >= 4:
                    code = struct.unpack_from("<H", payload)[0]
                    message = payload[4:].decode(errors="replace")
                    if code in (NO_SESSION, GENERATION):
                        raise _Again(code, message)
                    raise MillraceError(ERRORS.get(code, "protocol"), message)
            now = time.monotonic()
            if now >= deadline:
                if turned_away:
                    raise MillraceError("busy", f"{self._name}: the server was busy until the deadline")
                raise MillraceError("deadline", f"{self._name}: no answer within the deadline")
            if now >= gap_at:
                if asked == GAP_TRIES:
                    gap_at = float("inf")
                else:
                    self._send(NACK, request_id, response.ask())
                    asked, gap = asked + 1, gap * 2
                    gap_at = now + gap
            if now >= retry_at:
                if busy:
                    busy = False
                    send(range(min(count, BURST)))
                else:
                    self._check_refusals()
                    send([0])
                    wait = _longer(wait)
                retry_at = now + wait


# --- files and the command line ---


def read_npy(path):
    """(NumPy's type string, shape, bytes) of a .npy file in C order, little-endian."""
    with open(path, "rb") as file:
        head = file.read(10)
        if len(head) < 10 or head[:6] != b"\x93NUMPY":
            raise MillraceError("invalid", f"{path}: not a .npy file")
        length = struct.unpack("<H", head[8:10])[0]
        if head[6] > 1:
            length += int.from_bytes(file.read(2), "little") << 16
        try:
            header = ast.literal_eval(file.read(length).decode("latin1"))
            descr, fortran, shape = header["descr"], header["fortran_order"], tuple(header["shape"])
        except (ValueError, SyntaxError, KeyError, TypeError):
            raise MillraceError("invalid", f"{path}: the header is malformed") from None
        if (fortran and len(shape) > 1) or not isinstance(descr, str) or descr[:1] == ">":
            raise MillraceError("invalid", f"{path}: only C order and little-endian types are read")
        return descr, shape, file.read()


def write_npy(path, descr, shape, data):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1") + data)


def _values(tensor, data):
    """The numbers of a tensor; None for datatypes the standard library has no number for."""
    form = {"BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b", "INT16": "h", "INT32": "i",
            "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d"}.get(tensor.datatype)
    return None if form is None else struct.unpack(f"<{len(data) // struct.calcsize('<' + form)}{form}", data)


def _read_key(path, key_id):
    """The key of this id from a file of lines '<id> <hexadecimal digits>'."""
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            parts = line.split()
            if not parts or line.startswith("#"):
                continue
            try:
                identifier, key = int(parts[0]), bytes.fromhex(parts[1])
            except (ValueError, IndexError):
                raise MillraceError("invalid", f"{path}, line {number}: expected '<id 1 to 255> <hexadecimal secret>'") from None
            if identifier == key_id:
                return key
    raise MillraceError("invalid", f"{path}: no key {key_id}")


def _frames(arguments, model):
    """The inputs of each frame in the files."""
    files = [read_npy(path) for path in arguments.input]
    if len(files) != len(model.inputs):
        raise MillraceError("invalid", f"model {model.name!r} takes {len(model.inputs)} inputs, not {len(files)}")
    for path, (descr, _, data), tensor in zip(arguments.input, files, model.inputs):
        if descr != DATATYPES[tensor.datatype][1] or not data or len(data) % tensor.nbytes:
            raise MillraceError("invalid", f"{path}: {descr}, {len(data)} bytes; input {tensor.name!r} is {tensor.datatype} "
                                           f"{list(tensor.shape)}, {tensor.nbytes} bytes a frame")
    counts = {len(data) // tensor.nbytes for (_, _, data), tensor in zip(files, model.inputs)}
    if len(counts) != 1:
        raise MillraceError("invalid", "the input files hold different numbers of frames")
    for frame in range(counts.pop()):
        yield [data[frame * t.nbytes : (frame + 1) * t.nbytes] for (_, _, data), t in zip(files, model.inputs)]


def _run_program(arguments):
    key = b""
    if arguments.key_id:
        if not arguments.keys:
            raise MillraceError("invalid", "--key-id needs --keys FILE")
        key = _read_key(arguments.keys, arguments.key_id)
    timeout = arguments.timeout_ms / 1000
    token = os.environ.get("MILLRACE_TOKEN", "")
    if arguments.token_file:
        with open(arguments.token_file, encoding="utf-8") as file:
            token = file.read().strip()
    client = connect(arguments.url, timeout, arguments.fragment_bytes, arguments.key_id, key, arguments.ca_file,
                     not arguments.insecure, token)
    model = client.model(arguments.model, arguments.version)
    first, answers = model.outputs[0], []
    for frame, inputs in enumerate(_frames(arguments, model)):
        output = client.infer(arguments.model, inputs, timeout, arguments.version)[0]
        answers.append(output)
        line = {"frame": frame, "output": first.name}
        values = _values(first, output)
        if values is not None:
            line["argmax"] = max(range(len(values)), key=values.__getitem__)
            line["values"] = list(values[:16])
        print(json.dumps(line))
    if arguments.output:
        descr = DATATYPES[first.datatype][1]
        if not descr:
            raise MillraceError("invalid", f"--output: NumPy has no type for {first.datatype}")
        rest = first.shape[1:] if first.shape[:1] == (1,) else first.shape
        write_npy(arguments.output, descr, (len(answers), *rest), b"".join(answers))


def _main():
    parser = argparse.ArgumentParser(description="Send .npy files to a Millrace server and print what comes back, a JSON object a frame.")
    parser.add_argument("--url", required=True, help="http://HOST:PORT, https://HOST:PORT, unix:PATH or udp://HOST:PORT")
    parser.add_argument("--model", required=True)
    parser.add_argument("--version", default="", help="default: the newest")
    parser.add_argument("--input", action="append", required=True,
                        help=".npy, one an input of the model, in its order and of its type; one frame or, along the first axis, several")
    parser.add_argument("--output", help="write the first output here (.npy, first axis = frames)")
    parser.add_argument("--timeout-ms", type=float, default=5000)
    parser.add_argument("--ca-file", help="https: PEM file of whom to trust (default: whom the system trusts)")
    parser.add_argument("--insecure", action="store_true", help="https: trust whoever answers")
    parser.add_argument("--token-file", help="file that holds the bearer token (default: MILLRACE_TOKEN, where it is set)")
    parser.add_argument("--fragment-bytes", type=int, default=1200, help="UDP: payload of a datagram")
    parser.add_argument("--key-id", type=int, default=0, help="UDP: key of the tags")
    parser.add_argument("--keys", help="UDP: file with the keys, as the server's")
    try:
        _run_program(parser.parse_args())
        return 0
    except MillraceError as error:
        print(f"millrace_client: error: {error}", file=sys.stderr)
        return 2 if error.code in ("invalid", "not_found", "denied", "untrusted") else 1
    except OSError as error:
        print(f"millrace_client: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(_main())
