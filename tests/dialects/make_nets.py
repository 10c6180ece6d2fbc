#!/usr/bin/env python3
"""Makes small QONNX and FINN nets with random weights: make_nets.py DIRECTORY

For each net it writes NAME.onnx, NAME.inputs.npy (frames) and NAME.outputs.npy: what the definitions of the operators
give (evaluate.py). The seed is fixed, so the files are the same in every run.
"""

import pathlib
import sys
import zlib

import numpy

from evaluate import evaluate
from onnx_file import Model

QONNX, BREVITAS, FINN = "qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"
FRAMES = 12
IMAGE = (1, 3, 12, 12)


class Net:
    """A net that grows layer by layer. The scales of its quantisers come from the values that random frames give."""

    def __init__(self, name, shape, domain, power_of_two=False):
        self.name, self.domain, self.power_of_two = name, domain, power_of_two
        self.random = numpy.random.default_rng(zlib.crc32(name.encode()))
        self.model = Model([domain])
        self.now = self.model.input("x", shape)
        self.shape = shape
        self.frames = self.random.uniform(-1, 1, (FRAMES, *shape[1:])).astype("float32")
        self.count = 0

    def next(self, what):
        self.count += 1
        return f"{what}{self.count}"

    def node(self, type, inputs, what=None, domain="", **attributes):
        self.now = self.model.node(type, inputs, self.next(what or type.lower()), domain, **attributes)
        return self.now

    def number(self, name, value):
        return self.model.constant(name, numpy.float32(value))

    def largest(self):
        """The largest absolute value of the current tensor over a few frames, for which a scale is chosen."""
        self.model.outputs = [(self.now, ())]
        return max(float(numpy.abs(evaluate(self.model, f)).max()) for f in self.frames[:3])

    def chosen(self, scale):
        return 2.0 ** numpy.ceil(numpy.log2(scale)) if self.power_of_two else scale

    def quant(self, bits, signed=1, zero=0, scale=None, **attributes):
        steps = 2 ** (bits - 1) if signed else 2**bits - 1
        scale = self.chosen(self.largest() / steps * 0.7) if scale is None else scale
        name = self.next("q")
        parts = [self.number(f"{name}.{k}", v) for k, v in (("scale", scale), ("zero", zero), ("bits", bits))]
        self.now = self.model.node("Quant", [self.now, *parts], name, self.domain, signed=signed, **attributes)
        return scale

    def bipolar(self, scale=1.0):
        self.node("BipolarQuant", [self.now, self.number(self.next("scale"), scale)], "sign", self.domain)

    def weights(self, shape, bits, channel=None, scale=None, narrow=1):
        """Constant weights of `bits`, with one scale or one for each index along the axis `channel`."""
        name = self.next("w")
        values = self.random.normal(0, 1, shape).astype("float32")
        extent = [d if i == channel else 1 for i, d in enumerate(shape)] if channel is not None else []
        scales = self.chosen(self.random.uniform(0.02, 0.05, extent)) if scale is None else scale
        full = self.model.constant(f"{name}.float", values * (2 ** (bits - 1)) * 0.5 * scales)
        s = self.model.constant(f"{name}.scale", scales)
        if bits == 1:
            return self.model.node("BipolarQuant", [full, s], name, self.domain)
        parts = [self.number(f"{name}.zero", 0), self.number(f"{name}.bits", bits)]
        return self.model.node("Quant", [full, s, *parts], name, self.domain, signed=1, narrow=narrow)

    def dense(self, outputs, bits, **options):
        w = self.weights((self.shape[1], outputs), bits, **options)
        self.shape = (1, outputs)
        self.node("MatMul", [self.now, w], "dense")

    def conv(self, outputs, bits, kernel=3, group=1, bias=False, stride=1):
        w = self.weights((outputs, self.shape[1] // group, kernel, kernel), bits, channel=0)
        b = [self.model.constant(self.next("bias"), self.random.normal(0, 0.3, outputs))] if bias else []
        pad = kernel // 2
        self.node("Conv", [self.now, w, *b], "conv", pads=[pad] * 4, strides=[stride] * 2, group=group, kernel_shape=[kernel] * 2)
        size = (self.shape[2] + 2 * pad - kernel) // stride + 1
        self.shape = (1, outputs, size, size)

    def bias(self, shape):
        self.node("Add", [self.now, self.model.constant(self.next("bias"), self.random.normal(0, 0.3, shape))])

    def flatten(self):
        self.shape = (1, int(numpy.prod(self.shape)))
        self.node("Flatten", [self.now])

    def thresholds(self, bits, channels, signed=False, **attributes):
        """MultiThreshold with thresholds of its own for each channel."""
        steps = 2**bits - 1
        reach = self.largest()
        t = numpy.sort(self.random.uniform(-0.6 * reach, 0.6 * reach, (channels, steps)), axis=1)
        if float(attributes.pop("whole", 0)):
            t = numpy.rint(t)
        t = self.model.constant(self.next("t"), t)
        kind = dict(out_dtype=("INT" if signed else "UINT") + str(bits)) | attributes
        self.node("MultiThreshold", [self.now, t], "mt", self.domain, **kind)

    def write(self, directory):
        self.model.outputs = [(self.now, self.shape)]
        outputs = numpy.concatenate([evaluate(self.model, f) for f in self.frames])
        assert len(numpy.unique(outputs)) > 2, self.name
        (directory / f"{self.name}.onnx").write_bytes(self.model.data())
        numpy.save(directory / f"{self.name}.inputs.npy", self.frames)
        numpy.save(directory / f"{self.name}.outputs.npy", outputs.astype("float32"))


def tfc(name, weight_bits, activation_bits, domain):
    """A multi-layer perceptron with TFC's layers: 784, 64, 64, 64, 10."""
    net = Net(name, (1, 784), domain)
    net.quant(8, scale=1 / 128)
    for _ in range(3):
        net.dense(64, weight_bits, channel=1 if weight_bits > 2 else None)
        if activation_bits == 1:
            net.bipolar()
        else:
            net.bias((64,))
            net.node("Relu", [net.now])
            net.quant(activation_bits, signed=0)
    net.dense(10, weight_bits)
    return net


def cnn(name, weight_bits, activation_bits, power_of_two=False):
    """Convolutions with a residual, a depthwise layer, pools, and a truncated average."""
    net = Net(name, IMAGE, QONNX, power_of_two)
    net.quant(8, scale=1 / 128)
    net.conv(8, weight_bits, bias=True)
    net.node("Relu", [net.now])
    net.quant(activation_bits, signed=0)
    shortcut = net.now
    net.conv(8, weight_bits, kernel=3, group=8)
    net.quant(activation_bits, signed=1)
    net.conv(8, weight_bits, kernel=1)
    net.quant(activation_bits, signed=1)
    net.node("Add", [net.now, shortcut])
    net.node("Relu", [net.now])
    net.quant(activation_bits, signed=0)
    net.node("MaxPool", [net.now], kernel_shape=[2, 2], strides=[2, 2])
    net.shape = (1, 8, 6, 6)
    net.conv(12, weight_bits, stride=2)
    net.node("Relu", [net.now])
    net.quant(activation_bits, signed=0)
    net.flatten()
    net.dense(5, weight_bits, channel=1)
    net.quant(8, scale=net.chosen(net.largest() / 100))
    return net


def rounding(mode, power_of_two=False, instead_of=None):
    """The roundings of QONNX, with zero points, narrow ranges and a signed input. Scales that are powers of two make ties."""
    net = Net("rounding_" + (instead_of or mode).lower(), (1, 24), BREVITAS, power_of_two)
    net.quant(8, scale=1 / 128)
    net.dense(20, 4, channel=1)
    net.quant(4, signed=0, zero=5, rounding_mode=mode)
    net.dense(16, 3, narrow=0)
    net.quant(3, narrow=1, rounding_mode=mode)
    net.dense(9, 2)
    net.quant(5, narrow=1, zero=-2, rounding_mode=mode.lower())
    return net


def half(mode, other):
    """A rounding of ties, which must give other outputs than the mode `other`."""
    net, wrong = rounding(mode, True), rounding(other, True, instead_of=mode)
    for n in (net, wrong):
        n.model.outputs = [(n.now, n.shape)]
    assert any((evaluate(net.model, f) != evaluate(wrong.model, f)).any() for f in net.frames), mode
    return net


def truncated():
    net = Net("truncated", (1, 4, 8, 8), QONNX, power_of_two=True)
    net.quant(8, signed=0, scale=1 / 256)
    net.conv(6, 4, kernel=1)
    net.node("Relu", [net.now])
    scale = net.quant(8, signed=0)
    net.node("GlobalAveragePool", [net.now])
    net.shape = (1, 6, 1, 1)
    parts = [net.number(k, v) for k, v in (("t.scale", scale), ("t.zero", 0), ("t.in", 8), ("t.out", 5))]
    net.node("Trunc", [net.now, *parts], "trunc", QONNX, rounding_mode="FLOOR")
    net.flatten()
    net.dense(5, 4)
    return net


def truncated_2(name, signed, mode):
    """Trunc of version 2 behind an average, with a scale of its own that clamps some results."""
    net = Net(name, (1, 4, 8, 8), QONNX, power_of_two=True)
    net.quant(8, scale=1 / 128)
    net.conv(6, 3, kernel=1, bias=True)
    if not signed:
        net.node("Relu", [net.now])
    scale = net.quant(8, signed=signed)
    net.node("MaxPool", [net.now], kernel_shape=[2, 2], strides=[2, 2])
    net.shape = (1, 6, 4, 4)
    parts = [net.number(k, v) for k, v in (("t.scale", scale), ("t.zero", 0), ("t.in", 8), ("t.out_scale", 8 * scale), ("t.out", 4))]
    net.node("Trunc", [net.now, *parts], "trunc", QONNX, rounding_mode=mode, signed=signed, narrow=signed)
    net.conv(5, 4, kernel=3)
    net.quant(6, scale=net.chosen(net.largest() / 24))
    return net


def binary_cnn(name, activation_bits, domain, pad):
    """Convolutions with weights of -1 and +1. With `pad`, zeros around activations of -1 and +1 make three values."""
    net = Net(name, (1, 3, 10, 10), domain)
    net.quant(8, scale=1 / 128)
    for outputs in (8, 10):
        w = net.weights((outputs, net.shape[1], 3, 3), 1, channel=0)
        net.node("Conv", [net.now, w], "conv", pads=[pad] * 4, strides=[1, 1], group=1, kernel_shape=[3, 3])
        size = net.shape[2] + 2 * pad - 2
        net.shape = (1, outputs, size, size)
        if activation_bits == 1:
            net.bipolar()
        else:
            net.bias((outputs, 1, 1))
            net.node("Relu", [net.now])
            net.quant(activation_bits, signed=0, narrow=1)
    net.node("MaxPool", [net.now], kernel_shape=[2, 2], strides=[2, 2])
    net.shape = (1, net.shape[1], net.shape[2] // 2, net.shape[2] // 2)
    net.flatten()
    net.dense(6, 1)
    return net


def channels_last():
    """MultiThreshold on channels that come last, as FINN streams them."""
    net = Net("channels_last", (1, 3, 8, 8), QONNX)
    net.quant(8, scale=1 / 128)
    net.conv(6, 2)
    net.node("Transpose", [net.now], perm=[0, 2, 3, 1])
    net.thresholds(3, 6, data_layout="NHWC")
    net.node("Transpose", [net.now], perm=[0, 3, 1, 2])
    net.conv(4, 3, stride=2)
    net.quant(4)
    return net


def mixed():
    """Other bits in each layer, the newer name of Quant, and unsigned narrow ranges."""
    net = Net("mixed", IMAGE, QONNX)
    net.quant(8, scale=1 / 128)
    for outputs, weight_bits, activation_bits in ((6, 8, 4), (8, 3, 2), (8, 1, 6), (6, 5, 3)):
        net.conv(outputs, weight_bits, bias=True)
        net.node("Relu", [net.now])
        net.quant(activation_bits, signed=0, narrow=1)
    net.flatten()
    net.dense(5, 2, channel=1)
    net.model.nodes = [("IntQuant" if n[0] == "Quant" else n[0], *n[1:]) for n in net.model.nodes]
    return net


def weights_u8():
    """Convolutions of QOperator form whose weights are uint8 with zero points other than 128; the second one is depthwise."""
    net = Net("weights_u8", (1, 3, 10, 10), QONNX)
    net.model = Model()
    net.model.input("x", net.shape)

    def byte(name, value):
        return net.model.constant(name, value, "uint8")

    grid = [net.number("x.scale", 1 / 100), byte("x.zero", 120)]
    net.node("QuantizeLinear", ["x", *grid])
    for i, (outputs, depth, group, kernel) in enumerate(((8, 3, 1, 3), (8, 1, 8, 3), (6, 8, 1, 1))):
        w = byte(f"w{i}", net.random.integers(0, 256, (outputs, depth, kernel, kernel)))
        channels = outputs if i == 0 else 1
        scale = net.model.constant(f"w{i}.scale", net.random.uniform(0.002, 0.004, channels) if channels > 1 else 0.01 / depth)
        zero = byte(f"w{i}.zero", net.random.integers(90, 170, channels) if channels > 1 else 131)
        after = [net.number(f"y{i}.scale", 0.02), byte(f"y{i}.zero", 100)]
        bias = net.model.constant(f"b{i}", net.random.integers(-900, 900, outputs), "int32")
        net.node("QLinearConv", [net.now, *grid, w, scale, zero, *after, bias], pads=[kernel // 2] * 4, strides=[1, 1], group=group, kernel_shape=[kernel] * 2)
        net.shape, grid = (1, outputs, 10, 10), after
    net.node("DequantizeLinear", [net.now, *grid])
    return net


def finn(name, bits, whole_weights, factor=None):
    """What FINN makes of a net: thresholds for activations, integers stored as floats for weights."""
    net = Net(name, (1, 3, 8, 8), FINN)
    net.model.annotations["x"] = "INT8"
    net.frames = net.random.integers(-128, 128, net.frames.shape).astype("float32")
    for outputs, depth, stride in ((6, 3, 1), (8, 6, 2)):
        limit = 2 ** (bits - 1)
        w = net.model.constant(net.next("w"), net.random.integers(-limit + 1, limit, (outputs, depth, 3, 3)) if bits > 1 else net.random.choice([-1, 1], (outputs, depth, 3, 3)))
        if whole_weights:
            net.model.annotations[w] = f"INT{bits}" if bits > 1 else "BIPOLAR"
        net.node("Conv", [net.now, w], "conv", pads=[1, 1, 1, 1], strides=[stride] * 2, group=1, kernel_shape=[3, 3])
        net.shape = (1, outputs, 8 // stride, 8 // stride)
        if bits == 1:
            net.thresholds(1, outputs, out_scale=2.0, out_bias=-1.0, out_dtype="BIPOLAR", whole=1)
        elif stride == 1:
            net.thresholds(bits, outputs, signed=True, out_bias=-float(limit), whole=1)
        else:
            net.thresholds(bits, 1, whole=1)
        if factor and stride == 1:
            net.node("Mul", [net.now, net.number(net.next("factor"), factor)])
    net.flatten()
    net.node("MatMul", [net.now, net.model.constant("last", net.random.integers(-3, 4, (net.shape[1], 7)))])
    net.node("Mul", [net.now, net.number("factor", 0.037)])
    net.shape = (1, 7)
    return net


def gemm():
    """Weights behind a Transpose, as Brevitas writes linear layers, and a Gemm with a quantised bias."""
    net = Net("gemm", (1, 20), BREVITAS)
    net.quant(8, scale=1 / 64)
    w = net.model.node("Transpose", [net.weights((12, 20), 4, channel=0)], "turned", perm=[1, 0])
    net.node("MatMul", [net.now, w])
    net.node("Relu", [net.now])
    net.shape = (1, 12)
    net.quant(3, signed=0)
    w = net.weights((6, 12), 5, channel=0, narrow=0)
    float_bias = net.model.constant("b.float", net.random.normal(0, 1, 6))
    parts = [net.number("b.scale", 0.01), net.number("b.zero", 0), net.number("b.bits", 12)]
    b = net.model.node("Quant", [float_bias, *parts], "b", BREVITAS, signed=1)
    net.node("Gemm", [net.now, w, b], transB=1)
    net.shape = (1, 6)
    net.quant(6)
    return net


def all_nets():
    yield tfc("tfc_w1a1", 1, 1, QONNX)
    yield tfc("tfc_w1a2", 1, 2, FINN)
    yield tfc("tfc_w2a2", 2, 2, BREVITAS)
    yield tfc("tfc_w3a3", 3, 3, QONNX)
    yield tfc("tfc_w4a4", 4, 4, QONNX)
    yield cnn("cnn_w2a2", 2, 2)
    yield cnn("cnn_w2a4", 2, 4)
    yield cnn("cnn_w3a5", 3, 5)
    yield cnn("cnn_w4a4_pow2", 4, 4, power_of_two=True)
    yield cnn("cnn_w8a8", 8, 8)
    for mode in ("ROUND", "FLOOR", "CEIL", "ROUND_TO_ZERO"):
        yield rounding(mode)
    yield rounding("UP")
    yield rounding("DOWN")
    yield half("HALF_EVEN", "HALF_UP")
    yield half("HALF_UP", "HALF_EVEN")
    yield half("HALF_DOWN", "HALF_UP")
    yield truncated()
    yield truncated_2("truncated_2_signed", 1, "ROUND")
    yield truncated_2("truncated_2_unsigned", 0, "FLOOR")
    for bits in (1, 2, 4):
        yield binary_cnn(f"cnn_w1a{bits}", bits, QONNX, pad=0)
    yield binary_cnn("cnn_w1a1_padded", 1, FINN, pad=1)
    yield binary_cnn("cnn_w1a3_padded", 3, BREVITAS, pad=1)
    yield channels_last()
    yield mixed()
    yield weights_u8()
    yield gemm()
    for bits in (1, 2, 3, 4):
        yield finn(f"finn_w{bits}", bits, whole_weights=True)
    yield finn("finn_plain", 2, whole_weights=False)
    yield finn("finn_scaled", 3, whole_weights=True, factor=0.3)


if __name__ == "__main__":
    for made in all_nets():
        made.write(pathlib.Path(sys.argv[1]))
