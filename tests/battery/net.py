"""Builds a net of one operator between quantisers, with random weights.

A recipe builds its net twice with the same random numbers. The first time, the net `is_measured`: quantisers behind the
operator are left out, and the floats before them become the net's outputs. From the ranges that these floats have in
ONNX Runtime follow the scales of the quantisers, with which the recipe builds the net the second time. Scales are coarse
numbers, so the last bits of the floats do not change them.
"""

import math
import os
import pathlib
import sys
import zlib

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "dialects"))
from evaluate import evaluate  # noqa: E402
from onnx_file import Model  # noqa: E402

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
FRAMES = 6
SEED = os.environ.get("MILLRACE_SEED", "0")
SEED = int.from_bytes(os.urandom(4), "little") if SEED == "random" else int(SEED)


class Quantised:
    """An integer tensor with its scale and zero point. `float` is the dequantised tensor."""

    def __init__(self, net, name, scale, zero, dtype, axis=None):
        self.net, self.name, self.scale, self.zero, self.dtype, self.axis = net, name, scale, zero, dtype, axis
        self.s = net.model.constant(f"{name}_s", scale)
        self.z = net.model.constant(f"{name}_z", zero, dtype)
        self._float = None

    @property
    def float(self):
        if self._float is None:
            axis = {} if self.axis is None else {"axis": self.axis}
            self._float = self.net.model.node("DequantizeLinear", [self.name, self.s, self.z], f"{self.name}_dq", **axis)
        return self._float


def coarse_scale(wanted, power_of_two):
    """The least coarse scale that is not below `wanted`: a power of two, or one of eight numbers between two such powers."""
    power = 2.0 ** math.floor(math.log2(wanted))
    if power_of_two:
        return power if power == wanted else 2 * power
    return power * math.ceil(wanted / power * 8) / 8 * 1.013


