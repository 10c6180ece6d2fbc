"""Small networks in the forms in which tools export them: whole blocks of well-known architectures, with the quantisers where
PyTorch, TensorFlow and ONNX Runtime put them, and with the shape arithmetic and the moves around them.

The file has more than 500 lines because all networks grow from the same class, and each of them is a list of its blocks."""

import numpy


class Grown:
    """A network that grows layer by layer. `x` is a quantised tensor, or a float tensor by name; its shape is given where needed."""

    def __init__(self, net, dtype="uint8", axis=0):
        self.net, self.dtype, self.axis, self.random = net, dtype, axis, net.random

    def picture(self, shape, **options):
        zero = 114 if self.dtype == "uint8" else 0
        return self.net.frame(shape, self.dtype, zero, **options)

    def q(self, tensor, **options):
        return self.net.quantise(tensor, dtype=self.dtype, **options)

    def node(self, type, inputs, **attributes):
        return self.net.node(type, inputs, **attributes)

    def floats(self, values):
        return self.net.floats(values)

    def ints(self, values):
        return self.net.ints(values)

    def bias(self, x, w, count, form):
        """A bias as floats, or as int32 numbers with the product of the scales of `x` and `w`."""
        values, name = self.random.uniform(-0.5, 0.5, count), self.net.next("b")
        if form == "float" or self.net.is_measured or isinstance(x, str):
            return self.net.model.constant(name, values)
        scale = (numpy.float32(x.scale) * w.scale).astype("float32")
        self.net.model.constant(name, numpy.rint(values / scale), "int32")
        s = self.net.model.constant(f"{name}_s", scale)
        z = self.net.model.constant(f"{name}_z", numpy.zeros_like(scale), "int32")
        return self.net.model.node("DequantizeLinear", [name, s, z], f"{name}_dq", **({"axis": 0} if numpy.ndim(scale) else {}))

    def conv(self, x, shape, bias="int32", type="Conv", axis=None, **attributes):
        """A convolution with weights of this shape. Returns the float tensor."""
        axis = self.axis if axis is None else axis
        w = self.net.weights(shape, axis=None if axis == "tensor" else axis)
        count = shape[1] * attributes.get("group", 1) if type == "ConvTranspose" else shape[0]
        inputs = [x, w] + ([self.bias(x, w, count, bias)] if bias else [])
        return self.net.node(type, inputs, **attributes)

    def relu(self, x):
        return self.node("Relu", [x])

    def linear(self, x, rows, columns, bias=True):
        """Gemm with transB, as PyTorch writes a Linear layer."""
        w = self.net.weights((rows, columns), axis=None if self.axis == "tensor" else 0)
        return self.node("Gemm", [x, w] + ([self.bias(x, w, rows, "int32")] if bias else []), transB=1)

    def matmul(self, x, rows, columns, bias=True):
        """MatMul and Add, as PyTorch writes a Linear layer of a sequence and TensorFlow a Dense layer. Returns a float tensor."""
        w = self.net.weights((rows, columns))
        y = self.node("MatMul", [x, w])
        return self.node("Add", [self.floats(self.random.uniform(-1, 1, columns)), y]) if bias else y

    def end(self, tensor, **options):
        self.net.done(tensor, dtype=self.dtype, **options)


def pytorch_static(net):
    """Weights per channel, float biases, activations of uint8 whose zero point is 0 behind Relu."""
    g = Grown(net)
    x = g.picture((1, 3, 12, 12))
    x = g.q(g.relu(g.conv(x, (8, 3, 3, 3), "float", pads=[1] * 4)), zero=0)
    x = g.q(g.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4, ceil_mode=0), zero=0)
    x = g.q(g.relu(g.conv(x, (12, 8, 3, 3), "float", pads=[1] * 4, strides=[2, 2])), zero=0)
    x = g.q(g.node("GlobalAveragePool", [x]), zero=0)
    x = g.q(g.node("Flatten", [x], axis=1), zero=0)
    g.end(g.linear(x, 10, 12))


def view(net):
    """x.view(x.size(0), -1): shape arithmetic around a Reshape."""
    g = Grown(net)
    x = g.picture((1, 3, 8, 8))
    x = g.q(g.relu(g.conv(x, (6, 3, 3, 3), pads=[1] * 4, strides=[2, 2])))
    shape = g.node("Shape", [x])
    first = g.node("Gather", [shape, net.ints(0)], axis=0)
    joined = g.node("Concat", [g.node("Unsqueeze", [first, g.ints([0])]), g.ints([-1])], axis=0)
    x = g.q(g.node("Reshape", [x, joined]))
    g.end(g.linear(x, 10, 96))


def tensorflow(net):
    """Rows of pixels with the channels last, transposed around each convolution; Pad, ReduceMean, MatMul."""
    g = Grown(net, "int8")
    x = net.frame((1, 12, 12, 3), "int8", -5)
    turned = g.node("Transpose", [x], perm=[0, 3, 1, 2])
    padded = g.node("Pad", [turned, g.ints([0, 0, 0, 0, 0, 0, 1, 1])])
    y = g.relu(g.conv(padded, (8, 3, 3, 3), "float", strides=[2, 2]))
    y = g.q(g.node("Transpose", [y], perm=[0, 2, 3, 1]))
    y = g.node("Transpose", [y], perm=[0, 3, 1, 2])
    y = g.node("Conv", [y, net.weights((8, 1, 3, 3), axis=0), g.floats(g.random.uniform(-1, 1, 8))], group=8, auto_pad="SAME_UPPER")
    y = g.node("Clip", [y, g.floats(0.0), g.floats(6.0)])
    y = g.q(g.node("Transpose", [y], perm=[0, 2, 3, 1]))
    y = g.q(g.node("ReduceMean", [y], axes=[1, 2], keepdims=0))
    g.end(g.matmul(y, 8, 10))


