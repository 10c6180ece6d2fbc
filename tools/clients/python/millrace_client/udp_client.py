"""The client over UDP. The datagrams are those of server/udp/README.md."""

from __future__ import annotations

import hmac
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .client import Client
from .errors import MillraceError
from .fragments import BURST, Response, fragment_size
from .tensors import DATATYPES, Model, Tensor, pack_inputs, unpack_outputs

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

Message = tuple[tuple[Any, ...], bytes]  # what HEADER holds, and the payload

REQ, RSP, ACK, NACK, ERR, BUSY, HELLO, COOKIE, PING, PONG = range(1, 11)
HEADER = struct.Struct("<2sBBBBHQQHHIII")
GAP = 0.001  # silence before asking for missing fragments; doubles
GAP_TRIES = 3  # NACKs in a row; then fragment 0 is sent again instead
RETRY = 0.010  # first wait for an answer; doubles up to LONGEST_RETRY, and goes on until the deadline
LONGEST_RETRY = 0.080
REFUSALS = 4  # a single one may be of a server that is just being started anew
ERRORS = {1: "protocol", 2: "unavailable", 3: "not_found", 4: "unavailable", 5: "invalid", 6: "protocol", 7: "protocol",
          8: "deadline", 9: "unavailable", 10: "internal"}
NO_SESSION, GENERATION, UNAVAILABLE = 2, 4, 9


def _longer(wait: float) -> float:
    return min(wait * 2, max(RETRY, LONGEST_RETRY))


class _Again(Exception):
    """The server wants a HELLO before it takes this request."""

    def __init__(self, err: int, message: str) -> None:
        super().__init__(message)
        self.err = err


class UdpClient(Client):
    def __init__(self, host: str, port: int, timeout: float, fragment_bytes: int, key_id: int, key: bytes,
                 arrays: bool | None = None) -> None:
        super().__init__(timeout, arrays)
        if not 256 <= fragment_bytes <= 65000:
            raise MillraceError("invalid", "fragment_bytes must be 256 to 65000")
        if not 0 <= key_id <= 255 or (key_id and len(key) < 16):
            raise MillraceError("invalid", "key_id must be 0 to 255, and a key has 16 bytes or more")
        self._fragment_bytes, self._key_id, self._key = fragment_bytes, key_id, key
        self._name = f"udp://{host}:{port}"
        self._client_id = int.from_bytes(os.urandom(8), "little")
        self._last_id = 0
        self._cookie = bytes(16)
        self._epoch: int | None = None
        self._models: dict[tuple[str, str], tuple[Model, int, int]] = {}  # with the handle and the bytes of the outputs
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

    def close(self) -> None:
        super().close()
        self._socket.close()

    def ready(self) -> bool:
        self._check_open()
        try:
            _, pong = self._ask(PING, self._next_id(), bytes(16), time.monotonic() + self._timeout, (PONG,))
        except MillraceError:
            return False
        return len(pong) >= 16 and not struct.unpack_from("<I", pong, 8)[0] & 2

    def model(self, name: str, version: str = "") -> Model:
        return self._find(name, version, time.monotonic() + self._timeout)[0]

    def infer(self, name: str, inputs: Sequence[Buffer], timeout: float | None = None, version: str = "") -> list[Any]:
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        failure: _Again | None = None
        for _ in range(4):
            model, handle, output_bytes = self._find(name, version, deadline)
            parts = pack_inputs(model, inputs)
            data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
            try:
                return unpack_outputs(model, self._run(handle, data, output_bytes, deadline), self._numpy)
            except _Again as again:
                # The session ended or the model was replaced: both are found again without bothering the caller.
                if again.err == NO_SESSION:
                    self._models.clear()
                else:
                    self._models.pop((name, version), None)
                failure = again
        raise MillraceError("unavailable", str(failure))

    # sending and receiving

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, kind: int, request_id: int, payload: Buffer, index: int = 0, count: int = 1, total: int | None = None,
              handle: int = 0, micros: int = 0) -> None:
        payload = bytes(payload)
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

    def _receive(self, request_id: int, until: float) -> list[Message]:
        """Headers and payloads that are meant for this request; waits until something is there or `until`."""
        out: list[Message] = []
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
            if fragment_size(head[8], head[9], head[10], len(payload)) is None or (kind != RSP and head[9] != 1):
                continue
            out.append((head, payload))
        return out

    def _ask(self, kind: int, request_id: int, body: bytes, deadline: float, kinds: tuple[int, ...]) -> Message:
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

    def _check_refusals(self) -> None:
        if self._refusals >= REFUSALS:
            raise MillraceError("unavailable", f"{self._name}: nothing listens there")

    # sessions and models

    def _greet(self, name: str, version: str, deadline: float) -> tuple[int, int, int, bytes]:
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

    def _find(self, name: str, version: str, deadline: float) -> tuple[Model, int, int]:
        self._check_open()
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
    def _describe(data: bytes) -> tuple[list[Tensor], list[Tensor]]:
        if not data:
            raise MillraceError("unavailable", "the model's description does not fit into one datagram; use larger ones, or HTTP")
        try:
            names = list(DATATYPES)
            lists: tuple[list[Tensor], list[Tensor]] = ([], [])
            at = 2
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

    def _run(self, handle: int, data: memoryview, output_bytes: int, deadline: float) -> bytearray:
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

        def send(indices: Iterable[int]) -> None:
            for i in indices:
                self._send(REQ, request_id, data[i * size : (i + 1) * size], i, count, total, handle, micros)

        response: Response | None = None
        busy, turned_away = False, False  # BUSY came and we wait; it was the last the server said
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
                    size_of_theirs = fragment_size(index, fragments, length, len(payload))
                    assert size_of_theirs is not None  # _receive() drops what contradicts itself
                    key = (fragments, size_of_theirs, length)
                    if length != output_bytes or sender != handle or (response is not None and response.key != key):
                        raise MillraceError("protocol", "the response is not of the model that was asked")
                    response = response or Response(*key)
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
                    assert response is not None  # a gap is timed from its first fragment on
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

