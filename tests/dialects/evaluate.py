"""Evaluates QONNX and FINN nets from the definitions of their operators.

A value is an array of float32. The result of a quantiser also holds integers and their scale. A product of two such values
is a sum of products of integers, which is exact, multiplied in float32 by both scales. Every other step is a float32
operation in the order in which the graph writes it. Nothing here is taken from the compiler.
"""

import numpy

F = numpy.float32


class Value:
    def __init__(self, floats, integers=None, scale=None):
        self.floats = numpy.asarray(floats, dtype=F)
        self.integers = integers  # of the same shape; floats == integers * scale
        self.scale = scale  # broadcasts against the integers

    def moved(self, move):
        return Value(move(self.floats), None if self.integers is None else move(self.integers), self.scale)


def rounded(x, mode):
    mode = mode.upper()
    if mode in ("ROUND", "HALF_EVEN"):
        return numpy.rint(x)
    if mode == "FLOOR":
        return numpy.floor(x)
    if mode == "CEIL":
        return numpy.ceil(x)
    # The rounding modes UP, HALF_UP, HALF_DOWN and DOWN round the absolute value of a number.
    size = numpy.abs(x)
    if mode == "UP":
        size = numpy.ceil(size)
    elif mode == "HALF_UP":
        size = numpy.floor(size + F(0.5))
    elif mode == "HALF_DOWN":
        size = numpy.ceil(size - F(0.5))
    else:
        assert mode in ("ROUND_TO_ZERO", "DOWN"), mode
        size = numpy.floor(size)
    return numpy.sign(x) * size


def limits(signed, narrow, bits):
    if signed:
        return -(2 ** (bits - 1)) + (1 if narrow else 0), 2 ** (bits - 1) - 1
    return 0, 2**bits - (2 if narrow else 1)


def quant(x, scale, zero, bits, signed=1, narrow=0, rounding_mode="ROUND"):
    scale, zero = F(scale), F(zero)
    y = (x.floats / scale).astype(F) + zero
    low, high = limits(signed, narrow, int(bits))
    y = rounded(numpy.clip(y.astype(F), F(low), F(high)), rounding_mode)
    whole = y - zero
    return Value((whole * scale).astype(F), whole.astype(numpy.int64), scale)


def bipolar(x, scale):
    whole = numpy.where(x.floats >= 0, 1, -1)
    return Value((whole * F(scale)).astype(F), whole, F(scale))


def trunc(x, scale, zero, in_bits, out_bits, rounding_mode="FLOOR"):
    scale, zero = F(scale), F(zero)
    y = numpy.rint(((x.floats / scale).astype(F) + zero).astype(F))
    y = rounded((y / F(2.0 ** (int(in_bits) - int(out_bits)))).astype(F), rounding_mode)
    whole = y - zero
    return Value((whole * scale).astype(F), whole.astype(numpy.int64), scale)


def trunc_2(x, scale, zero, in_bits, out_scale, out_bits, rounding_mode="FLOOR", signed=1, narrow=0):
    """Trunc of version 2, which has a scale of the result and clamps."""
    scale, zero, out_scale = F(scale), F(zero), F(out_scale)
    y = numpy.rint(((x.floats / scale).astype(F) + zero).astype(F))
    factor = F(2.0 ** numpy.rint(numpy.log2(out_scale / scale)))
    low, high = limits(signed, narrow, int(out_bits))
    y = rounded(numpy.clip((y / factor).astype(F), F(low), F(high)), rounding_mode)
    whole = y - zero / factor
    return Value((whole * out_scale).astype(F), whole.astype(numpy.int64), out_scale)


def multi_threshold(x, thresholds, out_scale=1.0, out_bias=0.0, out_dtype="", data_layout="NCHW"):
    channel = x.floats.ndim - 1 if data_layout.endswith("C") else 1
    per_channel = thresholds if len(thresholds) > 1 else numpy.repeat(thresholds, x.floats.shape[channel], 0)
    lists = per_channel.reshape([-1 if d == channel else 1 for d in range(x.floats.ndim)] + [per_channel.shape[1]])
    count = (x.floats[..., None] >= lists).sum(-1)
    floats = (F(out_bias) + F(out_scale) * count.astype(F)).astype(F)
    # A Value also holds its numbers as integers times a scale. The scale is out_scale, or half of
    # out_scale if out_bias is not a multiple of out_scale.
    step = out_scale if float(out_bias / out_scale).is_integer() else out_scale / 2
    return Value(floats, numpy.rint(floats / step).astype(numpy.int64), F(step))


def both_scales(x, w, axis_of_outputs, rank):
    scale = (numpy.asarray(x.scale).reshape(()) * w.scale).astype(F)
    if scale.size == 1:
        return scale.reshape(())
    return scale.reshape([-1 if d == axis_of_outputs else 1 for d in range(rank)])


def matmul(x, w):
    return Value((x.integers @ w.integers).astype(F) * both_scales(x, w, x.floats.ndim - 1, x.floats.ndim))