def inverted_residual(net):
    """MobileNetV2 as quantize_static of ONNX Runtime writes it."""
    g = Grown(net)
    x = g.picture((1, 3, 12, 12))
    x = g.q(g.node("Clip", [g.conv(x, (8, 3, 3, 3), pads=[1] * 4, strides=[2, 2]), g.floats(0.0), g.floats(6.0)]), zero=0)
    e = g.q(g.node("Clip", [g.conv(x, (24, 8, 1, 1)), g.floats(0.0), g.floats(6.0)]), zero=0)
    e = g.q(g.node("Clip", [g.conv(e, (24, 1, 3, 3), group=24, pads=[1] * 4), g.floats(0.0), g.floats(6.0)]), zero=0)
    p = g.q(g.conv(e, (8, 24, 1, 1)))
    x = g.q(g.node("Add", [x, p]))
    x = g.q(g.node("GlobalAveragePool", [x]))
    x = g.q(g.node("Reshape", [x, g.ints([1, -1])]))
    g.end(g.linear(x, 5, 8))


def swish(g, x):
    return g.node("Mul", [x, g.q(g.node("Sigmoid", [x]))])


def mbconv(net):
    """EfficientNet: swish written as x · Sigmoid(x), squeeze and excite."""
    g = Grown(net)
    x = g.q(g.conv(g.picture((1, 4, 10, 10)), (8, 4, 3, 3), pads=[1] * 4))
    x = g.q(swish(g, x))
    e = g.q(swish(g, g.q(g.conv(x, (16, 8, 1, 1)))))
    e = g.q(swish(g, g.q(g.conv(e, (16, 1, 5, 5), group=16, pads=[2] * 4))))
    s = g.q(g.node("GlobalAveragePool", [e]))
    s = g.q(swish(g, g.q(g.conv(s, (4, 16, 1, 1)))))
    s = g.q(g.node("Sigmoid", [g.q(g.conv(s, (16, 4, 1, 1)))]))
    e = g.q(g.node("Mul", [e, s]))
    g.end(g.node("Add", [g.q(g.conv(e, (8, 16, 1, 1))), x]))


def mobilenet_v3(net):
    """HardSwish as an operator and as x · Clip(x + 3, 0, 6) / 6; squeeze with ReduceMean and HardSigmoid."""
    g = Grown(net)
    x = g.q(g.node("HardSwish", [g.q(g.conv(g.picture((1, 4, 10, 10)), (8, 4, 3, 3), strides=[2, 2], pads=[1] * 4))]))
    y = g.q(g.conv(x, (8, 1, 3, 3), group=8, pads=[1] * 4))
    s = g.q(g.node("ReduceMean", [y], axes=[2, 3], keepdims=1))
    s = g.q(g.relu(g.conv(s, (4, 8, 1, 1))))
    s = g.q(g.node("HardSigmoid", [g.q(g.conv(s, (8, 4, 1, 1)))], alpha=1 / 6))
    y = g.q(g.node("Mul", [s, y]))
    y = g.q(g.conv(y, (8, 8, 1, 1)))
    gate = g.node("Clip", [g.node("Add", [y, g.floats(3.0)]), g.floats(0.0), g.floats(6.0)])
    g.end(g.node("Div", [g.node("Mul", [y, gate]), g.floats(6.0)]))


def unet(up):
    def build(net):
        g = Grown(net)
        a = g.q(g.relu(g.conv(g.picture((1, 3, 12, 12)), (6, 3, 3, 3), pads=[1] * 4)))
        b = g.node("MaxPool", [a], kernel_shape=[2, 2], strides=[2, 2])
        b = g.q(g.relu(g.conv(g.q(b), (12, 6, 3, 3), pads=[1] * 4)))
        if up == "transposed":
            c = g.q(g.conv(b, (12, 6, 2, 2), "float", "ConvTranspose", axis="tensor", strides=[2, 2]))
        else:
            options = dict(nearest=dict(nearest_mode="floor", coordinate_transformation_mode="asymmetric"), linear={})[up]
            c = g.q(g.node("Resize", [b, "", g.floats([1, 1, 2, 2])], mode=up, **options))
            c = g.q(g.conv(c, (6, 12, 1, 1)))
        c = g.q(g.node("Concat", [c, a], axis=1))
        c = g.q(g.relu(g.conv(c, (6, 12, 3, 3), pads=[1] * 4)))
        g.end(g.node("Sigmoid", [g.q(g.conv(c, (2, 6, 1, 1)))]))

    return build


