"""Reads and writes NumPy's file format without NumPy."""

from __future__ import annotations

import ast
import contextlib
import os
import struct
from collections.abc import Sequence

from .errors import MillraceError


def read_npy(path: str) -> tuple[str, tuple[int, ...], bytes]:
    """Reads a .npy file in C order, little-endian. Returns (NumPy's type string, shape, bytes)."""
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


def write_npy(path: str, descr: str, shape: Sequence[int], data: bytes) -> None:
    """Writes the file atomically: if writing fails, an existing file of this name stays unchanged."""
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    parts = (b"\x93NUMPY\x01\x00", struct.pack("<H", len(header)), header.encode("latin1"), data)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        with open(path, "wb") as file:
            file.writelines(parts)
        return
    target = os.path.realpath(path)  # follows symbolic links to the actual file
    scratch = f"{target}.{os.getpid()}.tmp"
    file = open(scratch, "xb")
    try:
        with file:
            file.writelines(parts)
        os.replace(scratch, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