def conv(x, w, bias=None, pads=(0, 0, 0, 0), strides=(1, 1), group=1, **_):
    padded = numpy.pad(x.integers, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    out_channels, depth, kh, kw = w.integers.shape
    height = (padded.shape[2] - kh) // strides[0] + 1
    width = (padded.shape[3] - kw) // strides[1] + 1
    y = numpy.zeros((1, out_channels, height, width), dtype=numpy.int64)
    for o in range(out_channels):
        first = o // (out_channels // group) * depth
        for ky in range(kh):
            for kx in range(kw):
                part = padded[0, first : first + depth, ky : ky + height * strides[0] : strides[0], kx : kx + width * strides[1] : strides[1]]
                y[0, o] += numpy.tensordot(w.integers[o, :, ky, kx], part, 1)
    floats = y.astype(F) * both_scales(x, w, 1, 4)
    return Value(floats if bias is None else floats + bias.floats.reshape(1, -1, 1, 1))


def qlinear_conv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None, **attributes):
    """QLinearConv as ONNX Runtime computes it: exact sums, one float32 product, half to even."""
    channels = (-1, 1, 1, 1)
    shifted = Value(w, numpy.asarray(w, dtype="int64") - numpy.asarray(w_zero, dtype="int64").reshape(channels), F(1))
    sums = conv(Value(x, numpy.asarray(x, dtype="int64") - int(x_zero), F(1)), shifted, **attributes).floats
    if bias is not None:
        sums = sums + numpy.asarray(bias, dtype=F).reshape(1, -1, 1, 1)
    assert numpy.abs(sums).max() < 2**24  # the float32 sums above are exact
    factor = ((F(x_scale) * F(w_scale)).astype(F) / F(y_scale)).astype(F).reshape(1, -1, 1, 1)
    y = numpy.rint((sums * factor).astype(F)) + int(y_zero)
    return Value(numpy.clip(y, 0, 255))


def max_pool(x, kernel_shape, strides, **_):
    def pooled(a):
        h, w = a.shape[2] // strides[0], a.shape[3] // strides[1]
        return a[:, :, : h * strides[0], : w * strides[1]].reshape(1, a.shape[1], h, strides[0], w, strides[1]).max((3, 5))

    assert tuple(kernel_shape) == tuple(strides)
    return x.moved(pooled)


def global_average(x):
    total = x.integers.sum((2, 3), keepdims=True).astype(F) * F(x.scale)
    return Value(total / F(x.integers.shape[2] * x.integers.shape[3]))


def evaluate(model, frame):
    """The float32 outputs of one frame."""
    values = {name: Value(array) for name, array in model.constants.items()}
    for name, array in model.constants.items():
        if array.dtype == F and (array == numpy.rint(array)).all():  # integers stored as floats, as FINN writes weights
            values[name] = Value(array, array.astype(numpy.int64), F(1))
    for name, shape in model.inputs.items():
        values[name] = Value(frame.reshape(shape))
        if name in model.annotations:
            values[name] = quant(values[name], 1.0, 0.0, int(model.annotations[name].lstrip("UINT")), 0 if model.annotations[name][0] == "U" else 1)
    for type, _, inputs, output, attributes in model.nodes:
        x = [values[i] for i in inputs]
        raw = [v.floats for v in x]
        if type in ("Quant", "IntQuant"):
            y = quant(x[0], *raw[1:], **attributes)
        elif type == "BipolarQuant":
            y = bipolar(x[0], raw[1])
        elif type == "Trunc":
            y = (trunc_2 if len(x) == 6 else trunc)(x[0], *raw[1:], **attributes)
        elif type == "MultiThreshold":
            y = multi_threshold(x[0], raw[1], **attributes)
        elif type == "MatMul":
            y = matmul(*x)
        elif type == "Gemm":
            w = x[1].moved(numpy.transpose) if attributes.get("transB") else x[1]
            w.scale = numpy.asarray(w.scale).reshape(-1)
            y = matmul(x[0], w)
            y = Value(y.floats + raw[2]) if len(x) > 2 else y
        elif type == "Conv":
            y = conv(*x, **attributes)
        elif type == "QLinearConv":
            y = qlinear_conv(*raw, **attributes)
        elif type == "QuantizeLinear":  # to uint8
            y = Value(numpy.clip(numpy.rint((raw[0] / raw[1]).astype(F)) + raw[2], 0, 255))
        elif type == "DequantizeLinear":
            y = Value((raw[0] - raw[2]) * raw[1])
        elif type == "MaxPool":
            y = max_pool(x[0], **attributes)
        elif type == "GlobalAveragePool":
            y = global_average(x[0])
        elif type == "Add":
            y = Value((raw[0] + raw[1]).astype(F))
        elif type == "Mul":
            y = Value((raw[0] * raw[1]).astype(F))
            if x[0].integers is not None and raw[1].size == 1:  # the same integers, by another scale
                y.integers, y.scale = x[0].integers, (x[0].scale * raw[1].reshape(())).astype(F)
        elif type == "Relu":
            y = Value(numpy.maximum(raw[0], F(0)))
        elif type == "Flatten":
            y = x[0].moved(lambda a: a.reshape(1, -1))
        elif type == "Transpose":
            y = x[0].moved(lambda a: a.transpose(attributes["perm"]))
            if numpy.asarray(y.scale).ndim == len(attributes["perm"]):
                y.scale = y.scale.transpose(attributes["perm"])
        else:
            raise ValueError(type)
        values[output] = y
    return values[model.outputs[0][0]].floats