def segmentation(net):
    """A classifier of pixels that is enlarged, with ArgMax at the end."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), pads=[2] * 4, dilations=[2, 2])))
    p = g.q(g.node("GlobalAveragePool", [x]))
    p = g.q(g.relu(g.conv(p, (4, 8, 1, 1))))
    p = g.q(g.node("Resize", [p, "", "", g.ints([1, 4, 8, 8])], mode="nearest"))
    x = g.q(g.node("Concat", [x, p], axis=1))
    x = g.q(g.conv(x, (5, 12, 1, 1)))
    y = g.node("Resize", [x, "", g.floats([1, 1, 2, 2])], mode="linear", coordinate_transformation_mode="half_pixel")
    net.output(g.node("ArgMax", [g.q(y)], axis=1, keepdims=0), "int64", 1)


def normalised(g, x, width, form):
    gamma, beta = g.floats(g.random.uniform(0.5, 1.5, width)), g.floats(g.random.uniform(-0.5, 0.5, width))
    if form == "operator":
        return g.node("LayerNormalization", [x, gamma, beta], axis=-1)
    centred = g.node("Sub", [x, g.node("ReduceMean", [x], axes=[-1])])
    variance = g.node("ReduceMean", [g.node("Pow", [centred, g.floats(2.0)])], axes=[-1])
    root = g.node("Sqrt", [g.node("Add", [variance, g.floats(1e-5)])])
    return g.node("Add", [g.node("Mul", [g.node("Div", [centred, root]), gamma]), beta])


def gelu(g, x, form):
    if form == "operator":
        return g.node("Gelu", [x])
    erf = g.node("Erf", [g.node("Div", [x, g.floats(2**0.5)])])
    return g.node("Mul", [g.node("Mul", [x, g.node("Add", [erf, g.floats(1.0)])]), g.floats(0.5)])


def attention(g, x, tokens, width, heads):
    """Attention with the reshapes and transpositions that PyTorch exports. `x` is quantised."""
    each = width // heads

    def split(perm):
        y = g.q(g.matmul(x, width, width))
        y = g.node("Reshape", [y, g.ints([1, tokens, heads, each])])
        return g.q(g.node("Transpose", [y], perm=perm))

    query, key, value = split([0, 2, 1, 3]), split([0, 2, 3, 1]), split([0, 2, 1, 3])
    scores = g.q(g.node("MatMul", [query, key]))
    scores = g.q(g.node("Div", [scores, g.floats(each**0.5)]))
    shares = g.q(g.node("Softmax", [scores], axis=-1))
    y = g.q(g.node("MatMul", [shares, value]))
    y = g.node("Reshape", [g.node("Transpose", [y], perm=[0, 2, 1, 3]), g.ints([1, tokens, width])])
    return g.q(g.matmul(g.q(y), width, width))


def block(g, x, tokens, width, form):
    y = attention(g, g.q(normalised(g, x, width, form)), tokens, width, 2)
    x = g.q(g.node("Add", [x, y]))
    y = g.q(normalised(g, x, width, form))
    y = g.q(gelu(g, g.q(g.matmul(y, width, 2 * width)), form))
    return g.q(g.node("Add", [x, g.q(g.matmul(y, 2 * width, width))]))


def transformer(form):
    def build(net):
        g = Grown(net, "int8", "tensor")
        net.end(block(g, g.picture((1, 6, 16)), 6, 16, form))

    return build


def vision_transformer(net):
    """Patches by a convolution, a class token joined in front, positions added, one block, a Gather of the class token."""
    g = Grown(net, "int8", "tensor")
    x = g.q(g.conv(g.picture((1, 3, 8, 8)), (16, 3, 4, 4), strides=[4, 4]))
    x = g.node("Transpose", [g.node("Reshape", [x, g.ints([1, 16, -1])])], perm=[0, 2, 1])
    token = g.floats(g.random.uniform(-1, 1, (1, 1, 16)))
    x = g.node("Concat", [token, x], axis=1)
    x = g.q(g.node("Add", [g.q(x), g.floats(g.random.uniform(-1, 1, (1, 5, 16)))]))
    x = block(g, x, 5, 16, "operator")
    first = g.node("Gather", [x, net.ints(0)], axis=1)
    g.end(g.linear(g.q(first), 5, 16))


def audio(net):
    """One-dimensional convolutions with batch normalisation that was not folded."""
    g = Grown(net)
    x = net.frame((1, 1, 64), "uint8", 120)
    for inputs, outputs, stride in ((1, 6, 4), (6, 8, 2)):
        x = g.conv(x, (outputs, inputs, 5), "", pads=[2, 2], strides=[stride])
        parameters = [g.floats(g.random.uniform(low, high, outputs)) for low, high in ((0.5, 1.5), (-1, 1), (-1, 1), (0.5, 2))]
        x = g.q(g.relu(g.node("BatchNormalization", [x, *parameters])))
    x = g.q(g.node("MaxPool", [x], kernel_shape=[2], strides=[2]))
    x = g.q(g.node("ReduceMean", [x], axes=[2], keepdims=0))
    g.end(g.linear(x, 4, 8))


def temporal(net):
    """A causal network: Pad on the left, dilations, a residual of another width."""
    g = Grown(net, "int8")
    x = g.picture((1, 4, 32))
    for dilation, inputs in ((1, 4), (2, 8)):
        padded = g.node("Pad", [x, g.ints([0, 0, 2 * dilation, 0, 0, 0])])
        y = g.q(g.relu(g.conv(g.q(padded), (8, inputs, 3), dilations=[dilation])))
        r = g.q(g.conv(x, (8, inputs, 1))) if inputs != 8 else x
        x = g.q(g.relu(g.node("Add", [y, r])))
    last = g.node("Slice", [x, g.ints([-1]), g.ints([2**62]), g.ints([2])])
    g.end(g.linear(g.q(g.node("Squeeze", [last, g.ints([2])])), 3, 8))


def keywords(net):
    """A spectrogram [1, 1, T, F] with an asymmetric kernel, depthwise blocks, an average over what is left."""
    g = Grown(net, "int8")
    x = g.q(g.relu(g.conv(g.picture((1, 1, 25, 10)), (8, 1, 10, 4), strides=[2, 2], pads=[4, 1, 5, 2])))
    for _ in range(2):
        x = g.q(g.relu(g.conv(x, (8, 1, 3, 3), group=8, pads=[1] * 4)))
        x = g.q(g.relu(g.conv(x, (8, 8, 1, 1))))
    x = g.q(g.node("AveragePool", [x], kernel_shape=[13, 5]))
    x = g.q(g.node("Squeeze", [x, g.ints([2, 3])]))
    net.output(g.node("Softmax", [g.q(g.linear(x, 6, 8))], axis=-1), "float32", 1e-6)


def detector(net):
    """YOLO: two scales joined by Resize and Concat, boxes by Sigmoid, powers and constants, Reshape and Transpose of five axes."""
    g = Grown(net)
    a = g.q(swish(g, g.q(g.conv(g.picture((1, 3, 16, 16)), (6, 3, 3, 3), strides=[2, 2], pads=[1] * 4))))
    b = g.q(swish(g, g.q(g.conv(a, (8, 6, 3, 3), strides=[2, 2], pads=[1] * 4))))
    up = g.q(g.node("Resize", [b, "", g.floats([1, 1, 2, 2])], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"))
    a = g.q(g.node("Concat", [up, a], axis=1))
    heads = []
    for x, channels, size in ((a, 14, 8), (b, 8, 4)):
        y = g.q(g.conv(x, (2 * 7, channels, 1, 1)))
        y = g.node("Reshape", [y, g.ints([1, 2, 7, size, size])])
        y = g.q(g.node("Transpose", [y], perm=[0, 1, 3, 4, 2]))
        y = g.q(g.node("Sigmoid", [y]))
        place, extent, rest = g.node("Split", [y, g.ints([2, 2, 3])], outputs=3, axis=4)
        grid = g.floats(g.random.integers(0, size, (1, 1, size, size, 2)))
        anchors = g.floats(g.random.uniform(1, 4, (1, 2, 1, 1, 2)))
        place = g.node("Mul", [g.node("Add", [g.node("Mul", [place, g.floats(2.0)]), grid]), g.floats(8.0)])
        extent = g.node("Mul", [g.node("Pow", [g.node("Mul", [extent, g.floats(2.0)]), g.floats(2.0)]), anchors])
        y = g.node("Concat", [place, extent, rest], axis=4)
        heads.append(g.node("Reshape", [y, g.ints([1, -1, 7])]))
    net.output(g.node("Concat", heads, axis=1), "float32", 1e-3)


def distribution_head(net):
    """YOLOv8: the place of a box as the mean of a distribution, and scores beside it."""
    g = Grown(net)
    x = g.q(swish(g, g.q(g.conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4))))
    y = g.q(g.node("Concat", [g.q(g.conv(x, (16, 8, 1, 1))), g.q(g.conv(x, (3, 8, 1, 1)))], axis=1))
    y = g.node("Reshape", [y, g.ints([1, 19, 16])])
    box, score = g.node("Split", [y, g.ints([16, 3])], outputs=2, axis=1)
    box = g.node("Transpose", [g.node("Reshape", [box, g.ints([1, 4, 4, 16])])], perm=[0, 2, 1, 3])
    box = g.node("Softmax", [g.q(box)], axis=1)
    box = g.node("Conv", [g.q(box), g.net.weights((1, 4, 1, 1), integers=numpy.arange(4).reshape(1, 4, 1, 1), scale=1.0)])
    box = g.q(g.node("Reshape", [box, g.ints([1, 4, 16])]))
    near, far = g.node("Split", [box, g.ints([2, 2])], outputs=2, axis=1)
    anchors = g.floats(g.random.uniform(0, 4, (1, 2, 16)))
    near, far = g.node("Sub", [anchors, near]), g.node("Add", [anchors, far])
    centre = g.node("Div", [g.node("Add", [near, far]), g.floats(2.0)])
    box = g.node("Mul", [g.node("Concat", [centre, g.node("Sub", [far, near])], axis=1), g.floats(8.0)])
    net.output(g.node("Concat", [box, g.node("Sigmoid", [g.q(score)])], axis=1), "float32", 1e-3)


def anchors_head(net):
    """SSD: heads of two scales, each transposed and flattened, joined to two outputs."""
    g = Grown(net)
    a = g.q(g.relu(g.conv(g.picture((1, 3, 12, 12)), (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)))
    b = g.q(g.relu(g.conv(a, (8, 8, 3, 3), strides=[2, 2], pads=[1] * 4)))
    scores, boxes = [], []
    for x in (a, b):
        for list, each in ((scores, 3), (boxes, 4)):
            y = g.q(g.conv(x, (2 * each, 8, 3, 3), pads=[1] * 4))
            y = g.node("Transpose", [y], perm=[0, 2, 3, 1])
            list.append(g.q(g.node("Reshape", [y, g.ints([1, -1, each])])))
    scores = g.q(g.node("Concat", scores, axis=1))
    net.output(g.node("Softmax", [scores], axis=2), "float32", 1e-6)
    g.end(g.node("Concat", boxes, axis=1))


def dense(net):
    """DenseNet: batch normalisation and Relu in front of each convolution, Concat behind it, an average between blocks."""
    g = Grown(net)
    x, width = g.q(g.conv(g.picture((1, 3, 8, 8)), (6, 3, 3, 3), pads=[1] * 4)), 6
    for _ in range(3):
        parameters = [g.floats(g.random.uniform(low, high, width)) for low, high in ((0.5, 1.5), (-1, 1), (-1, 1), (0.5, 2))]
        y = g.q(g.relu(g.node("BatchNormalization", [x, *parameters])))
        y = g.q(g.conv(y, (4, width, 3, 3), pads=[1] * 4))
        x, width = g.q(g.node("Concat", [x, y], axis=1)), width + 4
    x = g.q(g.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2]))
    g.end(g.conv(x, (5, width, 1, 1)))


def shuffle(net):
    """ShuffleNetV2: Split, a branch of depthwise convolutions, Concat, channel shuffle."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), pads=[1] * 4)))
    for _ in range(2):
        kept, worked = g.node("Split", [x, g.ints([4, 4])], outputs=2, axis=1)
        y = g.q(g.relu(g.conv(g.q(worked), (4, 4, 1, 1))))
        y = g.q(g.conv(y, (4, 1, 3, 3), group=4, pads=[1] * 4))
        y = g.q(g.relu(g.conv(y, (4, 4, 1, 1))))
        x = g.q(g.node("Concat", [g.q(kept), y], axis=1))
        x = g.node("Reshape", [x, g.ints([1, 2, 4, 8, 8])])
        x = g.node("Transpose", [x], perm=[0, 2, 1, 3, 4])
        x = g.q(g.node("Reshape", [x, g.ints([1, 8, 8, 8])]))
    x = g.q(g.node("ReduceMean", [x], axes=[2, 3], keepdims=0))
    g.end(g.linear(x, 4, 8))


