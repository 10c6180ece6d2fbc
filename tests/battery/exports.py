"""Nets of a few operators in forms that exporters write and that no other file of this folder has: functions of several nodes,
constants that other nodes compute, operators without a quantiser between them, and several outputs."""

import numpy

PICTURE, ROW, FLAT = (1, 4, 9, 8), (1, 4, 18), (1, 24)


def conv(net, x, shape, **attributes):
    return net.node("Conv", [x, net.weights(shape, axis=0)], **attributes)


def row_as_picture(net):
    """A one-dimensional convolution as TensorFlow's exporter writes it."""
    x = net.node("Unsqueeze", [net.frame(ROW), net.ints([2])])
    y = net.node("Conv", [x, net.weights((6, 4, 1, 3))], pads=[0, 1, 0, 1])
    net.done(net.node("Squeeze", [y, net.ints([2])]))


def weights_unsqueezed(net):
    """Weights of three axes, to which a node adds an axis."""
    x = net.node("Unsqueeze", [net.frame(ROW), net.ints([2])])
    w = net.node("Unsqueeze", [net.weights((6, 4, 3)), net.ints([2])])
    net.done(net.node("Squeeze", [net.node("Conv", [x, w]), net.ints([2])]))


def negative_axis(net):
    """Scales along an axis that is counted from the end."""
    x, w = net.frame(PICTURE), net.weights((6, 4, 3, 3), axis=0)
    w.axis = -4
    net.done(net.node("Conv", [x, w]))


def negative_axis_of_a_product(net):
    x, w = net.frame((1, 5, 24)), net.weights((24, 9), axis=1)
    w.axis = -1
    net.done(net.node("MatMul", [x, w]))


def bias_without_zero_point(net):
    x, w = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    b = net.node("DequantizeLinear", [net.ints(net.random.integers(-4000, 4000, 6), "int32"), net.floats(numpy.float32(x.scale) * w.scale)])
    net.done(net.node("Conv", [x, w, b]))


def additions(net):
    """Two residual additions without a quantiser between them."""
    x = net.frame(PICTURE)
    a = net.quantise(conv(net, x, (4, 4, 1, 1)))
    net.done(net.node("Relu", [net.node("Add", [net.node("Add", [x, a]), net.quantise(conv(net, a, (4, 4, 1, 1)))])]))


def sum_of_convolutions(net):
    """A residual addition whose operands have no quantisers."""
    x = net.frame(PICTURE)
    net.done(net.node("Relu", [net.node("Add", [conv(net, x, (5, 4, 1, 1)), conv(net, x, (5, 4, 3, 3), pads=[1] * 4)])]))


def hidden_output(net):
    """A result that is an output and is also read by another layer."""
    q = net.quantise(net.node("Relu", [conv(net, net.frame(PICTURE), (5, 4, 3, 3))]))
    net.end(q)
    net.done(conv(net, q, (3, 5, 1, 1)))


def padded_pool(net):
    """A Pad with the lowest float before a MaxPool, as TensorFlow pads pools."""
    padded = net.node("Pad", [net.frame(PICTURE), net.ints([0, 0, 0, 0, 0, 0, 1, 1]), net.floats(numpy.float32(numpy.finfo("float32").min))])
    net.done(net.node("MaxPool", [padded], kernel_shape=[2, 2], strides=[2, 2]))


def infinitely_padded_pool(net):
    padded = net.node("Pad", [net.frame(PICTURE), net.ints([0, 0, 0, 0, 0, 0, 1, 1]), net.floats(numpy.float32(-numpy.inf))])
    net.done(net.node("MaxPool", [padded], kernel_shape=[2, 2], strides=[2, 2]))


def causal_mask(lowest):
    """Scores of an attention with a mask of constants above the diagonal."""

    def build(net):
        q, k = net.frame((1, 2, 6, 8)), net.frame((1, 2, 8, 6))
        scores = net.node("Div", [net.node("MatMul", [q, k]), net.floats(numpy.float32(8**0.5))])
        mask = numpy.triu(numpy.full((6, 6), lowest, "float32"), 1)
        net.done(net.node("Softmax", [net.node("Add", [scores, net.floats(mask)])], axis=-1), dtype="uint8", zero=0)

    return build


