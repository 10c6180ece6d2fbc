"""The client as a program: sends .npy files to a server and prints the outputs."""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

from . import Client, MillraceError, Model, Tensor, connect
from .npy import read_npy, write_npy
from .tensors import numpy_name


def _values(tensor: Tensor, data: bytes) -> tuple[Any, ...] | None:
    """The numbers of a tensor; None if the standard library has no number type for the datatype."""
    form = {
        "BOOL": "?",
        "UINT8": "B",
        "UINT16": "H",
        "UINT32": "I",
        "UINT64": "Q",
        "INT8": "b",
        "INT16": "h",
        "INT32": "i",
        "INT64": "q",
        "FP16": "e",
        "FP32": "f",
        "FP64": "d",
    }.get(tensor.datatype)
    return None if form is None else struct.unpack(f"<{len(data) // struct.calcsize('<' + form)}{form}", data)


def _read_ascii(path: str) -> str:
    with open(path, "rb") as file:
        try:
            return file.read().decode("ascii")
        except UnicodeDecodeError:
            raise MillraceError("invalid", f"{path}: has bytes that are not ASCII") from None


def _read_key(path: str, key_id: int) -> bytes:
    """Reads the key with this id from a file of lines '<id> <hexadecimal digits>'."""
    for number, line in enumerate(_read_ascii(path).splitlines(), 1):
        parts = line.split()
        if not parts or line.startswith("#"):
            continue
        try:
            identifier, key = int(parts[0]), bytes.fromhex(parts[1])
        except (ValueError, IndexError):
            raise MillraceError(
                "invalid", f"{path}, line {number}: expected '<id 1 to 255> <hexadecimal secret>'"
            ) from None
        if identifier == key_id:
            return key
    raise MillraceError("invalid", f"{path}: no key {key_id}")


def _frames(arguments: argparse.Namespace, model: Model) -> Iterator[list[bytes]]:
    """The inputs of each frame in the files."""
    files = [read_npy(path) for path in arguments.input]
    if len(files) != len(model.inputs):
        raise MillraceError(
            "invalid", f"model {model.name!r} takes {len(model.inputs)} inputs, not {len(files)}"
        )
    for path, (descr, _, data), tensor in zip(arguments.input, files, model.inputs):
        if descr != numpy_name(tensor.datatype) or not data or len(data) % tensor.nbytes:
            raise MillraceError(
                "invalid",
                f"{path} has type {descr} and {len(data)} bytes; "
                f"input {tensor.name!r} takes {tensor.datatype} {list(tensor.shape)}, {tensor.nbytes} bytes per frame",
            )
    counts = {len(data) // tensor.nbytes for (_, _, data), tensor in zip(files, model.inputs)}
    if len(counts) != 1:
        raise MillraceError("invalid", "the input files hold different numbers of frames")
    for frame in range(counts.pop()):
        yield [
            data[frame * t.nbytes : (frame + 1) * t.nbytes] for (_, _, data), t in zip(files, model.inputs)
        ]


def _connect(arguments: argparse.Namespace) -> Client:
    key = b""
    if arguments.key_id:
        if not arguments.keys:
            raise MillraceError("invalid", "--key-id needs --keys FILE")
        key = _read_key(arguments.keys, arguments.key_id)
    token = os.environ.get("MILLRACE_TOKEN", "")
    if arguments.token_file:
        token = _read_ascii(arguments.token_file).strip()
    return connect(
        arguments.url,
        arguments.timeout_ms / 1000,
        arguments.fragment_bytes,
        arguments.key_id,
        key,
        arguments.ca_file,
        not arguments.insecure,
        token,
        arrays=False,
    )


def _ask(arguments: argparse.Namespace, client: Client) -> None:
    folder = os.path.dirname(arguments.output or "") or "."
    if not os.path.isdir(folder):
        raise MillraceError("invalid", f"--output: there is no directory {folder}")
    if os.path.isdir(arguments.output or ""):
        raise MillraceError("invalid", f"--output: {arguments.output} is a directory; name a file")
    model = client.model(arguments.model, arguments.version)
    first = model.outputs[0]
    answers: list[bytes] = []
    for frame, inputs in enumerate(_frames(arguments, model)):
        output = client.infer(arguments.model, inputs, arguments.timeout_ms / 1000, arguments.version)[0]
        answers.append(output)
        line: dict[str, Any] = {"frame": frame, "output": first.name}
        values = _values(first, output)
        if values is not None:
            line["argmax"] = max(range(len(values)), key=values.__getitem__)
            line["values"] = list(values[:16])
        print(json.dumps(line))
    if arguments.output:
        rest = first.shape[1:] if first.shape[:1] == (1,) else first.shape
        write_npy(arguments.output, numpy_name(first.datatype), (len(answers), *rest), b"".join(answers))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="millrace-client",
        description="Send .npy files to a Millrace server and print the outputs, one JSON object per frame.",
    )
    parser.add_argument(
        "--url", required=True, help="http://HOST:PORT, https://HOST:PORT, unix:PATH or udp://HOST:PORT"
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--version", default="", help="default: the newest")
    parser.add_argument(
        "--input",
        action="append",
        required=True,
        help="one .npy file for each input, in the model's order and type; holds one frame, or several along the first axis",
    )
    parser.add_argument("--output", help="write the first output to this .npy file; the first axis counts frames")
    parser.add_argument("--timeout-ms", type=float, default=5000)
    parser.add_argument(
        "--ca-file", help="https: PEM file of certificates to trust (default: the system's)"
    )
    parser.add_argument("--insecure", action="store_true", help="https: trust whoever answers")
    parser.add_argument(
        "--token-file", help="file that holds the bearer token (default: MILLRACE_TOKEN if it is set)"
    )
    parser.add_argument("--fragment-bytes", type=int, default=1200, help="UDP: payload of a datagram")
    parser.add_argument("--key-id", type=int, default=0, help="UDP: id of the key that authenticates datagrams")
    parser.add_argument("--keys", help="UDP: file with the keys, in the server's format")
    try:
        arguments = parser.parse_args()
        with _connect(arguments) as client:
            _ask(arguments, client)
        return 0
    except MillraceError as error:
        print(f"millrace-client: error: {error}", file=sys.stderr)
        return 2 if error.code in ("invalid", "not_found", "denied", "untrusted") else 1
    except OSError as error:
        print(f"millrace-client: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
