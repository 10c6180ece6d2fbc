"""Writes ONNX files: a minimal protobuf writer for the messages that tests need."""

import struct

import numpy

DATA_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7}


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_field(index, number):
    return varint(index << 3) + varint(number)


def bytes_field(index, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(index << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    head = bytes_field(1, name)
    if isinstance(value, str):
        return head + bytes_field(4, value) + number_field(20, 3)
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + number_field(20, 1)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], float):
        return head + b"".join(varint(7 << 3 | 5) + struct.pack("<f", v) for v in value) + number_field(20, 6)
    if isinstance(value, (list, tuple)):
        return head + b"".join(number_field(8, v) for v in value) + number_field(20, 7)
    return head + number_field(3, value) + number_field(20, 2)


def tensor(name, array):
    dims = b"".join(number_field(1, d) for d in array.shape)
    return dims + number_field(2, DATA_TYPES[array.dtype.name]) + bytes_field(8, name) + bytes_field(9, numpy.ascontiguousarray(array).tobytes())


def value_info(name, shape, dtype="float32"):
    """The name, type and shape of an input or output. A shape of None is left to the reader of the file."""
    dims = b"" if shape is None else bytes_field(2, b"".join(bytes_field(1, number_field(1, d)) for d in shape))
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, number_field(1, DATA_TYPES[dtype]) + dims))


class Model:
    """Nodes, constants, inputs and outputs; `data()` is the file."""

    def __init__(self, domains=(), opset=13):
        self.opsets = [("", opset)] + [(d, 1) for d in domains]
        self.nodes, self.constants, self.inputs, self.outputs, self.annotations = [], {}, {}, [], {}
        self.constants_as_nodes = False  # whether constants are nodes of type Constant, not initialisers
        self.types = {}  # the types of those inputs and outputs that are not float32

    def input(self, name, shape, dtype="float32"):
        self.inputs[name] = tuple(shape)
        self.types[name] = dtype
        return name

    def constant(self, name, array, dtype="float32"):
        assert name not in self.constants, name
        self.constants[name] = numpy.asarray(array, dtype=dtype)
        return name

    def node(self, type, inputs, output, domain="", **attributes):
        """Adds a node. `output` is the name of its output, or a list of names if it has several."""
        self.nodes.append((type, domain, list(inputs), output, attributes))
        return output

    def output(self, name, shape, dtype="float32"):
        self.outputs.append((name, shape))
        self.types[name] = dtype

    def data(self):
        graph = b""
        for name, array in self.constants.items() if self.constants_as_nodes else ():
            value = bytes_field(1, "value") + bytes_field(5, tensor("", array)) + number_field(20, 4)
            graph += bytes_field(1, bytes_field(2, name) + bytes_field(3, name) + bytes_field(4, "Constant") + bytes_field(5, value))
        for type, domain, inputs, output, attributes in self.nodes:
            outputs = [output] if isinstance(output, str) else output
            node = b"".join(bytes_field(1, i) for i in inputs) + b"".join(bytes_field(2, o) for o in outputs)
            node += bytes_field(3, next(o for o in outputs if o)) + bytes_field(4, type)
            node += b"".join(bytes_field(5, attribute(k, v)) for k, v in attributes.items())
            graph += bytes_field(1, node + (bytes_field(7, domain) if domain else b""))
        graph += bytes_field(2, "dialect")
        if not self.constants_as_nodes:
            graph += b"".join(bytes_field(5, tensor(n, a)) for n, a in self.constants.items())
        graph += b"".join(bytes_field(11, value_info(n, s, self.types[n])) for n, s in self.inputs.items())
        graph += b"".join(bytes_field(12, value_info(n, s, self.types.get(n, "float32"))) for n, s in self.outputs)
        for name, dtype in self.annotations.items():
            pair = bytes_field(1, "finn_datatype") + bytes_field(2, dtype)
            graph += bytes_field(14, bytes_field(1, name) + bytes_field(2, pair))
        sets = b"".join(bytes_field(8, bytes_field(1, d) + number_field(2, v)) for d, v in self.opsets)
        return number_field(1, 8) + bytes_field(7, graph) + sets
