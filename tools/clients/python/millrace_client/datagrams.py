"""Sends and receives the datagrams that server/udp/README.md specifies: adds and checks headers and tags."""

from __future__ import annotations

import hmac
import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

from .errors import MillraceError
from .fragments import BURST, fragment_size

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

Message = tuple[tuple[Any, ...], bytes]  # the fields of HEADER, and the payload

REQ, RSP, ACK, NACK, ERR, BUSY, HELLO, COOKIE, PING, PONG = range(1, 11)
HEADER = struct.Struct("<2sBBBBHQQHHIII")
REFUSALS = 4  # more than one, because a server may be restarting


class Channel:
    """A socket to one server. With a key (`key_id` above 0), every datagram is authenticated."""

    def __init__(self, host: str, port: int, key_id: int, key: bytes) -> None:
        self.name = f"udp://{host}:{port}"
        self._key_id, self._key = key_id, key
        self._header_bytes = 56 if key_id else 40
        self._client_id = int.from_bytes(os.urandom(8), "little")
        self._last_id = 0
        self._refusals = 0  # how often the system said that nothing listens, since a datagram came
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind)
            self._socket.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self._socket.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
            self._socket.connect(address)
            self._poll = select.poll()  # select() accepts no descriptor above 1,023
            self._poll.register(self._socket, select.POLLIN)
        except OSError as error:
            raise MillraceError("unavailable", f"{self.name}: {error}") from None

    def close(self) -> None:
        self._socket.close()

    def next_id(self) -> int:
        """Returns an unused id for a new request."""
        self._last_id += 1
        self._refusals = 0
        return self._last_id

    def send(
        self,
        kind: int,
        request_id: int,
        payload: Buffer,
        index: int = 0,
        count: int = 1,
        total: int | None = None,
        handle: int = 0,
        micros: int = 0,
    ) -> None:
        payload = bytes(payload)
        tagged = int(self._key_id != 0)
        total = len(payload) if total is None else total
        ours = (b"MR", 1, kind, tagged, self._key_id, self._header_bytes, self._client_id, request_id)
        head = HEADER.pack(*ours, index, count, total, handle, micros)
        tag = self._tag(head + payload) if tagged else b""
        for _ in range(2):  # send() may report an earlier refusal instead of sending
            try:
                self._socket.send(head + tag + payload)
                return
            except OSError as error:
                self._refusals += isinstance(error, ConnectionRefusedError)

    def receive(self, request_id: int, until: float) -> list[Message]:
        """Waits until a datagram for this request arrives or the time `until` is reached. Returns the datagrams that arrived."""
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
            message = self._read(data, request_id)
            if message is not None:
                out.append(message)
        return out

    def check_refusals(self) -> None:
        """Raises MillraceError 'unavailable' if the system reports repeatedly that nothing listens at the port."""
        if self._refusals >= REFUSALS:
            raise MillraceError("unavailable", f"{self.name}: nothing listens there")

    def _tag(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")[:16]

    def _read(self, data: bytes, request_id: int) -> Message | None:
        """The datagram's message; None if the datagram is for another request, not authentic or inconsistent."""
        if len(data) < self._header_bytes:
            return None
        head = HEADER.unpack_from(data)
        magic, version, kind, flags, key_id, header_bytes, client_id, answered, index, count, total = head[
            :11
        ]
        if (magic, version, client_id, answered) != (b"MR", 1, self._client_id, request_id):
            return None
        if (key_id, header_bytes, flags) != (self._key_id, self._header_bytes, 3 if self._key_id else 2):
            return None
        payload = data[header_bytes:]
        if key_id and not hmac.compare_digest(self._tag(data[:40] + payload), data[40:56]):
            return None
        if fragment_size(index, count, total, len(payload)) is None or (kind != RSP and count != 1):
            return None
        return head, payload
