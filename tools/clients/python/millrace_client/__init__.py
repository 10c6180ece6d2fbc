"""Inference with a Millrace server from Python over HTTP or UDP. Needs the standard library only.

    import millrace_client

    # The server's address may also be "http://127.0.0.1:8000", "https://…" or "unix:PATH".
    with millrace_client.connect("udp://127.0.0.1:8001") as client:
        info = client.model("lenet5")  # inputs and outputs: name, datatype, shape
        outputs = client.infer("lenet5", [image], timeout=0.05)

Inputs are NumPy arrays, bytes or any other buffer. Outputs are NumPy arrays if NumPy is installed, else bytes:
row-major and little-endian.

As a program:

    python3 -m millrace_client --url udp://127.0.0.1:8001 --model lenet5 --input x.npy [--output y.npy]

Everything that fails raises MillraceError. A client is for one thread at a time.
"""

from __future__ import annotations

import os
import urllib.parse

from .client import Client
from .errors import MillraceError
from .http_client import HttpClient, TcpConnector, TlsConnector, UnixConnector
from .tensors import Model, Tensor
from .udp_client import UdpClient

__all__ = ["Client", "MillraceError", "Model", "Tensor", "connect"]


def connect(
    url: str,
    timeout: float = 5.0,
    fragment_bytes: int = 1200,
    key_id: int = 0,
    key: bytes = b"",
    ca_file: str | None = None,
    verify: bool = True,
    token: str = "",
    arrays: bool | None = None,
) -> Client:
    """A client for "http://HOST:PORT", "https://HOST:PORT", "udp://HOST:PORT" or "unix:PATH" (HTTP through a
    Unix socket).

    `timeout` bounds connecting, and each call without a time-out of its own, however slowly its bytes arrive.

    `arrays`: whether outputs are NumPy arrays (True) or bytes (False). By default they are arrays if NumPy is
    installed.

    HTTP only: `ca_file` (PEM) says whom to trust over https; without it those are trusted whom the system trusts.
    With verify=False whoever answers is trusted. `token` is sent as a bearer token.

    UDP only: `fragment_bytes` is the payload of a datagram (256 to 65,000). With `key_id` (1 to 255) and `key`
    (16 bytes or more) every datagram is authenticated.
    """
    if not all(" " < character <= "~" for character in token):
        raise MillraceError(
            "invalid", "the token contains a space or a character beyond ASCII"
        )
    if url.startswith("unix:"):
        if len(url) == 5 or "\0" in url:
            raise MillraceError("invalid", f"URL {url!r} names no socket")
        try:
            length = len(os.fsencode(url[5:]))
        except UnicodeError as error:
            raise MillraceError("invalid", f"URL {url!r}: {error}") from None
        if length > 107:
            why = f"has a path of {length} bytes; the path of a Unix socket has at most 107"
            raise MillraceError("invalid", f"URL {url!r} {why}")
        return HttpClient(UnixConnector(url[5:]), timeout, token, arrays)
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # IDNA refuses labels of over 63 letters, as the name look-up would
    except ValueError as error:
        raise MillraceError("invalid", f"URL {url!r}: {error}") from None
    complete = host and port and parts.path in ("", "/")
    if parts.scheme not in ("http", "https", "udp") or not complete:
        raise MillraceError(
            "invalid", f"URL {url!r} is not http://HOST:PORT, https://HOST:PORT, unix:PATH or udp://HOST:PORT"
        )
    if parts.scheme == "http":
        return HttpClient(TcpConnector(host, port), timeout, token, arrays)
    if parts.scheme == "https":
        return HttpClient(TlsConnector(host, port, ca_file, verify), timeout, token, arrays)
    return UdpClient(host, port, timeout, fragment_bytes, key_id, key, arrays)
