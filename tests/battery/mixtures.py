"""Nets of several random layers: convolutions, pools, functions, sums with earlier tensors, concatenations, moves. They show what
nets of one operator cannot: branches, changes of layout between layers, and fusions.

Functions other than Relu stand behind a quantiser. Behind a convolution without a quantiser, ONNX Runtime adds the products in
float32, and a rounded sum can make the function's result another step.
"""

COUNT = 100  # nets
FUNCTIONS = ["Relu", "Sigmoid", "HardSigmoid", "LeakyRelu", "Tanh", "Elu", "Abs", "HardSwish", "Neg"]


class Mixture:
    """A net that grows layer by layer. A layer reads the last tensor, and some an earlier one as well."""

    def __init__(self, net):
        self.net, self.random = net, net.random
        self.unsigned = self.choice([False, True])
        self.exact = self.choice([False, True])  # all scales are powers of two, so no float32 sum rounds
        shape = (1, self.choice([1, 3, 4, 6]), self.choice([6, 7, 9, 12]), self.choice([6, 8, 11]))
        zero = (0 if self.exact else 100) if self.unsigned else 0
        self.tensors = [(net.frame(shape, self.dtype, zero, power_of_two=self.exact), shape)]

    @property
    def dtype(self):
        return "uint8" if self.unsigned else "int8"

    @property
    def last(self):
        return self.tensors[-1]

    def choice(self, options):
        return options[int(self.random.integers(len(options)))]

    def push(self, tensor, shape, quantised=None):
        """Quantises a result; or `quantised` is the tensor whose scale and zero point it keeps."""
        if quantised is not None:
            q = self.net.quantise_as(tensor, quantised)
        else:
            q = self.net.quantise(tensor, dtype=self.dtype, power_of_two=self.exact)
        self.tensors.append((q, tuple(int(d) for d in shape)))

    def weights(self, shape):
        if self.exact:
            return self.net.weights(shape, scale=1 / 64)
        return self.net.weights(shape, axis=self.choice([None, 0]))

    def conv(self):
        x, (_, c, h, w) = self.last
        kernel = self.choice([k for k in (1, 2, 3, 5) if k <= min(h, w)])
        stride, before, behind = self.choice([1, 1, 2]), self.choice([0, kernel // 2]), self.choice([0, kernel // 2])
        group = self.choice([1, 1, c])
        outputs = group * self.choice([1, 2]) if group > 1 else self.choice([3, 4, 8])
        weights = self.weights((outputs, c // group, kernel, kernel))
        relu = self.choice([True, False])
        bias = [self.net.floats(self.random.uniform(0, 3, outputs))] if relu else []
        out = self.net.node("Conv", [x, weights, *bias], pads=[before, before, behind, behind], strides=[stride] * 2, group=group)
        if relu:
            out = self.net.node("Relu", [out])
        size = [(d + before + behind - kernel) // stride + 1 for d in (h, w)]
        self.push(out, (1, outputs, *size))

    def pool(self):
        x, (_, c, h, w) = self.last
        if min(h, w) < 3:
            return self.conv()
        type = self.choice(["MaxPool", "AveragePool"]) if self.exact else "MaxPool"
        kernel, stride, pad = self.choice([2, 3]), self.choice([1, 2]), self.choice([0, 1])
        out = self.net.node(type, [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        size = [(d + 2 * pad - kernel) // stride + 1 for d in (h, w)]
        self.push(out, (1, c, *size), x if type == "MaxPool" else None)

    def function(self):
        x, shape = self.last
        self.push(self.net.node(self.choice(FUNCTIONS), [x]), shape)

    def combine(self):
        """A sum, product or maximum with an earlier tensor of the same shape, or with a convolution of the last one."""
        x, shape = self.last
        earlier = [t for t, s in self.tensors[:-1] if s == shape]
        if not earlier:
            out = self.net.node("Conv", [x, self.weights((shape[1], shape[1], 1, 1))])
            self.push(out, shape)
            earlier = [x]
        type = self.choice(["Add", "Add", "Mul", "Sub", "Max"])
        self.push(self.net.node(type, [self.last[0], self.choice(earlier)]), shape)

    def concat(self):
        x, shape = self.last
        parts = [(t, s) for t, s in self.tensors if s[2:] == shape[2:]]
        other, s = self.choice(parts)
        self.push(self.net.node("Concat", [x, other], axis=1), (1, shape[1] + s[1], *shape[2:]))

    def excite(self):
        x, shape = self.last
        options = dict(dtype=self.dtype, power_of_two=self.exact)
        squeezed = self.net.quantise(self.net.node("GlobalAveragePool", [x]), **options)
        gate = self.net.quantise(self.net.node("Conv", [squeezed, self.weights((shape[1], shape[1], 1, 1))]), **options)
        gate = self.net.quantise(self.net.node("Sigmoid", [gate]), **options)
        self.push(self.net.node("Mul", [x, gate]), shape)

    def move(self):
        x, (_, c, h, w) = self.last
        kind = self.choice(["resize", "slice", "pad", "turn", "block", "shuffle"])
        net = self.net
        if kind == "resize":
            options = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
            return self.push(net.node("Resize", [x, "", net.floats([1, 1, 2, 2])], **options), (1, c, 2 * h, 2 * w), x)
        if kind == "slice" and h > 3:
            return self.push(net.node("Slice", [x, net.ints([1]), net.ints([h - 1]), net.ints([2])]), (1, c, h - 2, w), x)
        if kind == "pad":
            return self.push(net.node("Pad", [x, net.ints([0, 0, 1, 2, 0, 0, 0, 1])]), (1, c, h + 1, w + 3), x)
        if kind == "turn":
            return self.push(net.node("Transpose", [x], perm=[0, 1, 3, 2]), (1, c, w, h), x)
        if kind == "block" and h % 2 == 0 and w % 2 == 0:
            return self.push(net.node("SpaceToDepth", [x], blocksize=2), (1, 4 * c, h // 2, w // 2), x)
        if kind == "shuffle" and c % 2 == 0:
            out = net.node("Reshape", [x, net.ints([1, 2, c // 2, h, w])])
            out = net.node("Transpose", [out], perm=[0, 2, 1, 3, 4])
            return self.push(net.node("Reshape", [out, net.ints([1, c, h, w])]), (1, c, h, w), x)
        return self.conv()

    def head(self):
        x, (_, c, h, w) = self.last
        kind = self.choice(["picture", "flat", "average"])
        if kind == "picture":
            return self.net.end(x)
        if kind == "average":
            x = self.net.quantise(self.net.node("GlobalAveragePool", [x]), dtype=self.dtype, power_of_two=self.exact)
            h = w = 1
        flat = self.net.node("Flatten", [x], axis=1)
        flat = self.net.quantise_as(flat, x)
        out = self.net.node("Gemm", [flat, self.weights((5, c * h * w))], transB=1)
        self.net.done(out, dtype=self.dtype, power_of_two=self.exact)


def build(net):
    m = Mixture(net)
    layers = [m.conv, m.conv, m.conv, m.pool, m.function, m.combine, m.combine, m.concat, m.excite, m.move, m.move]
    m.conv()
    for _ in range(int(net.random.integers(2, 7))):
        m.choice(layers)()
    m.head()


def recipes():
    for i in range(COUNT):
        yield f"mixture_{i:02}", build, dict(opset=14)
