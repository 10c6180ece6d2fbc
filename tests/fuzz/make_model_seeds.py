#!/usr/bin/env python3
"""Writes seeds/fuzz_model/: small ONNX models in every dialect, from which the fuzzer of the importer starts. Needs NumPy."""

import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "dialects"))
from onnx_file import Model  # noqa: E402

QONNX, FINN, MICROSOFT = "qonnx.custom_op.general", "finn.custom_op.general", "com.microsoft"


def quantiser(m, name, scale=0.5, zero=0, dtype="int8"):
    return [m.constant(name + "_s", scale), m.constant(name + "_z", zero, dtype)]


def pair(m, x, name, scale=0.5, zero=0, dtype="int8"):
    parameters = quantiser(m, name, scale, zero, dtype)
    return m.node("DequantizeLinear", [m.node("QuantizeLinear", [x, *parameters], name + "_q"), *parameters], name)


def weights(m, name, shape, scale=0.25, axis=None, dtype="int8"):
    count = int(numpy.prod(shape))
    m.constant(name + "_q", (numpy.arange(count) * 37 % 100 - 50 * (dtype == "int8")).reshape(shape), dtype)
    m.constant(name + "_s", scale)
    m.constant(name + "_z", numpy.zeros(numpy.shape(scale)) + 3 * (dtype == "uint8"), dtype)
    attributes = {} if axis is None else {"axis": axis}
    return m.node("DequantizeLinear", [name + "_q", name + "_s", name + "_z"], name, **attributes)


def ints(m, name, values):
    return m.constant(name, values, "int64")


def convolution():
    m = Model()
    x = pair(m, m.input("x", (1, 2, 6, 6)), "a")
    y = m.node("Conv", [x, weights(m, "w", (4, 2, 3, 3), [0.1, 0.2, 0.3, 0.4], 0)], "conv", pads=[1, 1, 1, 1])
    y = pair(m, m.node("Relu", [y], "relu"), "b", 1.0)
    z = m.node("Conv", [y, weights(m, "d", (4, 1, 3, 3), dtype="uint8")], "depthwise", group=4, strides=[2, 2], auto_pad="SAME_UPPER")
    z = m.node("MaxPool", [pair(m, z, "c", 2.0)], "pool", kernel_shape=[2, 2])
    z = m.node("GlobalAveragePool", [z], "mean")
    z = m.node("Flatten", [pair(m, z, "e", 2.0)], "flat")
    z = m.node("Gemm", [z, weights(m, "g", (3, 4))], "gemm", transB=1, alpha=2.0)
    m.output(m.node("Softmax", [pair(m, z, "f", 4.0)], "y"), (1, 3))
    return m


def branches():
    m = Model()
    x = pair(m, m.input("x", (1, 4, 4, 4)), "a")
    left = m.node("Slice", [x, ints(m, "from", [0]), ints(m, "to", [2]), ints(m, "axes", [1])], "left")
    right = m.node("Slice", [x, ints(m, "from2", [2]), ints(m, "to2", [4]), "axes"], "right")
    total = pair(m, m.node("Add", [left, right], "sum"), "b", 1.0)
    both = pair(m, m.node("Concat", [total, pair(m, m.node("Mul", [total, right], "product"), "c", 1.0)], "both", axis=1), "d", 1.0)
    wide = m.node("Resize", [both, "", m.constant("scales", [1, 1, 2, 2])], "wide", mode="nearest")
    wide = m.node("Pad", [wide, ints(m, "pads", [0, 0, 1, 1, 0, 0, 1, 1])], "padded")
    wide = m.node("SpaceToDepth", [wide], "blocks", blocksize=2)
    wide = m.node("Transpose", [pair(m, wide, "e", 1.0)], "last", perm=[0, 2, 3, 1])
    wide = m.node("Reshape", [wide, ints(m, "shape", [1, -1])], "flat")
    wide = m.node("ReduceMean", [wide], "mean", axes=[1], keepdims=1)
    m.output(m.node("Clip", [pair(m, wide, "f"), m.constant("low", -1.0), m.constant("high", 6.0)], "y"), (1, 1))
    return m


def functions():
    m = Model()
    x = pair(m, m.input("x", (1, 8)), "a")
    for i, type in enumerate(["Sigmoid", "HardSwish", "Tanh", "Exp", "Elu", "LeakyRelu", "Sqrt", "Abs"]):
        x = pair(m, m.node(type, [x], f"f{i}"), f"p{i}", 0.05)
    x = m.node("PRelu", [x, m.constant("slopes", numpy.linspace(0, 1, 8))], "prelu")
    x = m.node("Pow", [pair(m, x, "b"), m.constant("two", 2.0)], "square")
    x = m.node("MatMul", [pair(m, x, "c"), weights(m, "w", (8, 2), [0.1, 0.2], 1)], "product")
    m.output(m.node("LayerNormalization", [x, m.constant("gain", [1, 2])], "y"), (1, 2))
    return m


