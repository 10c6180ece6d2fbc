"""Converts tensors: the caller's buffers to bytes to send, and received bytes to NumPy arrays.

On the wire a tensor is row-major and little-endian, without gaps.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import MillraceError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# For each datatype, the bytes of an element and NumPy's name, which BF16 lacks. The order is that of the datatype numbers in a COOKIE, which start at 1.
DATATYPES = {
    "BOOL": (1, "|b1"),
    "UINT8": (1, "|u1"),
    "UINT16": (2, "<u2"),
    "UINT32": (4, "<u4"),
    "UINT64": (8, "<u8"),
    "INT8": (1, "|i1"),
    "INT16": (2, "<i2"),
    "INT32": (4, "<i4"),
    "INT64": (8, "<i8"),
    "FP16": (2, "<f2"),
    "FP32": (4, "<f4"),
    "FP64": (8, "<f8"),
    "BF16": (2, ""),
}


def numpy_name(datatype: str) -> str:
    """NumPy's name of the datatype. BF16 values appear as 16-bit unsigned integers with the same bits."""
    return DATATYPES[datatype][1] or "<u2"


# Maps format characters of the `struct` module to kinds of elements in the buffer protocol.
_KINDS = {
    "?": "bool",
    **dict.fromkeys("BHILQN", "unsigned"),
    **dict.fromkeys("bhilqn", "signed"),
    **dict.fromkeys("efd", "float"),
}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output of a model."""

    name: str
    datatype: str  # name in the Open Inference Protocol: "FP32", "UINT8", ...
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return DATATYPES.get(self.datatype, (0, ""))[0] * math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    version: str
    inputs: list[Tensor]
    outputs: list[Tensor]


def check_description(model: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Raises MillraceError 'protocol' if a tensor of the model has no fixed size, or the model has no output."""
    for tensor in (*inputs, *outputs):
        if tensor.datatype not in DATATYPES or any(n < 1 for n in tensor.shape):
            raise MillraceError(
                "protocol",
                f"model {model!r}: tensor {tensor.name!r} is {tensor.datatype} {list(tensor.shape)}; "
                f"this client supports {', '.join(DATATYPES)}, and dimensions of 1 or more",
            )
    if not outputs:
        raise MillraceError("protocol", f"model {model!r} has no outputs")


def _kind_of(datatype: str) -> str:
    return {"b": "bool", "u": "unsigned", "i": "signed", "f": "float"}[numpy_name(datatype)[1]]


def _described(view: memoryview) -> str:
    """Describes the buffer's elements, for messages."""
    order = "big-endian " if view.format[:1] in (">", "!") else ""
    kind = _KINDS.get(view.format.lstrip("@=<>!"), f"format {view.format!r}")
    return (
        f"{order}elements of {view.itemsize} bytes ({kind})"
        if view.itemsize > 1
        else f"elements of one byte ({kind})"
    )


def _has_elements_of(view: memoryview, datatype: str) -> bool:
    character = view.format.lstrip("@=<" if sys.byteorder == "little" else "<")
    return _KINDS.get(character) == _kind_of(datatype) and view.itemsize == DATATYPES[datatype][0]


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [n for n in shape if n != 1]


def _to_wire(tensor: Tensor, data: Buffer) -> memoryview:
    """The buffer's elements as bytes in row-major order. Copies them only if they are not in this order already."""
    what = f"input {tensor.name!r}"
    try:
        view = memoryview(data)
    except TypeError:
        raise MillraceError(
            "invalid",
            f"{what} is of type {type(data).__name__}, which is not a buffer; "
            "give bytes, a NumPy array or an array.array",
        ) from None
    if tensor.datatype not in DATATYPES:
        raise MillraceError(
            "invalid", f"{what} is of datatype {tensor.datatype}, which this client does not know"
        )
    if view.format != "B" or view.ndim != 1:  # plain bytes are accepted for any datatype
        if not _has_elements_of(view, tensor.datatype):
            wanted = DATATYPES[tensor.datatype][1]
            advice = (
                f"; convert a NumPy array with .astype({wanted!r})"
                if wanted
                else "; give the bits of each element as a 16-bit unsigned integer"
            )
            raise MillraceError(
                "invalid", f"{what} has {_described(view)}; the model takes {tensor.datatype}{advice}"
            )
        shape = view.shape or ()
        if view.ndim != 1 and _without_ones(shape) != _without_ones(tensor.shape):
            raise MillraceError(
                "invalid", f"{what} has shape {list(shape)}; the model takes {list(tensor.shape)}"
            )
    if view.nbytes != tensor.nbytes:
        raise MillraceError(
            "invalid",
            f"{what} has {view.nbytes} bytes; the model takes {tensor.nbytes}: {tensor.datatype} "
            f"{list(tensor.shape)}",
        )
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())


def pack_inputs(model: Model, inputs: Sequence[Buffer]) -> list[memoryview]:
    """The bytes to send for each input. Raises MillraceError 'invalid' if a buffer does not match the model's input."""
    if not isinstance(inputs, (list, tuple)):
        raise MillraceError(
            "invalid",
            f"inputs is of type {type(inputs).__name__}; give a list with a buffer for each input",
        )
    if len(inputs) != len(model.inputs):
        raise MillraceError(
            "invalid", f"model {model.name!r} takes {len(model.inputs)} inputs, not {len(inputs)}"
        )
    return [_to_wire(tensor, data) for tensor, data in zip(model.inputs, inputs)]


def unpack_outputs(model: Model, data: Buffer, numpy: Any = None) -> list[Any]:
    """Splits one answer into outputs: arrays if the module `numpy` is given, else bytes."""
    view = memoryview(data)
    for tensor in model.outputs:
        if tensor.datatype not in DATATYPES:
            raise MillraceError(
                "protocol",
                f"output {tensor.name!r} is of datatype {tensor.datatype}, which this client does not know",
            )
    size = sum(tensor.nbytes for tensor in model.outputs)
    if size != len(view):
        raise MillraceError(
            "protocol", f"the answer has {len(view)} bytes of outputs, but the outputs of the model have {size}"
        )
    outputs: list[Any] = []
    at = 0
    for tensor in model.outputs:
        part = view[at : at + tensor.nbytes]
        at += tensor.nbytes
        if numpy is None:
            outputs.append(bytes(part))
        else:
            elements = numpy.frombuffer(bytearray(part), numpy_name(tensor.datatype))
            outputs.append(elements.reshape(tensor.shape))
    return outputs


def find_numpy(arrays: bool | None) -> Any:
    """The module numpy, or None if outputs are to be bytes. `arrays` None uses NumPy if it is installed; True requires NumPy."""
    if arrays is False:
        return None
    try:
        import numpy
    except ImportError:
        if arrays:
            raise MillraceError("invalid", "arrays=True needs NumPy, which is not installed") from None
        return None
    return numpy
