"""Drives millrace_client with NumPy arrays for test_udp_clients.cpp and test_client_http.cpp.

drive_arrays.py URL [hidden]. The server's model "fake" takes uint8[1,300] and uint8[1,20] and gives uint8[1,10]
and uint8[1,40]. With `hidden` NumPy cannot be imported: the inputs are other buffers, and the outputs bytes.
"""

import array
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../../tools/clients/python"))
url, hidden = sys.argv[1], sys.argv[2:] == ["hidden"]
if hidden:
    sys.modules["numpy"] = None  # makes every import of it fail
else:
    import numpy
import millrace_client  # noqa: E402


def compute(data, size):
    return bytes(
        data[i % len(data)] ^ data[(i * 7 + 3) % len(data)] ^ ((i * 31 + 5) & 255) for i in range(size)
    )


raw = [bytes(i * 7 & 255 for i in range(300)), bytes(range(100, 120))]
expected = [compute(b"".join(raw), size) for size in (10, 40)]
with millrace_client.connect(url, timeout=30) as client:
    if hidden:
        inputs = [array.array("B", raw[0]), memoryview(raw[1])]
    else:
        inputs = [
            numpy.frombuffer(raw[0], numpy.uint8).reshape(1, 300),
            numpy.frombuffer(raw[1], numpy.uint8).reshape(20, 1),
        ]
    outputs = client.infer("fake", inputs)
    if hidden:
        assert outputs == expected, outputs
    else:
        assert [(o.dtype, o.shape) for o in outputs] == [
            (numpy.uint8, (1, 10)),
            (numpy.uint8, (1, 40)),
        ], outputs
        assert [o.tobytes() for o in outputs] == expected, outputs
        try:
            client.infer("fake", [inputs[0].astype(numpy.float32), inputs[1]])
            sys.exit("floats were taken for UINT8")
        except millrace_client.MillraceError as error:
            assert error.code == "invalid" and "in0" in str(error), error
        with millrace_client.connect(url, timeout=30, arrays=False) as other:
            assert other.infer("fake", inputs) == expected
    try:
        client.model("\ud800")
        sys.exit("a name that UTF-8 cannot write was taken")
    except millrace_client.MillraceError as error:
        assert error.code == "invalid" and "'\\ud800'" in str(error), error
for call in (client.ready, lambda: client.model("fake"), lambda: client.infer("fake", inputs)):
    try:
        call()
        sys.exit("a closed client asked the server")
    except millrace_client.MillraceError as error:
        assert error.code == "invalid" and "closed" in str(error), error
client.close()  # again: nothing happens