def shuffled_by_slices(net):
    """Channel shuffle as older exporters write it, with Slices and a Gather."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), pads=[1] * 4)))
    even = g.node("Slice", [x, g.ints([0]), g.ints([8]), g.ints([1]), g.ints([2])])
    odd = g.node("Slice", [x, g.ints([1]), g.ints([8]), g.ints([1]), g.ints([2])])
    y = g.q(g.conv(g.q(odd), (4, 4, 1, 1)))
    x = g.q(g.node("Concat", [g.q(even), y], axis=1))
    g.end(g.node("Gather", [x, g.ints([0, 4, 1, 5, 2, 6, 3, 7])], axis=1))


def two_inputs(net):
    """A picture and a vector, joined before the last layers; two outputs."""
    g = Grown(net)
    x, v = g.picture((1, 3, 8, 8)), net.frame((1, 6), "uint8", 100)
    x = g.q(g.relu(g.conv(x, (6, 3, 3, 3), strides=[2, 2], pads=[1] * 4)))
    x = g.q(g.node("Flatten", [g.q(g.node("GlobalMaxPool", [x]))]))
    v = g.q(g.relu(g.linear(v, 6, 6)))
    y = g.q(g.node("Concat", [x, v], axis=1))
    g.end(g.linear(y, 4, 12))
    g.end(g.node("Sigmoid", [g.q(g.linear(y, 1, 12))]))


def siamese(net):
    """Two inputs through the same weights, and the difference."""
    g = Grown(net, axis="tensor")
    a, b = g.picture((1, 3, 8, 8)), g.picture((1, 3, 8, 8), scale=0.0317)
    w = net.weights((4, 3, 3, 3))
    a, b = (g.q(g.relu(g.node("Conv", [x, w], pads=[1] * 4, strides=[2, 2]))) for x in (a, b))
    y = g.q(g.node("Abs", [g.q(g.node("Sub", [a, b]))]))
    g.end(g.linear(g.q(g.node("Flatten", [y])), 1, 64))


def inception(net):
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 9, 9)), (6, 3, 3, 3), pads=[1] * 4)))
    a = g.q(g.relu(g.conv(x, (3, 6, 1, 1))))
    b = g.q(g.relu(g.conv(g.q(g.relu(g.conv(x, (3, 6, 1, 1)))), (4, 3, 5, 5), pads=[2] * 4)))
    c = g.q(g.relu(g.conv(g.q(g.relu(g.conv(x, (4, 6, 1, 7), pads=[0, 3, 0, 3]))), (3, 4, 7, 1), pads=[3, 0, 3, 0])))
    d = g.q(g.node("MaxPool", [x], kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4))
    d = g.q(g.relu(g.conv(d, (2, 6, 1, 1))))
    x = g.q(g.node("Concat", [a, b, c, d], axis=1))
    x = g.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    g.end(g.conv(g.q(x), (5, 12, 1, 1)))


def fire(net):
    """SqueezeNet: pools with ceil_mode, two convolutions joined, Dropout, a convolution as the classifier."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 14, 14)), (8, 3, 3, 3), strides=[2, 2])))
    x = g.q(g.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1))
    s = g.q(g.relu(g.conv(x, (4, 8, 1, 1))))
    x = g.q(g.node("Concat", [g.q(g.relu(g.conv(s, (6, 4, 1, 1)))), g.q(g.relu(g.conv(s, (6, 4, 3, 3), pads=[1] * 4)))], axis=1))
    x = g.node("Dropout", [x])
    x = g.q(g.relu(g.conv(x, (5, 12, 1, 1))))
    x = g.q(g.node("GlobalAveragePool", [x]))
    g.end(g.node("Flatten", [x]))


