"""millrace_client against servers that trickle, and in a process with many descriptors. For test_client_http.cpp."""

import os
import resource
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../../tools/clients/python"))
import millrace_client  # noqa: E402

PAUSE, BYTES = 0.1, 200  # 20 s for a whole answer


def trickle(head):
    """A server whose first answer comes at once, and each after it a byte at a time: from its head on, or its body."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        client = listener.accept()[0]
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        client.recv(65536)
        answer = b"HTTP/1.1 200 OK\r\nX: " + b"x" * BYTES + b"\r\nContent-Length: %d\r\n\r\n" % BYTES + b"y" * BYTES
        if not head:
            client.sendall(answer[:-BYTES])
            answer = answer[-BYTES:]
        try:
            for byte in answer:
                client.sendall(bytes([byte]))
                time.sleep(PAUSE)
        except OSError:
            pass

    threading.Thread(target=serve, daemon=True).start()
    return listener


for head in (True, False):
    listener = trickle(head)
    client = millrace_client.connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=60)
    begin = time.monotonic()
    try:
        client.infer("fake", [b""], timeout=0.5)
        sys.exit("answered")
    except millrace_client.MillraceError as error:
        assert error.code == "deadline", error
    took = time.monotonic() - begin
    assert 0.4 < took < 8, f"{took} s where 0.5 were given"

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if hard != resource.RLIM_INFINITY and hard < 1200:
    sys.exit("this test needs 1,200 descriptors")
resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 0))
held = [os.dup(0) for _ in range(1100)]
try:
    millrace_client.connect(f"udp://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
    sys.exit("answered")
except millrace_client.MillraceError as error:
    assert error.code == "unavailable", error
