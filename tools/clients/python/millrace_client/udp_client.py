"""The client over UDP, with the datagrams that server/udp/README.md specifies."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .client import Client, check_timeout
from .datagrams import ACK, BUSY, COOKIE, ERR, HELLO, NACK, PING, PONG, REQ, RSP, Channel, Message
from .errors import MillraceError
from .fragments import BURST, Response, fragment_size
from .tensors import DATATYPES, Model, Tensor, check_description, pack_inputs, unpack_outputs

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

GAP = 0.001  # seconds of silence before a NACK; doubles with each NACK
GAP_TRIES = 3  # NACKs in a row before fragment 0 is sent again instead
RETRY = 0.010  # seconds before the first repetition; doubles up to LONGEST_RETRY, until the deadline
LONGEST_RETRY = 0.080
ERRORS = {1: "protocol", 2: "unavailable", 3: "not_found", 4: "unavailable", 5: "invalid", 6: "protocol"}
ERRORS |= {7: "protocol", 8: "deadline", 9: "unavailable", 10: "internal"}
NO_SESSION, GENERATION, UNAVAILABLE = 2, 4, 9


def _longer(wait: float) -> float:
    return min(wait * 2, max(RETRY, LONGEST_RETRY))


class _Again(Exception):
    """Raised if the server demands a HELLO before it accepts this request."""

    def __init__(self, err: int, message: str) -> None:
        super().__init__(message)
        self.err = err


class UdpClient(Client):
    def __init__(
        self,
        host: str,
        port: int,
        timeout: float,
        fragment_bytes: int,
        key_id: int,
        key: bytes,
        arrays: bool | None = None,
    ) -> None:
        super().__init__(timeout, arrays)
        if not 256 <= fragment_bytes <= 65000:
            raise MillraceError("invalid", "fragment_bytes must be 256 to 65000")
        if not 0 <= key_id <= 255 or (key_id and len(key) < 16):
            raise MillraceError("invalid", "key_id must be 0 to 255, and a key has 16 bytes or more")
        self._fragment_bytes = fragment_bytes
        self._cookie = bytes(16)
        self._epoch: int | None = None
        # Maps a model's name and version to the model, its handle (its number at the server) and the number of bytes of
        # its outputs.
        self._models: dict[tuple[str, str], tuple[Model, int, int]] = {}
        self._channel = Channel(host, port, key_id, key)
        try:
            self._greet("", "", time.monotonic() + timeout)
        except MillraceError as error:
            self.close()
            if error.code != "deadline":
                raise
            # If the server has never answered, it probably cannot be reached, so do not report a missed deadline.
            why = f"its keys do not match key {key_id}" if key_id else "it requires a key"
            raise MillraceError("unavailable", f"{error} (there is no Millrace server at this address, or {why})") from None

    def close(self) -> None:
        super().close()
        self._channel.close()

    def ready(self) -> bool:
        self._check_open()
        try:
            _, pong = self._ask(PING, bytes(16), time.monotonic() + self._timeout, (PONG,))
        except MillraceError:
            return False
        return len(pong) >= 16 and not struct.unpack_from("<I", pong, 8)[0] & 2

    def model(self, name: str, version: str = "") -> Model:
        return self._find(name, version, time.monotonic() + self._timeout)[0]

    def infer(
        self, name: str, inputs: Sequence[Buffer], timeout: float | None = None, version: str = ""
    ) -> list[Any]:
        deadline = time.monotonic() + (self._timeout if timeout is None else check_timeout(timeout))
        failure: _Again | None = None
        for _ in range(4):
            model, handle, output_bytes = self._find(name, version, deadline)
            parts = pack_inputs(model, inputs)
            data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
            try:
                return unpack_outputs(model, self._run(handle, data, output_bytes, deadline), self._numpy)
            except _Again as again:
                # The session ended or the model was replaced. The next iteration opens the session or looks up the model again.
                if again.err == NO_SESSION:
                    self._models.clear()
                else:
                    self._models.pop((name, version), None)
                failure = again
        raise MillraceError("unavailable", str(failure))

    def _ask(self, kind: int, body: bytes, deadline: float, kinds: tuple[int, ...]) -> Message:
        """Sends a message of one datagram repeatedly until the deadline. Returns the first answer of one of the `kinds`."""
        request_id, wait = self._channel.next_id(), RETRY
        while time.monotonic() < deadline:
            self._channel.check_refusals()
            self._channel.send(kind, request_id, body)
            until = min(deadline, time.monotonic() + wait)
            while time.monotonic() < until:
                for head, payload in self._channel.receive(request_id, until):
                    if head[2] in kinds:
                        return head, payload
            wait = _longer(wait)
        raise MillraceError("deadline", f"{self._channel.name}: no answer within the deadline")

    def _greet(self, name: str, version: str, deadline: float) -> tuple[int, int, int, bytes]:
        """Sends HELLO until the session is open. If a name is given, returns the model's description from the COOKIE."""
        n, v = name.encode(), version.encode()
        if len(n) > 255 or len(v) > 64:
            raise MillraceError("invalid", "model names have at most 255 bytes, and versions have at most 64 bytes")
        for _ in range(4):
            body = self._cookie + struct.pack("<HHHH", self._fragment_bytes, len(n), len(v), 0) + n + v
            head, payload = self._ask(HELLO, body.ljust(64, b"\0"), deadline, (COOKIE, BUSY))
            if head[2] == BUSY:
                raise MillraceError("busy", f"{self._channel.name}: the server already has its maximum number of clients")
            if len(payload) < 48:
                raise MillraceError("protocol", "the COOKIE is too short")
            self._cookie = payload[:16]
            epoch, state, _, _, _, error, described, handle, input_bytes, output_bytes = struct.unpack_from(
                "<QHHHHHHIII", payload, 16
            )
            if epoch != self._epoch:
                self._models.clear()  # in another server process, handles are invalid or name other models
            self._epoch = epoch
            if state != 2:
                continue
            if error:
                what = f"model {name!r}" + (f" version {version!r}" if version else "")
                raise MillraceError(
                    ERRORS.get(error, "protocol"),
                    f"{what} is being loaded" if error == UNAVAILABLE else f"no {what}",
                )
            return handle, input_bytes, output_bytes, payload[48 : 48 + described]
        raise MillraceError("protocol", f"{self._channel.name}: the server does not accept its own cookie")

    def _find(self, name: str, version: str, deadline: float) -> tuple[Model, int, int]:
        self._check_open()
        if (name, version) in self._models:
            return self._models[name, version]
        if not name:
            raise MillraceError("invalid", "a model name is needed over UDP")
        self._check_name(name, version)
        handle, input_bytes, output_bytes, described = self._greet(name, version, deadline)
        inputs, outputs = self._describe(described)
        check_description(name, inputs, outputs)
        if (sum(t.nbytes for t in inputs), sum(t.nbytes for t in outputs)) != (input_bytes, output_bytes):
            raise MillraceError("protocol", "the model's description contradicts its sizes")
        self._models[name, version] = (Model(name, version, inputs, outputs), handle, output_bytes)
        return self._models[name, version]

    @staticmethod
    def _describe(data: bytes) -> tuple[list[Tensor], list[Tensor]]:
        if not data:
            raise MillraceError(
                "unavailable",
                "the model's description does not fit into one datagram; use larger datagrams, or HTTP",
            )
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

    def _run(self, handle: int, data: memoryview, output_bytes: int, deadline: float) -> bytearray:
        size = self._fragment_bytes
        for what, total in (("inputs", len(data)), ("outputs", output_bytes)):  # a server can claim any size
            if total > 65535 * size:
                why = f"the {what} do not fit into 65,535 fragments; choose a larger fragment_bytes"
                raise MillraceError("invalid", why)
        if time.monotonic() >= deadline:
            raise MillraceError("deadline", "the deadline passed before the request was sent")
        return _Request(self._channel, handle, data, size, output_bytes, deadline).run()