class Net:
    def __init__(self, name, ranges=None, opset=13, domains=()):
        self.name, self.ranges = name, ranges  # the ranges of the measured floats, by the names of their quantised tensors
        self.is_measured = ranges is None
        self.is_evaluated = False  # whether tests/dialects/evaluate.py computes the outputs, and not ONNX Runtime
        self.random = numpy.random.default_rng(zlib.crc32(name.encode()) + SEED)
        self.model = Model(domains, opset)
        self.frames, self.steps, self.count = {}, [], 0

    def next(self, what):
        self.count += 1
        return f"{what}{self.count}"

    # Inputs

    def frame(self, shape, dtype="int8", zero=0, scale=None, power_of_two=False, entry="float"):
        """A net input with random frames that use every value of `dtype`. `entry` is "float" if the net quantises a float input,
        or "integer" if the net's input is integers."""
        name = self.next("x")
        scale = scale or (1 / 32 if power_of_two else 0.0317 * self.count)
        low, high = RANGES[dtype]
        integers = self.random.integers(low, high + 1, (FRAMES, *shape[1:]))
        if integers.size >= 256:
            integers.reshape(-1)[:256] = numpy.linspace(low, high, 256).astype(int)
        if entry == "integer":
            self.model.input(name, shape, dtype)
            self.frames[name] = integers.astype(dtype)
            return Quantised(self, name, numpy.float32(scale), zero, dtype)
        self.model.input(name, shape)
        # Shift each value from an exact multiple of the scale by a part of a step, so that the quantiser has to round.
        # If the scale is a power of two, the shift may be half a step (a tie), because the quotient is then exact.
        noise = self.random.uniform(-0.4, 0.4, integers.shape)
        if power_of_two:
            noise = self.random.choice([-0.5, -0.3, 0, 0.4, 0.5], integers.shape)
        self.frames[name] = ((integers + noise - zero) * scale).astype("float32")
        q = Quantised(self, f"{name}_q", numpy.float32(scale), zero, dtype)
        self.model.node("QuantizeLinear", [name, q.s, q.z], q.name)
        return q

    # Constants

    def floats(self, values, what="c"):
        return self.model.constant(self.next(what), values)

    def ints(self, values, dtype="int64", what="i"):
        return self.model.constant(self.next(what), values, dtype)

    def weights(self, shape, dtype="int8", axis=None, zero=None, integers=None, scale=None):
        """Random quantised weights, with one scale and zero point, or one for each index along `axis`."""
        low, high = RANGES[dtype]
        name = self.next("w")
        if integers is None:
            integers = numpy.clip(numpy.rint(self.random.normal((low + high + 1) / 2, (high - low) / 5, shape)), low, high)
        if zero is None:
            zero = (low + high + 1) // 2
        if axis is None:
            scale = numpy.float32(scale or 0.0113)
        else:
            scale = self.random.uniform(0.004, 0.02, shape[axis]).astype("float32")
            zero = numpy.zeros(shape[axis], dtype) + numpy.asarray(zero, dtype)
        self.model.constant(name, integers, dtype)
        return Quantised(self, name, scale, zero, dtype, axis)

    def bias(self, x, w, count, reach=4000):
        """A bias of `count` int32 numbers with the product of the scales of `x` and `w`."""
        name = self.next("b")
        scale = numpy.float32(x.scale) * w.scale
        self.model.constant(name, self.random.integers(-reach, reach + 1, count), "int32")
        zero = numpy.zeros_like(scale, "int32")
        return Quantised(self, name, scale, zero, "int32", 0 if scale.ndim else None)

    # Nodes

    def node(self, type, inputs, outputs=1, domain="", **attributes):
        """Adds a node; Quantised inputs are dequantised. Returns the name of its output, or a list of names."""
        inputs = [i if isinstance(i, str) else i.float for i in inputs]
        name = self.next(type.lower())
        names = [f"{name}_{i}" for i in range(outputs)]
        self.model.node(type, inputs, name if outputs == 1 else names, domain, **attributes)
        return name if outputs == 1 else names

    def quantise(self, tensor, **options):
        """Quantises a float tensor: see chosen()."""
        name = f"{tensor}_q"
        if self.is_measured:
            self.model.output(tensor, None)
            return Measured(tensor)
        q = self.chosen(name, tensor, **options)
        self.model.node("QuantizeLinear", [tensor, q.s, q.z], name)
        return q

    def quantise_as(self, tensor, other):
        """Quantises a float tensor with the scale and the zero point of another tensor."""
        if self.is_measured:
            return Measured(tensor)
        name = f"{tensor}_q"
        self.model.node("QuantizeLinear", [tensor, other.s, other.z], name)
        return self.known(name, other)

    def known(self, name, other):
        """An integer tensor that has the scale and the zero point of another one."""
        return Quantised(self, name, other.scale, other.zero, other.dtype)

    def chosen(self, name, tensor, dtype="int8", zero=None, power_of_two=False, fill=0.95, limits=None):
        """Returns a tensor whose scale makes about the share `fill` of the range of `dtype` hold the floats that were measured, or
        those between the two `limits`. Without `zero`, the zero point makes both ranges begin together."""
        low, high = RANGES[dtype]
        least, most = limits or self.ranges[tensor]
        if zero is None:
            scale = coarse_scale(max(most - least, 1e-6) / (high - low) / fill, power_of_two)
            zero = int(min(max(math.floor(low - least / scale + 0.37), low), high))
        else:
            reach = max(most / max(high - zero, 1), -least / max(zero - low, 1), 1e-6)
            scale = coarse_scale(reach / fill, power_of_two)
        return Quantised(self, name, numpy.float32(scale), zero, dtype)

    def operator(self, type, float_type, operands, bias=None, domain="", dtype="int8", zero=None, **attributes):
        """Adds an operator in QOperator form, of which the measured net has the float form."""
        name = self.next("y")
        if self.is_measured:
            self.model.node(float_type, [q.float for q in operands] + ([bias.float] if bias else []), name, **attributes)
            return self.quantise(name)
        q = self.chosen(f"{name}_q", name, dtype, zero)
        inputs = [i for o in operands for i in (o.name, o.s, o.z)]
        result = [q.s, q.z]
        if type == "QLinearConcat":
            inputs = result + inputs
        elif type == "QGemm":
            inputs += [bias.name if bias else ""] + result
        else:
            inputs += result + ([bias.name] if bias else [])
        self.model.node(type, inputs, q.name, domain, **attributes)
        return q

    # Outputs

    def output(self, tensor, dtype, step):
        """Makes a tensor that is not quantised an output of the net. `step` is the unit in which differences are counted."""
        if not self.is_measured:
            self.model.output(tensor, None, dtype)
            self.steps.append(float(step))

    def evaluated(self):
        """The output of all frames of a net of a dialect."""
        (frames,) = self.frames.values()
        return numpy.stack([evaluate(self.model, frame) for frame in frames])

    def end(self, q, form="float"):
        """Makes a quantised tensor an output of the net: dequantised, or as integers if `form` is "integer"."""
        if self.is_measured:
            return
        if form == "integer":
            self.model.output(q.name, None, q.dtype)
            self.steps.append(1.0)
        else:
            self.model.output(q.float, None)
            self.steps.append(float(q.scale))

    def done(self, tensor, form="float", **options):
        """Quantises a float tensor and makes it an output."""
        self.end(self.quantise(tensor, **options), form)


class Measured:
    """A tensor that the measured net does not quantise."""

    def __init__(self, tensor):
        self.float = self.name = tensor
        self.scale = numpy.float32(1)
        self.dtype = "float32"
