#!/usr/bin/env python3
"""Writes seeds/<target>/: one file for each kind of message that a fuzz target knows, in that target's own format."""

import gzip
import json
import pathlib
import struct
import zlib

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


def tensors(x=b"", **parameters):
    inputs = [{"name": "x", "shape": [1, 2, 2], "datatype": "FP32"}, {"name": "n", "shape": [1, 3], "datatype": "UINT8", "data": [1, 2, 255]}]
    inputs[0].update({"parameters": {"binary_data_size": len(x)}} if x else {"data": [1.5, -2, 1e-3, 3e2]})
    return json.dumps({"id": "a", "inputs": inputs, "outputs": [{"name": "y", "parameters": parameters}]}).encode()


def request(choice, line, body=b"", *headers):
    lines = [line + " HTTP/1.1", "Host: h", *headers, *([f"Content-Length: {len(body)}"] if body or line.startswith("POST") else [])]
    return bytes([choice]) + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


infer, x = "POST /v2/models/m/infer", struct.pack("<4f", 1, 2, 3, 4)
binary = tensors(x, binary_data=True)
length = f"Inference-Header-Content-Length: {len(binary)}"
http = {
    **{name: request(0, "GET " + path) for name, path in {
        "server": "/v2", "live": "/v2/health/live", "ready": "/v2/health/ready", "model": "/v2/models/m", "version": "/v2/models/m/versions/1",
        "config": "/v2/models/m/config", "stats": "/v2/models/m/stats", "all_stats": "/v2/models/stats", "metrics": "/metrics",
        "status": "/v2/millrace/status", "description": "/v2/millrace/models/m", "trace": "/v2/millrace/trace", "page": "/", "percent": "/v2/models/%6d%2F"}.items()},
    "json": request(0, infer, tensors()),
    "binary": request(0, infer, binary + x, length),
    "gzip": request(0, infer, gzip.compress(binary + x, mtime=0), length, "Content-Encoding: gzip", "Accept-Encoding: gzip;q=0.5, deflate"),
    "deflate": request(0, infer, zlib.compress(tensors(classification=2)), "Content-Encoding: deflate"),
    "bomb": request(0, infer, gzip.compress(bytes(1 << 20), mtime=0), "Content-Encoding: gzip"),
    "chunked": bytes([0]) + f"{infer} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + b"%x\r\n" % len(tensors()) + tensors() + b"\r\n0\r\n\r\n",
    "raw": request(0, infer, x, "Inference-Header-Content-Length: 0"),
    "index": request(0, "POST /v2/repository/index"),
    "load": request(0, "POST /v2/repository/models/m/load", b"{}"),
    "load_elsewhere": request(4, "POST /v2/repository/models/m/load", b"{}"),
    "load_by_page": request(0, "POST /v2/repository/models/m/load", b"{}", "Origin: http://b"),
    "token": request(1, infer, tensors(), "Authorization: Bearer writer-token-0000"),
    "weak_token": request(1, "POST /v2/repository/models/m/load", b"", "Authorization: Bearer reader-token-0000"),
    "no_token": request(1, infer, tensors()),
    "preflight": request(2, "OPTIONS /v2", b"", "Origin: http://a"),
    "delete": request(0, "DELETE /v2"),
    "two_hosts": request(0, "GET /v2", b"", "Host: [::1]:80"),
    "no_host": b"\0GET /v2 HTTP/1.1\r\n\r\n",
}
one = json.loads(tensors())
one["inputs"] = one["inputs"][:1]
both = json.dumps({"inputs": [{"name": "x", "shape": [1, 2, 2], "datatype": "FP32", "parameters": {"binary_data_size": 16}}],
                   "parameters": {"binary_data_output": True, "priority": 3, "timeout": "500"}}).encode()