def operators():
    m = Model([MICROSOFT])
    x = m.node("QuantizeLinear", [m.input("x", (1, 2, 5, 5)), *quantiser(m, "a", 0.5, 128, "uint8")], "q")
    w = [m.constant("w", numpy.arange(36).reshape(2, 2, 3, 3) - 18, "int8"), m.constant("ws", 0.1), m.constant("wz", 0, "int8")]
    y = quantiser(m, "b", 1.0, 100, "uint8")
    x = m.node("QLinearConv", [x, "a_s", "a_z", *w, *y, m.constant("bias", [5, -5], "int32")], "conv")
    s = quantiser(m, "c", 2.0, 0, "uint8")
    x = m.node("QLinearAdd", [x, *y, x, *y, *s], "sum", MICROSOFT)
    x = m.node("QLinearGlobalAveragePool", [x, *s, *quantiser(m, "d", 1.0, 0, "uint8")], "mean", MICROSOFT)
    x = m.node("Flatten", [x], "flat")
    v = [m.constant("v", [[1, 2, 3], [4, 5, 6]], "uint8"), m.constant("vs", 0.1), m.constant("vz", 2, "uint8")]
    x = m.node("QLinearMatMul", [x, "d_s", "d_z", *v, *quantiser(m, "e", 1.0, 0, "uint8")], "product")
    m.output(m.node("DequantizeLinear", [x, "e_s", "e_z"], "y"), (1, 3))
    return m


def integers():
    m = Model()
    q = m.node("QuantizeLinear", [m.input("x", (1, 2, 4, 4)), *quantiser(m, "a", 0.5, 3, "uint8")], "q")
    c = m.node("ConvInteger", [q, m.constant("w", numpy.ones((2, 2, 3, 3)), "int8"), "a_z"], "conv")
    f = m.node("Mul", [m.node("Cast", [c], "cast", to=1), m.constant("factor", numpy.full((1, 2, 1, 1), 0.25))], "scaled")
    f = m.node("BatchNormalization", [f, *(m.constant(n, [1, 2]) for n in ("gamma", "beta", "mean", "variance"))], "norm")
    f = m.node("Unsqueeze", [m.node("ReduceMax", [pair(m, f, "b", 1.0)], "most", axes=[2, 3], keepdims=0), ints(m, "axis", [1])], "deep")
    f = m.node("Gather", [m.node("Squeeze", [f, "axis"], "shallow"), ints(m, "order", [1, 0])], "turned", axis=1)
    m.output(m.node("Tile", [pair(m, f, "c"), ints(m, "repeats", [1, 3])], "y"), (1, 6))
    return m


def qonnx():
    m = Model([QONNX])
    one, zero, bits = m.constant("one", 0.25), m.constant("zero", 0.0), m.constant("bits", 4.0)
    x = m.node("Quant", [m.input("x", (1, 4)), one, zero, bits], "q", QONNX, signed=1, narrow=0, rounding_mode="ROUND")
    w = m.node("Quant", [m.constant("w", numpy.linspace(-1, 1, 12).reshape(4, 3)), one, zero, bits], "wq", QONNX, signed=1, narrow=1, rounding_mode="ROUND")
    x = m.node("Relu", [m.node("MatMul", [x, w], "product")], "relu")
    x = m.node("Quant", [x, one, zero, m.constant("two", 2.0)], "q2", QONNX, signed=0, narrow=0, rounding_mode="FLOOR")
    v = m.node("BipolarQuant", [m.constant("v", numpy.linspace(-1, 1, 6).reshape(3, 2)), one], "vq", QONNX)
    x = m.node("MatMul", [x, v], "last")
    m.output(m.node("Trunc", [x, one, zero, m.constant("eight", 8.0), bits], "y", QONNX, rounding_mode="FLOOR"), (1, 2))
    return m


def finn():
    m = Model([FINN])
    x = m.node("MatMul", [m.input("x", (1, 4)), m.constant("v", numpy.arange(12).reshape(4, 3) - 6)], "first")
    x = m.node("MultiThreshold", [x, m.constant("t", numpy.arange(9).reshape(3, 3))], "a", FINN, out_dtype="UINT2")
    x = m.node("MatMul", [x, m.constant("w", numpy.arange(6).reshape(3, 2) - 3)], "product")
    m.output(m.node("MultiThreshold", [x, m.constant("u", [[-3.0, 0, 3]])], "y", FINN, out_dtype="INT2", out_bias=-2.0), (1, 2))
    m.annotations["x"] = "INT8"
    return m


def transposed():
    m = Model()
    x = pair(m, m.input("x", (1, 2, 3, 3)), "a")
    x = m.node("ConvTranspose", [x, weights(m, "w", (2, 2, 2, 2))], "up", strides=[2, 2], output_padding=[1, 1])
    x = m.node("AveragePool", [pair(m, x, "b", 4.0)], "mean", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    shape = m.node("Shape", [x], "shape")
    fill = m.node("Expand", [m.constant("half", [0.5]), shape], "fill")
    x = m.node("Max", [pair(m, x, "c", 4.0), fill], "most")
    m.output(m.node("DepthToSpace", [pair(m, m.node("Concat", [x, x], "both", axis=1), "d")], "y", blocksize=2, mode="CRD"), (1, 1, 14, 14))
    return m


folder = pathlib.Path(__file__).parent / "seeds" / "fuzz_model"
folder.mkdir(parents=True, exist_ok=True)
models = [convolution, branches, functions, operators, integers, qonnx, finn, transposed]
for make in models:
    (folder / f"{make.__name__}.onnx").write_bytes(make().data())
whole = convolution().data()
(folder / "truncated.onnx").write_bytes(whole[: len(whole) // 2])
(folder / "empty.onnx").write_bytes(b"")
