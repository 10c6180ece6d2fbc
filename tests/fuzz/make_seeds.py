#!/usr/bin/env python3
"""Writes seeds/fuzz_udp_datagram/: one file for each kind of talk the protocol knows. The format is the fuzzer's own."""

import pathlib
import struct

HEADER = struct.Struct("<2sBBBBHQQHHIII")
REQ, RSP, ACK, NACK, ERR, BUSY, HELLO, COOKIE, PING, PONG = range(1, 11)
HANDLE = 0x10001


def datagram(kind, request_id, payload, index=0, count=1, total=None, handle=0):
    return HEADER.pack(b"MR", 1, kind, 0, 0, 40, 7, request_id, index, count, len(payload) if total is None else total, handle, 0) + payload


def talk(flags, *records):
    return bytes([flags]) + b"".join(struct.pack("<H", len(d)) + d + bytes([ms]) for d, ms in records)


def fragments(request_id, indices, size=128, total=300, handle=HANDLE):
    data, count = bytes(range(256)) + bytes(44), -(-total // size)
    return [(datagram(REQ, request_id, data[i * size : min(total, (i + 1) * size)], i, count, total, handle), 1) for i in indices]


hello = bytes(16) + struct.pack("<HHHH", 1200, 4, 1, 0) + b"echo1" + bytes(35)
signature = bytes([1, 1]) + struct.pack("<BBHII", 11, 2, 1, 1, 28) + b"x" + struct.pack("<BBHI", 2, 1, 1, 10) + b"y"
seeds = {
    "hello": talk(0, (datagram(HELLO, 1, hello), 1), (datagram(HELLO, 2, hello), 255)),
    "ping": talk(2, (datagram(PING, 1, bytes(40)), 1)),
    "one_fragment": talk(3, (datagram(REQ, 1, bytes(300), handle=HANDLE), 1), (datagram(REQ, 1, bytes(300), handle=HANDLE), 1)),
    "three_fragments": talk(3, *fragments(1, [2, 0, 1, 0])),
    "missing_fragment": talk(3, *fragments(1, [0]), *fragments(2, [2]), *fragments(1, [0])),
    "conflict": talk(3, *fragments(1, [0]), *fragments(1, [1], size=150)),
    "stale_handle": talk(3, *fragments(1, [0, 1, 2], handle=HANDLE + 1)),
    "window": talk(3, *(r for i in range(1, 8) for r in fragments(i, [0, 1, 2])), *fragments(1, [0])),
    "nack": talk(3, *fragments(1, [0, 1, 2]), (datagram(NACK, 1, struct.pack("<HHB", 0, 3, 5)), 1)),
    "server_types": talk(3, *((datagram(kind, 1, bytes(48)), 1) for kind in (RSP, ACK, ERR, BUSY, COOKIE, PONG))),
    "timeouts": talk(3, *((d, 255) for i in range(1, 5) for d, _ in fragments(i, [0]))),
    "signature": bytes([0]) + signature,
    "truncated": talk(0, *((datagram(REQ, 1, bytes(8))[:n], 0) for n in (0, 1, 39, 40, 47))),
}
folder = pathlib.Path(__file__).parent / "seeds" / "fuzz_udp_datagram"
folder.mkdir(parents=True, exist_ok=True)
for name, data in seeds.items():
    (folder / name).write_bytes(data)