q = json.dumps({"inputs": [{"name": "x", "shape": [1, 2, 2], "datatype": "INT8", "data": [[[1, -8], [7, 0]]]}]}).encode()
every = json.dumps({"inputs": [{"name": t, "shape": [1, 2], "datatype": t, "data": d} for t, d in [
    ("BOOL", [True, False]), ("UINT8", [0, 255]), ("INT16", [-1, 1]), ("UINT32", [0, 4294967295]), ("INT64", [-9223372036854775808, 1]),
    ("UINT64", [18446744073709551615, 0]), ("FP32", [1e38, -0.0]), ("FP64", [1e308, 5e-324])]] + [
    {"name": "FP16", "shape": [1, 2], "datatype": "FP16", "parameters": {"binary_data_size": 4}}]}).encode()
body = {
    "json": bytes(3) + json.dumps(one).encode(),
    "binary": struct.pack("<BH", 2, len(both)) + both + x,
    "raw": struct.pack("<BH", 2, 0) + x,
    "raw_quantised": struct.pack("<BH", 2, 0) + bytes([1, 255, 7, 248]),
    "quantised": bytes(3) + q,
    "every_type": struct.pack("<BH", 3, len(every)) + every + bytes(4),
    "sequence": bytes(3) + b'{"parameters":{"sequence_id":7},"inputs":[]}',
    "shared_memory": bytes(3) + b'{"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","parameters":{"shared_memory_region":"r"}}]}',
    "ragged": bytes(3) + b'{"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[[1,2],[3]]}]}',
}
example = (pathlib.Path(__file__).parents[2] / "configs" / "server.yaml").read_bytes()
config = {
    "example": b"\0" + example,
    "sections": b"\0schema: 1\ndeployments: [a, b]\nhttp: {listen: ['tls:[::1]:1', 'unix:/x'], tokens: t}\nudp: {listen: 'h:1', keys: k}\nlog: {level: debug}\n",
    "wrong": b"\0slots: 0\nhttp:\n  lisen: a\n",
    "aliases": b"\0a: &a [x, x]\nb: [*a, *a]\n",
    "stray_documents": b"\0, b:x] [*a, *a]\n",
    "tokens": b"\1# names\nr read reader-token-0000\nw infer sha256:" + b"0" * 64 + b"\n",
    "bad_tokens": b"\1a write secretsecretsecret\n",
}
def link(kind, to_sender, generation=1, epoch=1, number=0, offset=0, length=0, next_=0, limit=0, arrived=0):
    """Returns the header of a link datagram; the fuzz target corrects magic, version and CRCs."""
    ends = (1, 2) if to_sender else (2, 1)
    return struct.pack("<4sBBBBHHIIIQIIIIQII", b"", 0, kind, 0, 0, *ends, generation, epoch, number, 5, offset, length, next_, limit, arrived, 0, 0)


vectors = (pathlib.Path(__file__).parents[1] / "vectors" / "link_datagrams" / "datagrams.txt").read_text().splitlines()[1:]
link_data = [(link(1, False, number=n, offset=16 * n, length=16) + bytes([n] * 16), 1) for n in range(8)]
links = {
    "vectors": talk(0, *((bytes.fromhex(line.split()[-1]), 1) for line in vectors if " none " in line and len(line) < 600)),
    "data": talk(3, *link_data),
    "gaps": talk(3, *link_data[1:4], link_data[0], link_data[0], *link_data[6:]),
    "states": talk(3, (link(2, True, next_=1, limit=6), 1), (link(2, True, next_=1, limit=6, arrived=1), 3), (link(2, True, next_=9, limit=14), 1)),
    "silence": talk(3, *((link(1, False, epoch=2, length=1) + b"x", 50) for _ in range(5))),
    "greetings": talk(1, *((link(3, False, generation=g, number=n, offset=48, limit=5), 1) for g, n in ((1, 0), (2, 7), (1, 0))), *link_data),
    "closed": talk(3, (link(4, False), 1), link_data[0], (link(5, True), 9), (link(2, True, limit=5), 9)),
}
for target, files in {"fuzz_datagram": links, "fuzz_udp_datagram": seeds, "fuzz_http_request": http, "fuzz_infer_request": body, "fuzz_config": config}.items():
    folder = pathlib.Path(__file__).parent / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