def residual_qoperator(net):
    """ResNet in QOperator form."""
    g = Grown(net)

    def conv(x, shape, **attributes):
        w = net.weights(shape, axis=0)
        return net.operator("QLinearConv", "Conv", [x, w], dtype="uint8", **attributes)

    x = conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), pads=[1] * 4)
    y = conv(conv(x, (8, 8, 3, 3), pads=[1] * 4), (8, 8, 3, 3), pads=[1] * 4)
    x = net.operator("QLinearAdd", "Add", [y, x], domain="com.microsoft", dtype="uint8")
    x = net.operator("QLinearGlobalAveragePool", "GlobalAveragePool", [x], domain="com.microsoft", dtype="uint8")
    flat = net.node("Flatten", [x.name])
    x = Flat(net, flat, x)
    w = net.weights((5, 8), axis=0)
    net.end(net.operator("QGemm", "Gemm", [x, w], domain="com.microsoft", dtype="uint8", transB=1))


def Flat(net, name, like):
    """The flattened tensor `name` with the scale and zero point of `like`."""
    if net.is_measured:
        like.float = like.name = name
        return like
    return net.known(name, like)


def convnext(net):
    """A depthwise convolution of 7 x 7, LayerNormalization with the channels last, two matrix products, a scale of each channel."""
    g = Grown(net, "int8")
    x = g.q(g.conv(g.picture((1, 3, 8, 8)), (8, 3, 2, 2), strides=[2, 2]))
    y = g.q(g.conv(x, (8, 1, 7, 7), group=8, pads=[3] * 4))
    y = g.node("Transpose", [y], perm=[0, 2, 3, 1])
    y = g.q(normalised(g, y, 8, "operator"))
    y = g.q(gelu(g, g.q(g.matmul(y, 8, 16)), "written"))
    y = g.node("Mul", [g.matmul(y, 16, 8), g.floats(g.random.uniform(0.1, 0.5, 8))])
    y = g.q(g.node("Transpose", [y], perm=[0, 3, 1, 2]))
    g.end(g.node("Add", [x, y]))


def branches_summed(net):
    """Three branches, added by one Sum."""
    g = Grown(net)
    x = g.picture((1, 4, 8, 8))
    parts = [g.q(g.conv(x, (4, 4, 3, 3), pads=[1] * 4)), g.q(g.conv(x, (4, 4, 1, 1))), x]
    g.end(g.relu(g.node("Sum", parts)))