def squeezed_wholly(net):
    """A Squeeze without axes, which also removes the batch."""
    y = net.node("Squeeze", [net.node("GlobalAveragePool", [net.frame(PICTURE)])])
    net.done(y)


def reshaped_by_batch(net):
    """Reshape to [-1, N], as in x.view(-1, N)."""
    x = net.quantise(conv(net, net.frame(PICTURE), (6, 4, 3, 3)))
    flat = net.quantise_as(net.node("Reshape", [x, net.ints([-1, 252])]), x)
    net.done(net.node("Gemm", [flat, net.weights((9, 252))], transB=1))


def six_of_two(net):
    """Relu6 as the minimum of a maximum."""
    y = net.node("Max", [conv(net, net.frame(PICTURE), (6, 4, 3, 3)), net.floats(numpy.float32(0))])
    net.done(net.node("Min", [y, net.floats(numpy.float32(6))]), zero=-128)


def scaled_behind_conv(net):
    """Mul, Add and Relu with scalars behind a convolution."""
    y = conv(net, net.frame(PICTURE), (6, 4, 3, 3))
    y = net.node("Add", [net.node("Mul", [y, net.floats(numpy.float32(0.37))]), net.floats(numpy.float32(0.11))])
    net.done(net.node("Relu", [y]))


def split_and_joined(net):
    """Half of the channels pass a layer, the others pass by."""
    x = net.frame((1, 8, 6, 6))
    left, right = net.node("Split", [x], 2, axis=1)
    left = net.quantise(net.node("Relu", [conv(net, net.quantise_as(left, x), (4, 4, 3, 3), pads=[1] * 4)]))
    net.done(net.node("Concat", [left, net.quantise_as(right, x)], axis=1))


def resized_and_joined(mode):
    """Resize and Concat without a quantiser between them."""

    def build(net):
        x = net.frame(PICTURE)
        small = net.quantise(conv(net, net.quantise_as(net.node("MaxPool", [x], kernel_shape=[3, 2], strides=[3, 2]), x), (5, 4, 1, 1)))
        up = net.node("Resize", [small, "", net.floats([1, 1, 3, 2])], mode=mode)
        q = net.quantise(net.node("Concat", [up, x], axis=1))
        net.done(conv(net, q, (4, 9, 1, 1)))

    return build


def cropped_behind_transposed(net):
    """ConvTranspose, and a Slice that cuts its surplus rows off."""
    y = net.node("ConvTranspose", [net.frame(PICTURE), net.weights((4, 3, 3, 3))], strides=[2, 2])
    q = net.quantise(y)
    net.end(net.quantise_as(net.node("Slice", [q, net.ints([0, 0]), net.ints([18, 16]), net.ints([2, 3])]), q))


def type_by_attribute(net):
    """QuantizeLinear that states its type by an attribute, without a zero point."""
    y = conv(net, net.frame(PICTURE), (6, 4, 3, 3))
    if net.is_measured:
        return net.quantise(y)
    q = net.chosen(f"{y}_q", y, zero=0)
    net.model.node("QuantizeLinear", [y, q.s], q.name, output_dtype=3)
    net.end(q)


def group_norm(net):
    """GroupNorm as PyTorch writes it: Reshape, InstanceNormalization, Reshape, Mul, Add."""
    x = net.quantise(conv(net, net.frame(PICTURE), (6, 4, 3, 3)))
    y = net.node("Reshape", [x, net.ints([0, 2, -1])])
    y = net.node("InstanceNormalization", [y, net.floats([1, 1]), net.floats([0, 0])], epsilon=1e-5)
    y = net.node("Reshape", [y, net.ints([1, 6, 7, 6])])
    y = net.node("Add", [net.node("Mul", [y, net.floats(net.random.uniform(0.5, 2, (6, 1, 1)))]), net.floats(net.random.uniform(-1, 1, (6, 1, 1)))])
    q = net.quantise(y)
    net.done(conv(net, q, (4, 6, 1, 1)))


