"""Nets about the first and the last operator: the types and ranks of inputs and outputs, several of both, and heads that choose."""

import numpy

PICTURE, FLAT = (1, 4, 9, 8), (1, 24)
ASYMMETRIC = dict(dtype="uint8", zero=113)


def passed(shape, entry="float", form="float", dtype="int8", zero=0):
    """A sum of the data and a constant between an input and an output of these forms."""

    def build(net):
        x = net.frame(shape, dtype, zero, entry=entry)
        net.done(net.node("Add", [x, net.floats(0.7)]), form=form, dtype=dtype)

    return build


def requantised(shape, entry="float", form="float"):
    """Only quantisers: the data are rounded a second time."""

    def build(net):
        x = net.frame(shape, entry=entry)
        net.done(net.node("Identity", [x]), form=form, **ASYMMETRIC, limits=(-3, 4))

    return build


def logits(net):
    x = net.frame(FLAT)
    w = net.weights((10, 24), axis=0)
    return net.quantise(net.node("Gemm", [x, w, net.bias(x, w, 10)], transB=1))


def head(type, outputs=1, constants=(), dtypes=("int64",), **attributes):
    """A Gemm and a head that chooses, such as ArgMax. An output without a type in `dtypes` is not used."""

    def build(net):
        q = logits(net)
        out = net.node(type, [q] + [net.ints(c) for c in constants], outputs, **attributes)
        if net.is_measured:
            return
        for name, dtype in zip([out] if outputs == 1 else out, dtypes):
            if dtype:
                net.output(name, dtype, 1 if dtype == "int64" else float(q.scale))

    return build


def head_on_integers(net):
    q = logits(net)
    if not net.is_measured:
        net.output(net.node("ArgMax", [q.name], axis=1, keepdims=0), "int64", 1)


def head_of_pixels(net):
    """ArgMax over the channels of a picture, as segmentation nets end."""
    x = net.frame(PICTURE)
    q = net.quantise(net.node("Conv", [x, net.weights((5, 4, 3, 3))]))
    if not net.is_measured:
        net.output(net.node("ArgMax", [q], axis=1, keepdims=0), "int64", 1)


def softmax(axis, shape=FLAT, quantised=False, **options):
    def build(net):
        x = net.frame(shape, **options)
        out = net.node("Softmax", [x], axis=axis)
        if quantised:
            net.done(out, dtype="uint8", zero=0)
        else:
            net.output(out, "float32", 1e-6)

    return build


def two_inputs(net):
    a, b = net.frame(PICTURE), net.frame(FLAT)
    net.done(net.node("MaxPool", [a], kernel_shape=[3, 3]))
    net.done(net.node("Add", [b, net.floats(0.3)]))


def two_outputs(net):
    x = net.frame(PICTURE)
    q = net.quantise(net.node("Conv", [x, net.weights((4, 4, 1, 1))]))
    net.end(q)
    net.done(net.node("MaxPool", [q], kernel_shape=[2, 2], strides=[2, 2]))


def output_inside(net):
    """An output that another layer reads, as integers."""
    x = net.frame(PICTURE)
    q = net.quantise(net.node("Conv", [x, net.weights((4, 4, 1, 1))]))
    net.end(q, "integer")
    net.done(net.node("Conv", [q, net.weights((3, 4, 3, 3))]))


def from_bytes(net):
    """A picture of bytes that the net itself scales, as exporters put the preprocessing into the net."""
    shape = (1, 3, 8, 8)
    net.model.input("picture", shape, "uint8")
    net.frames["picture"] = net.random.integers(0, 256, (6, *shape[1:])).astype("uint8")
    x = net.node("Cast", ["picture"], to=1)
    x = net.node("Div", [x, net.floats(255)])
    x = net.node("Sub", [x, net.floats(numpy.array([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1))])
    x = net.node("Div", [x, net.floats(numpy.array([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1))])
    q = net.quantise(x, zero=0)
    net.done(net.node("Conv", [q, net.weights((5, 3, 3, 3), axis=0)]))


def nhwc_input(net):
    """A picture in NHWC order, which a Transpose turns, as TensorFlow's exporter writes it."""
    x = net.frame((1, 9, 8, 4))
    turned = net.quantise_as(net.node("Transpose", [x], perm=[0, 3, 1, 2]), x)
    q = net.quantise(net.node("Conv", [turned, net.weights((5, 4, 3, 3))]))
    net.end(net.quantise_as(net.node("Transpose", [q], perm=[0, 2, 3, 1]), q))


def float_head(net):
    """A float layer behind the last quantiser."""
    q = logits(net)
    net.output(net.node("Sigmoid", [q]), "float32", 1e-6)


def sums(net):
    """A Gemm whose float sums are the output, without a quantiser behind it."""
    x, w = net.frame(FLAT), net.weights((10, 24))
    net.output(net.node("Gemm", [x, w, net.bias(x, w, 10)], transB=1), "float32", 1e-5)


def recipes():
    for rank, shape in ((2, FLAT), (3, (1, 7, 12)), (4, PICTURE), (5, (1, 2, 3, 5, 4)), (6, (1, 2, 3, 2, 5, 2))):
        yield f"rank_{rank}", passed(shape), {}
        yield f"rank_{rank}_integers", passed(shape, "integer", "integer"), {}
        yield f"rank_{rank}_requantised", requantised(shape), {}
    yield "uint8_to_uint8", passed(PICTURE, "integer", "integer", "uint8", 113), {}
    yield "integer_input", passed(PICTURE, "integer"), {}
    yield "integer_output", passed(PICTURE, form="integer"), {}
    yield "requantised_integers", requantised(PICTURE, "integer", "integer"), {}
    yield "argmax", head("ArgMax", axis=1), {}
    yield "argmax_flat", head("ArgMax", axis=-1, keepdims=0), {}
    yield "argmax_last_index", head("ArgMax", axis=1, keepdims=0, select_last_index=1), {}
    yield "argmin", head("ArgMin", axis=1, keepdims=0), {}
    yield "argmax_of_integers", head_on_integers, {}
    yield "argmax_of_pixels", head_of_pixels, {}
    yield "topk", head("TopK", 2, ([3],), ("float32", "int64"), axis=1), {}
    yield "topk_indices", head("TopK", 2, ([3],), (None, "int64"), axis=1), {}
    yield "topk_smallest", head("TopK", 2, ([3],), ("float32", "int64"), axis=-1, largest=0), {}
    yield "softmax", softmax(1), {}
    yield "softmax_last", softmax(-1, (1, 5, 12)), {}
    yield "softmax_channels", softmax(1, PICTURE), {}
    yield "softmax_quantised", softmax(-1, quantised=True), {}
    yield "two_inputs", two_inputs, {}
    yield "two_outputs", two_outputs, {}
    yield "output_inside", output_inside, {}
    yield "input_of_bytes", from_bytes, {}
    yield "input_nhwc", nhwc_input, {}
    yield "output_sigmoid", float_head, {}
    yield "output_sums", sums, {}