def super_resolution(net):
    g = Grown(net)
    x = g.q(g.node("PRelu", [g.q(g.conv(g.picture((1, 1, 8, 8)), (8, 1, 5, 5), pads=[2] * 4)), g.floats(g.random.uniform(0.1, 0.4, (8, 1, 1)))]))
    y = g.q(g.relu(g.conv(x, (8, 8, 3, 3), pads=[1] * 4)))
    y = g.q(g.node("Add", [x, y]))
    y = g.q(g.conv(y, (4, 8, 3, 3), pads=[1] * 4))
    y = g.node("DepthToSpace", [y], blocksize=2, mode="CRD")
    g.end(g.node("Clip", [y, g.floats(0.0), g.floats(1.0)]))


def mixer(net):
    """MLP-Mixer: matrix products along the tokens and along the channels."""
    g = Grown(net, "int8", "tensor")
    x = g.picture((1, 9, 12))
    y = g.q(normalised(g, x, 12, "operator"))
    y = g.q(g.node("Transpose", [y], perm=[0, 2, 1]))
    y = g.q(g.matmul(g.q(g.relu(g.matmul(y, 9, 16))), 16, 9))
    x = g.q(g.node("Add", [x, g.q(g.node("Transpose", [y], perm=[0, 2, 1]))]))
    y = g.q(g.matmul(g.q(g.relu(g.matmul(x, 12, 20))), 20, 12))
    x = g.q(g.node("Add", [x, y]))
    g.end(g.linear(g.q(g.node("ReduceMean", [x], axes=[1], keepdims=0)), 4, 12))


def lenet_tanh(net):
    g = Grown(net, "int8")
    x = g.q(g.node("Tanh", [g.q(g.conv(g.picture((1, 1, 12, 12)), (4, 1, 5, 5)))]))
    x = g.q(g.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2]))
    x = g.q(g.node("Reshape", [x, g.ints([-1, 64])]))
    x = g.q(g.node("Tanh", [g.q(g.linear(x, 12, 64))]))
    net.output(g.node("LogSoftmax", [g.q(g.linear(x, 5, 12))], axis=1), "float32", 1e-6)


def points(net):
    """PointNet: the same layers for each point, and the maximum over all points."""
    g = Grown(net)
    x = g.picture((1, 3, 20))
    x = g.q(g.relu(g.conv(x, (8, 3, 1))))
    x = g.q(g.relu(g.conv(x, (12, 8, 1))))
    x = g.q(g.node("ReduceMax", [x], axes=[2], keepdims=0))
    x = g.q(g.node("Reshape", [x, g.ints([-1, 12])]))
    g.end(g.linear(x, 5, 12))


def attention_pool(net):
    """Softmax over the tokens, the weighted sum of the tokens."""
    g = Grown(net, "int8", "tensor")
    x = g.picture((1, 7, 12))
    shares = g.q(g.node("Softmax", [g.q(g.matmul(x, 12, 1))], axis=1))
    y = g.q(g.node("Mul", [x, shares]))
    y = g.q(g.node("ReduceSum", [y, g.ints([1])], keepdims=0))
    g.end(g.linear(y, 4, 12))


def ghost(net):
    """GhostNet: half of the channels by a cheap depthwise convolution of the other half; a Slice of the first ones."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 4, 8, 8)), (6, 4, 1, 1))))
    cheap = g.q(g.relu(g.conv(x, (6, 1, 3, 3), group=6, pads=[1] * 4)))
    x = g.q(g.node("Concat", [x, cheap], axis=1))
    x = g.q(g.node("Slice", [x, g.ints([0]), g.ints([10]), g.ints([1])]))
    g.end(g.conv(x, (4, 10, 1, 1)))


def style(net):
    """InstanceNormalization between convolutions, reflected padding, nearest Resize."""
    g = Grown(net)
    x = g.node("Pad", [g.picture((1, 3, 8, 8)), g.ints([0, 0, 1, 1, 0, 0, 1, 1])], mode="reflect")
    x = g.q(g.conv(g.q(x), (6, 3, 3, 3), strides=[2, 2]))
    x = g.node("InstanceNormalization", [x, g.floats(g.random.uniform(0.5, 1.5, 6)), g.floats(g.random.uniform(-1, 1, 6))])
    x = g.q(g.relu(x))
    x = g.node("Resize", [x, "", g.floats([1, 1, 2, 2])], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    g.end(g.node("Tanh", [g.q(g.conv(g.q(x), (3, 6, 3, 3), pads=[1] * 4))]))


def embedding(net):
    """A face embedding: PRelu, a depthwise convolution over the whole plane, the division by the norm."""
    g = Grown(net)
    x = g.conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = g.q(g.node("PRelu", [g.q(x), g.floats(g.random.uniform(0.1, 0.4, (8, 1, 1)))]))
    x = g.q(g.conv(x, (8, 1, 4, 4), group=8))
    x = g.node("Flatten", [g.q(g.conv(x, (6, 8, 1, 1)))])
    norm = g.node("ReduceL2", [x], axes=[1], keepdims=1)
    norm = g.node("Expand", [g.node("Clip", [norm, g.floats(1e-12)]), g.node("Shape", [x])])
    net.output(g.node("Div", [x, norm]), "float32", 1e-6)


def series(net):
    """A time series [1, T, F] for a convolution over two axes: Unsqueeze, Conv, Squeeze, Transpose."""
    g = Grown(net, "int8")
    x = g.node("Unsqueeze", [g.picture((1, 16, 5)), g.ints([1])])
    x = g.q(g.relu(g.conv(g.q(x), (6, 1, 3, 5), pads=[1, 0, 1, 0])))
    x = g.node("Squeeze", [x, g.ints([3])])
    x = g.q(g.node("Transpose", [x], perm=[0, 2, 1]))
    x = g.q(g.relu(g.matmul(x, 6, 8)))
    x = g.q(g.node("ReduceMean", [x], axes=[1], keepdims=0))
    g.end(g.linear(x, 3, 8))


def float_ends(net):
    """Only the layers in the middle are quantised, as if a user had excluded the first and the last one."""
    g = Grown(net)
    net.model.input("x", (1, 3, 8, 8))
    net.frames["x"] = net.random.normal(0, 1, (6, 3, 8, 8)).astype("float32")
    w = g.floats(g.random.normal(0, 0.3, (6, 3, 3, 3)))
    x = g.q(g.relu(g.node("Conv", ["x", w, g.floats(g.random.uniform(-1, 1, 6))], pads=[1] * 4)))
    x = g.q(g.relu(g.conv(x, (8, 6, 3, 3), strides=[2, 2], pads=[1] * 4)))
    x = g.q(g.node("GlobalAveragePool", [x]))
    x = g.node("Gemm", [g.node("Flatten", [x]), g.floats(g.random.normal(0, 0.5, (4, 8)))], transB=1)
    net.output(x, "float32", 1e-5)


def wide_activations(net):
    """Activations of 16 bits with weights of 8 bits."""
    g = Grown(net, "int16")
    x = net.frame((1, 3, 8, 8), "int16")
    x = g.q(g.relu(g.conv(x, (6, 3, 3, 3), "float", pads=[1] * 4)), zero=0)
    g.end(g.conv(x, (4, 6, 1, 1), "float"), zero=0)


def darknet(net):
    g = Grown(net)
    x = g.q(g.node("LeakyRelu", [g.q(g.conv(g.picture((1, 3, 12, 12)), (6, 3, 3, 3), pads=[1] * 4))], alpha=0.1))
    x = g.q(g.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]))
    y = g.q(g.node("LeakyRelu", [g.q(g.conv(x, (4, 6, 1, 1)))], alpha=0.1))
    y = g.q(g.node("LeakyRelu", [g.q(g.conv(y, (6, 4, 3, 3), pads=[1] * 4))], alpha=0.1))
    x = g.q(g.node("Add", [x, y]))
    z = g.node("SpaceToDepth", [x], blocksize=2)
    g.end(g.conv(g.q(z), (5, 24, 1, 1)))


def focus(net):
    """YOLOv5's first layer: four Slices of every second pixel, joined."""
    g = Grown(net)
    x = g.picture((1, 3, 12, 12))
    parts = []
    for right in (0, 1):
        for below in (0, 1):
            y = g.node("Slice", [x, g.ints([below]), g.ints([2**62]), g.ints([2]), g.ints([2])])
            parts.append(g.node("Slice", [y, g.ints([right]), g.ints([2**62]), g.ints([3]), g.ints([2])]))
    x = g.q(g.node("Concat", parts, axis=1))
    g.end(g.conv(x, (6, 12, 3, 3), pads=[1] * 4))


