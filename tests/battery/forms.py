"""Nets of one Conv or Gemm as different exporters write them: operator sets, shapes of scales, missing zero points, weights behind
other nodes, types of 4 and 16 bits, constants as nodes."""

import numpy

PICTURE, FLAT = (1, 4, 9, 8), (1, 24)


def conv_of(net, x, weights, **attributes):
    return net.done(net.node("Conv", [x, weights], **attributes))


def operator_set(net):
    conv_of(net, net.frame(PICTURE), net.weights((6, 4, 3, 3)), pads=[1, 1, 1, 1])


def operator_set_per_channel(net):
    conv_of(net, net.frame(PICTURE), net.weights((6, 4, 3, 3), axis=0), pads=[1, 1, 1, 1])


def without_zero_points(net):
    """A missing zero point means uint8 for QuantizeLinear."""
    m = net.model
    s = net.floats(numpy.float32(0.03))
    m.input("x", PICTURE)
    net.frames["x"] = net.random.uniform(0, 7.6, (6, *PICTURE[1:])).astype("float32")
    q = net.node("QuantizeLinear", ["x", s])
    x = net.node("DequantizeLinear", [q, s])
    w = net.node("DequantizeLinear", [net.ints(net.random.integers(-90, 90, (6, 4, 3, 3)), "int8"), net.floats(numpy.float32(0.01))])
    conv_of(net, x, w)


def vectors_of_one(net):
    """Scales and zero points as vectors of one element."""
    x, w = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    for q in (x, w):
        net.model.constants[q.s] = net.model.constants[q.s].reshape(1)
        net.model.constants[q.z] = net.model.constants[q.z].reshape(1)
    conv_of(net, x, w)


def constant_nodes(net):
    """All constants as nodes of type Constant."""
    x, w = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    conv_of(net, x, w)
    net.model.constants_as_nodes = True


def microsoft_quantisers(net):
    x, w = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    conv_of(net, x, w)
    net.model.nodes = [(t, "com.microsoft" if t.endswith("Linear") else d, i, o, a) for t, d, i, o, a in net.model.nodes]


def weights_behind(type, shape, **attributes):
    """Dequantised weights that another node turns or reshapes."""

    def build(net):
        x = net.frame(FLAT)
        w = net.node(type, [net.weights(shape), *([net.ints([24, 9])] if type == "Reshape" else [])], **attributes)
        net.done(net.node("MatMul", [x, w]))

    return build


def quantised_float_weights(net):
    """Float weights behind QuantizeLinear and DequantizeLinear, as training tools write them."""
    x = net.frame(PICTURE)
    s, z = net.floats(numpy.float32(0.011)), net.ints(0, "int8")
    q = net.node("QuantizeLinear", [net.floats(net.random.normal(0, 0.5, (6, 4, 3, 3))), s, z])
    conv_of(net, x, net.node("DequantizeLinear", [q, s, z]))


def float_weights_per_channel(net):
    x = net.frame(PICTURE)
    s, z = net.floats(net.random.uniform(0.005, 0.02, 6)), net.ints(numpy.zeros(6), "int8")
    q = net.node("QuantizeLinear", [net.floats(net.random.normal(0, 0.5, (6, 4, 3, 3))), s, z], axis=0)
    conv_of(net, x, net.node("DequantizeLinear", [q, s, z], axis=0))


def shared_weights(net):
    """Two convolutions with the same weights."""
    x, w = net.frame(PICTURE), net.weights((4, 4, 1, 1))
    q = net.quantise(net.node("Conv", [x, w]))
    net.done(net.node("Conv", [q, w]))


def two_readers(net):
    """A quantised tensor that two convolutions read."""
    x = net.frame(PICTURE)
    for _ in range(2):
        net.done(net.node("Conv", [x, net.weights((3, 4, 3, 3))]))


def wide_data(dtype):
    """Data of 16 bits."""

    def build(net):
        zero = 0 if dtype == "int16" else 30000
        x = net.frame(FLAT, dtype, zero, scale=1e-4)
        net.done(net.node("Gemm", [x, net.weights((9, 24))], transB=1), dtype=dtype, zero=zero)

    return build


