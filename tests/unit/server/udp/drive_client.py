"""Drives millrace_client for test_udp_clients.cpp: drive_client.py URL SEED REQUESTS TIMEOUT_S INPUT OUTPUT KEY_ID KEY_HEX.

Prints one JSON object: how many requests were answered rightly, wrongly, or failed and how. The inputs begin with
eight bytes that no other request has, so that the test can count executions.
"""

import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../../tools/clients/python"))
import millrace_client.udp_client  # noqa: E402

millrace_client.udp_client.RETRY = 0.1  # the answer may take long on a machine with other work


def compute(data, size):
    return bytes(data[i % len(data)] ^ data[(i * 7 + 3) % len(data)] ^ ((i * 31 + 5) & 255) for i in range(size))


url, seed, requests, timeout, input_bytes, output_bytes, key_id, key = sys.argv[1:9]
rng = random.Random(int(seed))
input_bytes, output_bytes = int(input_bytes), int(output_bytes)
options = {"key_id": int(key_id), "key": bytes.fromhex(key)} if url.startswith("udp") else {}
for attempt in range(20):  # the greeting, too, may fail on a bad channel
    try:
        client = millrace_client.connect(url, arrays=False, **options)
        model = client.model("fake")
        break
    except millrace_client.MillraceError as error:
        if error.code != "unavailable":
            raise
result = {"right": 0, "wrong": 0, "failed": {}, "inputs": [[t.name, t.datatype, list(t.shape)] for t in model.inputs]}
for i in range(int(requests)):
    data = struct.pack("<Q", (int(seed) << 32) + i) + rng.randbytes(input_bytes - 8)
    try:
        right = client.infer("fake", [data], timeout=float(timeout)) == [compute(data, output_bytes)]
        result["right" if right else "wrong"] += 1
    except millrace_client.MillraceError as error:
        result["failed"][error.code] = result["failed"].get(error.code, 0) + 1
print(json.dumps(result))