def pyramid(net):
    """Spatial pyramid pooling: pools of stride 1, joined."""
    g = Grown(net)
    x = g.q(g.conv(g.picture((1, 3, 8, 8)), (4, 3, 1, 1)))
    a = g.node("MaxPool", [x], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4)
    b = g.node("MaxPool", [a], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4)
    x = g.q(g.node("Concat", [x, a, b], axis=1))
    g.end(g.conv(x, (5, 12, 1, 1)))


def channel_attention(net):
    """CBAM: the average and the maximum over the plane through one network, and over the channels through a convolution."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 8, 8)), (8, 3, 3, 3), pads=[1] * 4)))
    w, v = net.weights((4, 8, 1, 1)), net.weights((8, 4, 1, 1))
    sums = []
    for type in ("GlobalAveragePool", "GlobalMaxPool"):
        y = g.q(g.relu(g.node("Conv", [g.q(g.node(type, [x])), w])))
        sums.append(g.q(g.node("Conv", [y, v])))
    gate = g.q(g.node("Sigmoid", [g.q(g.node("Add", sums))]))
    x = g.q(g.node("Mul", [x, gate]))
    mean = g.q(g.node("ReduceMean", [x], axes=[1], keepdims=1))
    most = g.q(g.node("ReduceMax", [x], axes=[1], keepdims=1))
    gate = g.q(g.conv(g.q(g.node("Concat", [mean, most], axis=1)), (1, 2, 3, 3), pads=[1] * 4))
    g.end(g.node("Mul", [x, g.q(g.node("Sigmoid", [gate]))]))


def masked(net):
    """A mask as an input: Where, and a product with the mask."""
    g = Grown(net, "int8")
    x = g.q(g.relu(g.conv(g.picture((1, 2, 8, 8)), (4, 2, 3, 3), pads=[1] * 4)))
    mask = net.frame((1, 1, 8, 8), "uint8", 0, scale=1 / 255)
    x = g.q(g.node("Mul", [x, mask]))
    total = g.q(g.node("ReduceSum", [x, g.ints([2, 3])], keepdims=0))
    g.end(g.linear(total, 3, 4))


def preprocessed(net):
    """A picture of bytes with the channels last, which the net itself converts, normalises and turns."""
    g = Grown(net)
    net.model.input("x", (1, 8, 8, 3), "uint8")
    net.frames["x"] = net.random.integers(0, 256, (6, 8, 8, 3)).astype("uint8")
    x = g.node("Cast", ["x"], to=1)
    x = g.node("Sub", [g.node("Div", [x, g.floats(255.0)]), g.floats([0.485, 0.456, 0.406])])
    x = g.node("Div", [x, g.floats([0.229, 0.224, 0.225])])
    x = g.q(g.node("Transpose", [x], perm=[0, 3, 1, 2]))
    g.end(g.relu(g.conv(x, (6, 3, 3, 3), strides=[2, 2], pads=[1] * 4)))


def sizes_computed(net):
    """F.interpolate(x, scale_factor=2) with computed sizes: the sizes pass through floats."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 6, 6)), (4, 3, 3, 3), pads=[1] * 4)))
    shape = g.node("Shape", [x])
    first = g.node("Slice", [shape, g.ints([0]), g.ints([2]), g.ints([0])])
    rest = g.node("Cast", [g.node("Slice", [shape, g.ints([2]), g.ints([4]), g.ints([0])])], to=1)
    rest = g.node("Cast", [g.node("Floor", [g.node("Mul", [rest, g.floats(2.0)])])], to=7)
    x = g.q(g.node("Resize", [x, "", "", g.node("Concat", [first, rest], axis=0)], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"))
    g.end(g.conv(x, (4, 4, 1, 1)))


def pads_computed(net):
    """F.pad: the pads of PyTorch, filled up, reversed and turned into those of ONNX."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 6, 6)), (4, 3, 3, 3), pads=[1] * 4)))
    given = g.ints([1, 2, 0, 1])
    rank = g.node("Mul", [g.node("Gather", [g.node("Shape", [g.node("Shape", [x])]), net.ints(0)], axis=0), net.ints(2)])
    missing = g.node("Sub", [rank, g.node("Gather", [g.node("Shape", [given]), net.ints(0)], axis=0)])
    fill = g.node("ConstantOfShape", [g.node("Unsqueeze", [missing, g.ints([0])])])
    pads = g.node("Concat", [given, g.node("Cast", [fill], to=7)], axis=0)
    pads = g.node("Reshape", [pads, g.ints([-1, 2])])
    pads = g.node("Slice", [pads, g.ints([-1]), g.ints([-(2**62)]), g.ints([0]), g.ints([-1])])
    pads = g.node("Reshape", [g.node("Transpose", [pads], perm=[1, 0]), g.ints([-1])])
    x = g.q(g.node("Pad", [x, g.node("Cast", [pads], to=7), g.floats(0.0)], mode="constant"))
    g.end(g.conv(x, (4, 4, 3, 3)))


def chunks(net):
    """torch.chunk with computed bounds, and expand() with its Equal and Where."""
    g = Grown(net)
    x = g.q(g.relu(g.conv(g.picture((1, 3, 6, 6)), (8, 3, 3, 3), pads=[1] * 4)))
    count = g.node("Gather", [g.node("Shape", [x]), net.ints(1)], axis=0)
    half = g.node("Div", [g.node("Add", [count, net.ints(1)]), net.ints(2)])
    half, whole = (g.node("Unsqueeze", [n, g.ints([0])]) for n in (half, g.node("Mul", [half, net.ints(2)])))
    a = g.node("Slice", [x, g.ints([0]), half, g.ints([1])])
    b = g.node("Slice", [x, half, whole, g.ints([1])])
    gate = g.q(g.node("Sigmoid", [g.q(g.node("GlobalAveragePool", [b]))]))
    wanted = g.ints([-1, 4, 6, 6])
    minus = g.node("Mul", [g.node("ConstantOfShape", [g.ints([4])]), g.floats(-1.0)])
    minus = g.node("Cast", [g.node("Sub", [minus, g.floats(1.0)])], to=7)
    shape = g.node("Where", [g.node("Equal", [wanted, minus]), g.ints([1, 1, 1, 1]), wanted])
    gate = g.node("Expand", [gate, g.node("Where", [g.node("Equal", [shape, minus]), shape, g.ints([1, 4, 6, 6])])])
    g.end(g.node("Mul", [a, gate]))


def weight_only(net):
    """Quantised weights, float activations."""
    g = Grown(net, "int8", "tensor")
    net.model.input("x", (1, 16))
    net.frames["x"] = net.random.normal(0, 1, (6, 16)).astype("float32")
    w = net.weights((16, 8))
    x = g.relu(g.node("MatMul", ["x", w]))
    x = g.q(x)
    g.end(g.matmul(x, 8, 6))


NETS = {
    "pytorch_static": (pytorch_static, {}),
    "view": (view, {}),
    "tensorflow": (tensorflow, {}),
    "inverted_residual": (inverted_residual, {}),
    "mbconv": (mbconv, {}),
    "mobilenet_v3": (mobilenet_v3, dict(opset=14)),
    "unet_transposed": (unet("transposed"), {}),
    "unet_nearest": (unet("nearest"), {}),
    "unet_linear": (unet("linear"), {}),
    "segmentation": (segmentation, {}),
    "transformer": (transformer("operator"), dict(opset=20)),
    "transformer_written": (transformer("written"), {}),
    "vision_transformer": (vision_transformer, dict(opset=20)),
    "audio": (audio, {}),
    "temporal": (temporal, {}),
    "keywords": (keywords, {}),
    "detector": (detector, {}),
    "distribution_head": (distribution_head, {}),
    "anchors_head": (anchors_head, {}),
    "dense": (dense, {}),
    "shuffle": (shuffle, {}),
    "shuffled_by_slices": (shuffled_by_slices, {}),
    "two_inputs": (two_inputs, {}),
    "siamese": (siamese, {}),
    "inception": (inception, {}),
    "fire": (fire, {}),
    "residual_qoperator": (residual_qoperator, dict(domains=("com.microsoft",))),
    "convnext": (convnext, dict(opset=17)),
    "branches_summed": (branches_summed, {}),
    "super_resolution": (super_resolution, {}),
    "mixer": (mixer, dict(opset=17)),
    "lenet_tanh": (lenet_tanh, {}),
    "points": (points, {}),
    "attention_pool": (attention_pool, {}),
    "ghost": (ghost, {}),
    "style": (style, {}),
    "embedding": (embedding, {}),
    "series": (series, {}),
    "float_ends": (float_ends, {}),
    "wide_activations": (wide_activations, dict(opset=21)),
    "darknet": (darknet, {}),
    "focus": (focus, {}),
    "pyramid": (pyramid, {}),
    "channel_attention": (channel_attention, {}),
    "masked": (masked, {}),
    "weight_only": (weight_only, {}),
    "preprocessed": (preprocessed, {}),
    "sizes_computed": (sizes_computed, {}),
    "pads_computed": (pads_computed, {}),
    "chunks": (chunks, {}),
}


def recipes():
    for name, (build, options) in NETS.items():
        yield f"network_{name}", build, options