def wide_result(net):
    """Data of 8 bits and a result of 16 bits."""
    net.done(net.node("Gemm", [net.frame(FLAT), net.weights((9, 24))], transB=1), dtype="int16", zero=0)


def clip_of_attributes(net):
    """A Clip whose bounds are attributes, as operator sets below 11 write it."""
    out = net.node("Conv", [net.frame(PICTURE), net.weights((6, 4, 3, 3))])
    net.done(net.node("Clip", [out], min=-2.0, max=6.0))


def quantised_twice(net):
    """A second quantiser, of another type, directly behind the first one."""
    q = net.quantise(net.node("Conv", [net.frame(PICTURE), net.weights((6, 4, 3, 3))]))
    net.done(net.node("Identity", [q]), dtype="uint8", fill=0.6)


def chain_of_layers(net):
    """Conv, Relu, MaxPool, Conv, Flatten, Gemm, as small classifiers are built."""
    x = net.frame((1, 1, 12, 12))
    a = net.quantise(net.node("Relu", [net.node("Conv", [x, net.weights((4, 1, 3, 3), axis=0)])]), zero=-128)
    a = net.quantise_as(net.node("MaxPool", [a], kernel_shape=[2, 2], strides=[2, 2]), a)
    b = net.quantise(net.node("Relu", [net.node("Conv", [a, net.weights((6, 4, 3, 3), axis=0)])]), zero=-128)
    flat = net.quantise_as(net.node("Flatten", [b], axis=1), b)
    net.done(net.node("Gemm", [flat, net.weights((10, 54), axis=0)], transB=1))


def inverted_residual(net):
    """Expansion, depthwise convolution, projection and the sum with the input, as in MobileNet-v2."""
    x = net.frame((1, 4, 8, 8))
    a = net.quantise(net.node("Clip", [net.node("Conv", [x, net.weights((12, 4, 1, 1), axis=0)]), net.floats(0), net.floats(6)]), zero=-128)
    b = net.node("Conv", [a, net.weights((12, 1, 3, 3), axis=0)], group=12, pads=[1, 1, 1, 1])
    b = net.quantise(net.node("Clip", [b, net.floats(0), net.floats(6)]), zero=-128)
    c = net.quantise(net.node("Conv", [b, net.weights((4, 12, 1, 1), axis=0)]))
    net.done(net.node("Add", [x, c]))


def recipes():
    for opset in (10, 11, 12, 15, 17, 19, 21):
        yield f"opset_{opset}", operator_set, dict(opset=opset)
    for opset in (13, 18, 20):
        yield f"opset_{opset}_per_channel", operator_set_per_channel, dict(opset=opset)
    yield "no_zero_points", without_zero_points, {}
    yield "scales_of_one_element", vectors_of_one, {}
    yield "constants_as_nodes", constant_nodes, {}
    yield "microsoft_quantisers", microsoft_quantisers, dict(domains=["com.microsoft"])
    yield "weights_behind_transpose", weights_behind("Transpose", (9, 24), perm=[1, 0]), {}
    yield "weights_behind_reshape", weights_behind("Reshape", (9, 24)), {}
    yield "weights_behind_identity", weights_behind("Identity", (24, 9)), {}
    yield "float_weights_quantised", quantised_float_weights, {}
    yield "float_weights_per_channel", float_weights_per_channel, {}
    yield "shared_weights", shared_weights, {}
    yield "two_readers", two_readers, {}
    yield "data_int16", wide_data("int16"), dict(opset=21)
    yield "data_uint16", wide_data("uint16"), dict(opset=21)
    yield "result_int16", wide_result, dict(opset=21)
    yield "clip_of_attributes", clip_of_attributes, dict(opset=10)
    yield "quantised_twice", quantised_twice, {}
    yield "small_classifier", chain_of_layers, {}
    yield "inverted_residual", inverted_residual, {}
