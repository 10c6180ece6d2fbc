"""Nets of one sum, difference, product or comparison of single elements: with constants, and of two tensors."""

import numpy

PICTURE = (1, 4, 9, 8)
ASYMMETRIC = dict(dtype="uint8", zero=113)
CONSTANTS = {  # the shapes of constants, by what they mean for [1, C, H, W]
    "scalar": (),
    "one": (1,),
    "channel": (4, 1, 1),
    "channel_rank_4": (1, 4, 1, 1),
    "row": (9, 1),
    "column": (8,),
    "picture": (9, 8),
    "channel_and_column": (4, 1, 8),
    "channel_and_row": (1, 4, 9, 1),
    "all": (4, 9, 8),
    "all_rank_4": (1, 4, 9, 8),
}


def with_constant(type, shape, low, high, swapped=False, quantised=False, data=PICTURE, x=None, y=None):
    """One operand is data, the other is a float constant or, if `quantised`, a dequantised one."""

    def build(net):
        frame = net.frame(data, **(x or {}))
        if quantised:
            constant = net.weights(shape, scale=max(abs(low), abs(high)) / 100)
        else:
            constant = net.floats(net.random.uniform(low, high, shape))
        net.done(net.node(type, [constant, frame] if swapped else [frame, constant]), **(y or {}))

    return build


def of_two(type, a=PICTURE, b=PICTURE, xa=None, xb=None, y=None, then=None):
    """Two inputs of these shapes."""

    def build(net):
        out = net.node(type, [net.frame(a, **(xa or {})), net.frame(b, **(xb or {}))])
        if then:
            out = net.node(then, [out])
        net.done(out, **(y or {}))

    return build


def of_itself(type):
    def build(net):
        x = net.frame(PICTURE)
        net.done(net.node(type, [x, x]))

    return build


def residual(type):
    """The data and a convolution of the data, with scales of their own."""

    def build(net):
        x, w = net.frame(PICTURE), net.weights((4, 4, 1, 1))
        branch = net.quantise(net.node("Conv", [x, w]))
        net.done(net.node(type, [x, branch]))

    return build


def of_three(type):
    def build(net):
        net.done(net.node(type, [net.frame(PICTURE) for _ in range(3)]))

    return build


def qlinear(type, constant=False):
    def build(net):
        a = net.frame(PICTURE, **ASYMMETRIC)
        b = net.weights((4, 1, 1), "uint8") if constant else net.frame(PICTURE, dtype="uint8", zero=17)
        net.end(net.operator("QLinear" + type, type, [a, b], domain="com.microsoft", dtype="uint8"))

    return build, dict(domains=["com.microsoft"])


def powers(exponent):
    def build(net):
        net.done(net.node("Pow", [net.frame(PICTURE), net.floats(exponent)]))

    return build


def clip(low=None, high=None, **y):
    def build(net):
        bounds = ["" if bound is None else net.floats(bound) for bound in (low, high)]
        net.done(net.node("Clip", [net.frame(PICTURE), *bounds]), **y)

    return build


def prelu(shape, data=PICTURE, behind_conv=False, low=-0.5, high=0.5):
    def build(net):
        x = net.frame(data)
        if behind_conv:
            x = net.node("Conv", [x, net.weights((4, 4, 3, 3))])
        net.done(net.node("PRelu", [x, net.floats(net.random.uniform(low, high, shape))]))

    return build


def behind_convolution(type, shape, low, high, swapped=False):
    """A constant operand behind a convolution, without a quantiser between."""

    def build(net):
        out = net.node("Conv", [net.frame(PICTURE), net.weights((4, 4, 3, 3), axis=0)])
        constant = net.floats(net.random.uniform(low, high, shape))
        net.done(net.node(type, [constant, out] if swapped else [out, constant]))

    return build


def integer_bounds(net):
    """Clip of int8 without dequantisers around it."""
    x = net.frame(PICTURE)
    name = net.node("Clip", [x.name, net.ints(-60, "int8"), net.ints(70, "int8")])
    net.end(net.known(name, x))