class _Request:
    """The state of one request: the sent fragments, the received ones, and the times to send again."""

    def __init__(
        self, channel: Channel, handle: int, data: memoryview, size: int, output_bytes: int, deadline: float
    ) -> None:
        self._channel, self._handle, self._data, self._size = channel, handle, data, size
        self._output_bytes, self._deadline = output_bytes, deadline
        self._id = channel.next_id()
        self._count = (len(data) + size - 1) // size
        now = time.monotonic()
        self._micros = min(0xFFFFFFFF, max(1, int((deadline - now) * 1e6)))
        self._response: Response | None = None
        self._busy = False  # BUSY arrived; the request will be sent again
        self._turned_away = False  # the server's last message was BUSY
        self._wait, self._retry_at = RETRY, now + RETRY
        self._gap, self._asked, self._gap_at = GAP, 0, float("inf")

    def run(self) -> bytearray:
        self._send_burst()
        while True:
            until = min(self._deadline, self._retry_at, self._gap_at)
            for head, payload in self._channel.receive(self._id, until):
                self._take(head, payload, time.monotonic())
                if self._response is not None and not self._response.missing:
                    return self._response.data
            self._remind(time.monotonic())

    def _send(self, indices: Iterable[int]) -> None:
        for i in indices:
            part = self._data[i * self._size : (i + 1) * self._size]
            total = len(self._data)
            self._channel.send(REQ, self._id, part, i, self._count, total, self._handle, self._micros)

    def _send_burst(self) -> None:
        self._send(range(min(self._count, BURST)))

    def _restart(self, now: float) -> None:
        """Resets the waiting time to its first value. Called when the server has answered."""
        self._wait, self._retry_at = RETRY, now + RETRY

    def _await_fragments(self, now: float) -> None:
        self._gap, self._asked, self._gap_at = GAP, 0, now + GAP

    def _take(self, head: tuple[Any, ...], payload: bytes, now: float) -> None:
        kind = head[2]
        self._turned_away = kind == BUSY
        if kind == RSP:
            self._take_fragment(head, payload, now)
        elif kind == ACK:
            self._retry_at = now + self._wait
        elif kind == NACK and len(payload) >= 5:
            base, bits = struct.unpack_from("<HH", payload)
            if len(payload) != 4 + (bits + 7) // 8:
                return
            self._busy = False
            self._restart(now)
            wanted = [base + i for i in range(bits) if payload[4 + i // 8] >> i % 8 & 1]
            self._send([i for i in wanted if i < self._count][:BURST])
        elif kind == BUSY and len(payload) == 8:
            self._busy, self._wait = True, RETRY
            self._retry_at = now + struct.unpack_from("<I", payload, 4)[0] / 1e6
        elif kind == ERR and len(payload) >= 4:
            code = struct.unpack_from("<H", payload)[0]
            message = payload[4:].decode(errors="replace")
            if code in (NO_SESSION, GENERATION):
                raise _Again(code, message)
            raise MillraceError(ERRORS.get(code, "protocol"), message)

    def _take_fragment(self, head: tuple[Any, ...], payload: bytes, now: float) -> None:
        index, fragments, length, sender = head[8:12]
        size = fragment_size(index, fragments, length, len(payload))
        assert size is not None  # the channel drops inconsistent fragments
        same = self._response is None or self._response.key == (fragments, size, length)
        if not same or length != self._output_bytes or sender != self._handle:
            raise MillraceError("protocol", "the response comes from another model")
        response = self._response or Response(fragments, size, length)
        self._response = response
        if not response.add(index, payload):
            # The server repeats its first fragments unasked. If no NACK is pending, ask for the missing fragments again.
            if self._gap_at == float("inf"):
                self._await_fragments(now)
            return
        if response.missing:
            self._restart(now)
            self._await_fragments(now)
            if response.wants_more():
                self._channel.send(NACK, self._id, response.ask())

    def _remind(self, now: float) -> None:
        """Sends the datagrams that are due. Raises MillraceError if the deadline has passed."""
        name = self._channel.name
        if now >= self._deadline:
            if self._turned_away:
                raise MillraceError("busy", f"{name}: the server was busy until the deadline")
            raise MillraceError("deadline", f"{name}: no answer within the deadline")
        if now >= self._gap_at:
            if self._asked == GAP_TRIES:
                self._gap_at = float("inf")
            else:
                assert self._response is not None  # gaps are timed only after the first fragment
                self._channel.send(NACK, self._id, self._response.ask())
                self._asked, self._gap = self._asked + 1, self._gap * 2
                self._gap_at = now + self._gap
        if now >= self._retry_at:
            if self._busy:
                self._busy = False
                self._send_burst()
            else:
                self._channel.check_refusals()
                self._send([0])
                self._wait = _longer(self._wait)
            self._retry_at = now + self._wait