def reflected_layers(net):
    """ReflectionPad2d before each convolution, as style transfer uses it."""
    x = net.frame(PICTURE)
    for channels in (4, 6):
        padded = net.node("Pad", [x, net.ints([0, 0, 1, 1, 0, 0, 1, 1])], mode="reflect")
        x = net.quantise(net.node("Relu", [conv(net, padded, (6, channels, 3, 3))]))
    net.end(x)


def positions(net):
    """A slice of constant positions is added to tokens."""
    x = net.quantise(net.node("MatMul", [net.frame((1, 5, 12)), net.weights((12, 8), axis=1)]))
    table = net.floats(net.random.uniform(-1, 1, (1, 16, 8)))
    known = net.node("Slice", [table, net.ints([0]), net.ints([5]), net.ints([1])])
    net.done(net.node("Add", [x, known]))


def unshuffled(net):
    """PixelUnshuffle as Reshape, Transpose, Reshape."""
    x = net.frame((1, 3, 8, 6))
    y = net.node("Reshape", [x, net.ints([1, 3, 4, 2, 3, 2])])
    y = net.node("Reshape", [net.node("Transpose", [y], perm=[0, 1, 3, 5, 2, 4]), net.ints([1, 12, 4, 3])])
    net.done(conv(net, net.quantise_as(y, x), (5, 12, 1, 1)))


def l2_normalised(net):
    """x / sqrt(sum(x²)), written with nodes."""
    x = net.frame((1, 12))
    norm = net.node("Sqrt", [net.node("ReduceSum", [net.node("Mul", [x, x]), net.ints([1])], keepdims=1)])
    net.done(net.node("Div", [x, norm]))


def standardised(net):
    """(x - mean) / sqrt(variance + epsilon), written with nodes, behind a product."""
    x = net.quantise(net.node("MatMul", [net.frame((1, 5, 12)), net.weights((12, 8), axis=1)]))
    centred = net.node("Sub", [x, net.node("ReduceMean", [x], axes=[-1])])
    variance = net.node("ReduceMean", [net.node("Pow", [centred, net.floats(numpy.float32(2))])], axes=[-1])
    root = net.node("Sqrt", [net.node("Add", [variance, net.floats(numpy.float32(1e-5))])])
    net.done(net.node("Div", [centred, root]))


NETS = {
    "row_as_picture": (row_as_picture, {}),
    "weights_unsqueezed": (weights_unsqueezed, {}),
    "negative_axis": (negative_axis, {}),
    "negative_axis_of_a_product": (negative_axis_of_a_product, {}),
    "bias_without_zero_point": (bias_without_zero_point, {}),
    "additions": (additions, {}),
    "sum_of_convolutions": (sum_of_convolutions, {}),
    "hidden_output": (hidden_output, {}),
    "padded_pool": (padded_pool, {}),
    "infinitely_padded_pool": (infinitely_padded_pool, {}),
    "causal_mask": (causal_mask(-1e4), {}),
    "causal_mask_lowest": (causal_mask(numpy.finfo("float32").min), {}),
    "causal_mask_infinite": (causal_mask(-numpy.inf), {}),
    "squeezed_wholly": (squeezed_wholly, {}),
    "reshaped_by_batch": (reshaped_by_batch, {}),
    "six_of_two": (six_of_two, {}),
    "scaled_behind_conv": (scaled_behind_conv, {}),
    "split_and_joined": (split_and_joined, {}),
    "resized_and_joined_nearest": (resized_and_joined("nearest"), {}),
    "resized_and_joined_linear": (resized_and_joined("linear"), {}),
    "cropped_behind_transposed": (cropped_behind_transposed, {}),
    "type_by_attribute": (type_by_attribute, dict(opset=21)),
    "group_norm": (group_norm, {}),
    "reflected_layers": (reflected_layers, {}),
    "positions": (positions, {}),
    "unshuffled": (unshuffled, {}),
    "l2_normalised": (l2_normalised, {}),
    "standardised": (standardised, {}),
}


def recipes():
    for name, (build, options) in NETS.items():
        yield f"export_{name}", build, options