def recipes_with_constants():
    for type, low, high in (("Add", -3, 3), ("Mul", -2, 2), ("Sub", -3, 3)):
        for word, shape in CONSTANTS.items():
            yield f"{type.lower()}_constant_{word}", with_constant(type, shape, low, high), {}
    for word in ("scalar", "channel", "all"):
        yield f"div_by_constant_{word}", with_constant("Div", CONSTANTS[word], 0.5, 2), {}
        yield f"constant_{word}_minus_data", with_constant("Sub", CONSTANTS[word], -3, 3, swapped=True), {}
        yield f"min_constant_{word}", with_constant("Min", CONSTANTS[word], -1, 3), {}
        yield f"max_constant_{word}", with_constant("Max", CONSTANTS[word], -3, 1), {}
    for type in ("Add", "Mul", "Sub"):
        yield f"{type.lower()}_quantised_constant", with_constant(type, (4, 1, 1), -3, 3, quantised=True), {}
        yield f"{type.lower()}_quantised_picture", with_constant(type, (1, 4, 9, 8), -3, 3, quantised=True), {}
        yield f"{type.lower()}_constant_uint8", with_constant(type, (4, 1, 1), 0.5, 3, x=ASYMMETRIC, y=dict(dtype="uint8")), {}
        yield f"{type.lower()}_constant_rank_2", with_constant(type, (24,), -2, 2, data=(1, 24)), {}
        yield f"{type.lower()}_constant_rank_3", with_constant(type, (7, 1), -2, 2, data=(1, 7, 24)), {}
        yield f"{type.lower()}_constant_rank_5", with_constant(type, (3, 1, 1, 1), -2, 2, data=(1, 3, 2, 5, 4)), {}
    yield "constant_over_data", with_constant("Div", (), 3, 4, swapped=True, x=dict(dtype="uint8", zero=0, scale=0.11), y=dict(limits=(0, 1))), {}
    for word in ("scalar", "channel", "column", "all"):
        yield f"conv_add_{word}", behind_convolution("Add", (7, 6) if word == "all" else (6,) if word == "column" else CONSTANTS[word], -3, 3), {}
        yield f"conv_mul_{word}", behind_convolution("Mul", (7, 6) if word == "all" else (6,) if word == "column" else CONSTANTS[word], 0.3, 2), {}
    yield "conv_mul_negative", behind_convolution("Mul", (4, 1, 1), -2, -0.3), {}
    yield "conv_minus_constant", behind_convolution("Sub", (4, 1, 1), -3, 3), {}
    yield "constant_minus_conv", behind_convolution("Sub", (4, 1, 1), -3, 3, swapped=True), {}


def recipes_of_two():
    uint8 = dict(dtype="uint8")
    for type in ("Add", "Mul", "Sub", "Min", "Max"):
        short = type.lower()
        yield f"{short}_tensors", of_two(type), {}
        yield f"{short}_tensors_uint8", of_two(type, xa=ASYMMETRIC, xb=dict(dtype="uint8", zero=7), y=uint8), {}
        yield f"{short}_excite", of_two(type, b=(1, 4, 1, 1)), {}
        yield f"{short}_excite_first", of_two(type, a=(1, 4, 1, 1)), {}
        yield f"{short}_residual", residual(type), {}
    for type in ("Add", "Mul", "Sub"):
        short = type.lower()
        yield f"{short}_tensors_mixed", of_two(type, xb=ASYMMETRIC), {}
        yield f"{short}_one_channel", of_two(type, b=(1, 1, 9, 8)), {}
        yield f"{short}_one_column", of_two(type, b=(1, 4, 9, 1)), {}
        yield f"{short}_row_and_column", of_two(type, a=(1, 4, 9, 1), b=(1, 4, 1, 8)), {}
        yield f"{short}_tensors_rank_2", of_two(type, (1, 48), (1, 48)), {}
        yield f"{short}_tensors_rank_3", of_two(type, (1, 6, 20), (1, 6, 20)), {}
        yield f"{short}_tensors_rank_5", of_two(type, (1, 2, 3, 4, 5), (1, 2, 3, 4, 5)), {}
        yield f"{short}_tensors_of_two_ranks", of_two(type, (1, 4, 9, 8), (1, 9, 8)), {}
        yield f"{short}_relu", of_two(type, then="Relu", y=dict(zero=-128)), {}
        if type != "Sub":
            yield f"{short}_itself", of_itself(type), {}
    yield "add_power_of_two", of_two("Add", xa=dict(power_of_two=True), xb=dict(power_of_two=True, scale=1 / 64), y=dict(power_of_two=True)), {}
    yield "div_tensors", of_two("Div", xb=dict(dtype="uint8", zero=0, scale=0.05), y=dict(limits=(-3, 3))), {}
    yield "qlinearadd", *qlinear("Add")
    yield "qlinearmul", *qlinear("Mul")
    yield "qlinearadd_constant", *qlinear("Add", constant=True)
    yield "qlinearmul_constant", *qlinear("Mul", constant=True)
    for type in ("Sum", "Max", "Min", "Mean"):
        yield f"{type.lower()}_of_three", of_three(type), {}
    yield "sum_of_two", of_two("Sum"), {}


def recipes_of_ranges():
    yield "clip", clip(-1, 2.5), {}
    yield "clip_0_6", clip(0, 6, dtype="uint8", zero=0), {}
    yield "clip_below", clip(low=-1), {}
    yield "clip_above", clip(high=1.5), {}
    yield "clip_nothing", clip(), {}
    yield "clip_of_integers", integer_bounds, {}
    yield "prelu_scalar", prelu((1,)), {}
    yield "prelu_channel", prelu((4, 1, 1)), {}
    yield "prelu_column", prelu((8,)), {}
    yield "prelu_all", prelu((4, 9, 8)), {}
    yield "prelu_above_1", prelu((4, 1, 1), low=1.2, high=2), {}
    yield "prelu_rank_2", prelu((24,), (1, 24)), {}
    yield "prelu_behind_conv", prelu((4, 1, 1), behind_conv=True, low=0.05), {}
    yield "prelu_negative_behind_conv", prelu((4, 1, 1), behind_conv=True, low=-0.5, high=-0.1), {}
    for exponent in (2.0, 3.0):
        yield f"pow_{exponent:.0f}", powers(exponent), {}


def recipes():
    yield from recipes_with_constants()
    yield from recipes_of_two()
    yield from recipes_of_ranges()
