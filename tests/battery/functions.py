"""Nets of one function of one element, which becomes a table: between quantisers, and behind a convolution without a quantiser
between the two."""

BYTES, PICTURE = (1, 1, 16, 16), (1, 4, 8, 6)
ASYMMETRIC = dict(dtype="uint8", zero=113)

# Each row has an operator's name, its attributes, the values that its data may have ("any", "unit": -1 to 1,
# "positive", "above_1"), and its operator set.
FUNCTIONS = [
    ("Relu", {}, "any", 13),
    ("LeakyRelu", dict(alpha=0.1), "any", 13),
    ("LeakyRelu", dict(alpha=1.5), "any", 13),
    ("Sigmoid", {}, "any", 13),
    ("HardSigmoid", dict(alpha=0.3, beta=0.4), "any", 13),
    ("HardSwish", {}, "any", 14),
    ("Tanh", {}, "any", 13),
    ("Elu", dict(alpha=1.3), "any", 13),
    ("Selu", {}, "any", 13),
    ("Celu", dict(alpha=0.7), "any", 13),
    ("Softplus", {}, "any", 13),
    ("Softsign", {}, "any", 13),
    ("Mish", {}, "any", 18),
    ("Gelu", {}, "any", 20),
    ("Gelu", dict(approximate="tanh"), "any", 20),
    ("ThresholdedRelu", dict(alpha=0.8), "any", 13),
    ("Shrink", dict(lambd=0.6, bias=0.2), "any", 13),
    ("Erf", {}, "any", 13),
    ("Abs", {}, "any", 13),
    ("Neg", {}, "any", 13),
    ("Sign", {}, "any", 13),
    ("Floor", {}, "any", 13),
    ("Ceil", {}, "any", 13),
    ("Round", {}, "any", 13),
    ("Exp", {}, "any", 13),
    ("Sin", {}, "any", 13),
    ("Cos", {}, "any", 13),
    ("Tan", {}, "unit", 13),
    ("Asin", {}, "unit", 13),
    ("Acos", {}, "unit", 13),
    ("Atan", {}, "any", 13),
    ("Sinh", {}, "any", 13),
    ("Cosh", {}, "any", 13),
    ("Asinh", {}, "any", 13),
    ("Acosh", {}, "above_1", 13),
    ("Atanh", {}, "unit", 13),
    ("Log", {}, "positive", 13),
    ("Sqrt", {}, "positive", 13),
    ("Reciprocal", {}, "above_1", 13),
]
DATA = {
    "any": {},
    "unit": dict(scale=1 / 131),
    "positive": dict(dtype="uint8", zero=0, scale=0.04),
    "above_1": dict(dtype="uint8", zero=0, scale=0.04),
}


def short(type, attributes):
    words = [type.lower()] + [str(v).replace(".", "_") for v in attributes.values()]
    return "_".join(words[:2])


def function(type, attributes, domain_of, x=None, y=None):
    def build(net):
        data = net.frame(BYTES, **(x or DATA[domain_of]))
        if domain_of == "above_1":  # the function's domain begins at 1
            data = net.node("Add", [data, net.floats(1)])
        elif domain_of == "positive":
            data = net.node("Add", [data, net.floats(0.02)])
        net.done(net.node(type, [data], **attributes), **(y or {}))

    return build


def behind_convolution(type, attributes, quantised=False):
    """The function of a convolution. The sums are small if the function grows exponentially."""
    weights = dict(scale=0.003) if type in ("Exp", "Sinh", "Cosh") else dict(axis=0)

    def build(net):
        x = net.frame(PICTURE)
        out = net.node("Conv", [x, net.weights((5, 4, 1, 1), **weights)])
        if quantised:
            out = net.quantise(out)
        net.done(net.node(type, [out], **attributes))

    return build


def composed(steps, behind=False):
    """A function written with several nodes. A step is (type, operands, attributes); the operand "x" is the data, an integer the
    result of an earlier step, and a float a constant."""

    def build(net):
        x = net.frame(BYTES)
        if behind:
            x = net.quantise(net.node("Conv", [x, net.weights((3, 1, 1, 1), axis=0)]))
        results = []
        for type, operands, attributes in steps:
            inputs = [x if o == "x" else results[o] if isinstance(o, int) else net.floats(o) for o in operands]
            results.append(net.node(type, inputs, **attributes))
        net.done(results[-1])

    return build


SILU = [("Sigmoid", ["x"], {}), ("Mul", ["x", 0], {})]
GELU = [("Div", ["x", 1.4142135], {}), ("Erf", [0], {}), ("Add", [1, 1.0], {}), ("Mul", ["x", 2], {}), ("Mul", [3, 0.5], {})]
TANH_GELU = [
    ("Pow", ["x", 3.0], {}),
    ("Mul", [0, 0.044715], {}),
    ("Add", ["x", 1], {}),
    ("Mul", [2, 0.7978846], {}),
    ("Tanh", [3], {}),
    ("Add", [4, 1.0], {}),
    ("Mul", ["x", 5], {}),
    ("Mul", [6, 0.5], {}),
]
HARD_SWISH = [("Add", ["x", 3.0], {}), ("Clip", [0, 0.0, 6.0], {}), ("Mul", ["x", 1], {}), ("Div", [2, 6.0], {})]
HARD_SIGMOID = [("Add", ["x", 3.0], {}), ("Clip", [0, 0.0, 6.0], {}), ("Mul", [1, 1 / 6], {})]
MISH = [("Softplus", ["x"], {}), ("Tanh", [0], {}), ("Mul", ["x", 1], {})]
RSQRT = [("Mul", ["x", "x"], {}), ("Add", [0, 0.5], {}), ("Sqrt", [1], {}), ("Reciprocal", [2], {})]
COMPOSED = dict(silu=SILU, gelu_erf=GELU, gelu_tanh=TANH_GELU, hard_swish=HARD_SWISH, hard_sigmoid=HARD_SIGMOID, mish=MISH, rsqrt=RSQRT)


def qlinear(type, **attributes):
    def build(net):
        net.end(net.operator("QLinear" + type, type, [net.frame(BYTES, **ASYMMETRIC)], domain="com.microsoft", dtype="uint8", **attributes))

    return build, dict(domains=["com.microsoft"])


def recipes():
    for type, attributes, domain_of, opset in FUNCTIONS:
        name = short(type, attributes)
        yield name, function(type, attributes, domain_of), dict(opset=opset)
        if domain_of == "any":
            yield f"{name}_uint8", function(type, attributes, domain_of, ASYMMETRIC, dict(dtype="uint8")), dict(opset=opset)
            yield f"{name}_behind_conv", behind_convolution(type, attributes), dict(opset=opset)
            yield f"{name}_behind_quantised_conv", behind_convolution(type, attributes, quantised=True), dict(opset=opset)
    for name, steps in COMPOSED.items():
        yield f"composed_{name}", composed(steps), {}
        yield f"composed_{name}_behind_conv", composed(steps, behind=True), {}
    yield "qlinearsigmoid", *qlinear("Sigmoid")
    yield "qlinearleakyrelu", *qlinear("LeakyRelu", alpha=0.2)
