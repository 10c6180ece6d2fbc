"""Nets of one pool or reduction."""

import numpy

PICTURE, ROW, VOLUME = (1, 4, 9, 8), (1, 4, 19), (1, 2, 3, 7, 6)
ASYMMETRIC = dict(dtype="uint8", zero=113)
POWERS = dict(x=dict(power_of_two=True), y=dict(power_of_two=True))


def pool(type, shape=PICTURE, x=None, y=None, kept=False, **attributes):
    """A pool between quantisers. `kept`: the result has the data's scale and zero point, as exporters write a MaxPool."""

    def build(net):
        data = net.frame(shape, **(x or {}))
        out = net.node(type, [data], **attributes)
        if kept:
            return net.end(net.quantise_as(out, data))
        net.done(out, **(y or {}))

    return build


def on_integers(net):
    """MaxPool of int8 without dequantisers around it."""
    x = net.frame(PICTURE)
    name = net.node("MaxPool", [x.name], kernel_shape=[2, 2], strides=[2, 2])
    net.end(net.known(name, x))


def reduction(type, axes, shape=PICTURE, x=None, y=None, as_input=False, **attributes):
    def build(net):
        inputs = [net.frame(shape, **(x or {}))]
        if as_input and axes is not None:
            inputs.append(net.ints(axes))
        elif axes is not None:
            attributes["axes"] = axes
        net.done(net.node(type, inputs, **attributes), **(y or {}))

    return build


def qlinear(type, x, y, **attributes):
    def build(net):
        net.end(net.operator("QLinear" + type, type, [net.frame(PICTURE, **x)], domain="com.microsoft", **y, **attributes))

    return build, dict(domains=["com.microsoft"])


def flattened(type, **attributes):
    """An average whose quantised result is only moved. The odd zero point shows how ties are rounded."""

    def build(net):
        x = net.frame((1, 4, 8, 8), power_of_two=True)
        q = net.quantise(net.node(type, [x], **attributes), zero=-3, power_of_two=True)
        net.end(net.quantise_as(net.node("Flatten", [q], axis=1), q))

    return build


def excited(net):
    """Squeeze and excite: the pooled picture, through a table, multiplies the picture."""
    x = net.frame(PICTURE)
    squeezed = net.quantise(net.node("GlobalAveragePool", [x]), zero=0)
    w = net.weights((4, 4, 1, 1))
    gate = net.quantise(net.node("Sigmoid", [net.node("Conv", [squeezed, w])]), zero=-128)
    net.done(net.node("Mul", [x, gate]))


def recipes_max():
    two = dict(kernel_shape=[2, 2], strides=[2, 2])
    yield "maxpool1d", pool("MaxPool", ROW, kernel_shape=[3], strides=[2]), {}
    yield "maxpool_2x2", pool("MaxPool", kept=True, **two), {}
    yield "maxpool_requantised", pool("MaxPool", y=ASYMMETRIC, **two), {}
    yield "maxpool_on_integers", on_integers, {}
    yield "maxpool_uint8", pool("MaxPool", x=ASYMMETRIC, kept=True, **two), {}
    yield "maxpool_stride_1", pool("MaxPool", kept=True, kernel_shape=[3, 3]), {}
    yield "maxpool_padded", pool("MaxPool", kept=True, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), {}
    yield "maxpool_asymmetric_pads", pool("MaxPool", kept=True, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 2, 0]), {}
    yield "maxpool_ceil", pool("MaxPool", kept=True, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1), {}
    yield "maxpool_ceil_padded", pool("MaxPool", kept=True, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1), {}
    yield "maxpool_dilation", pool("MaxPool", kept=True, kernel_shape=[2, 2], dilations=[2, 3]), {}
    yield "maxpool_same_upper", pool("MaxPool", kept=True, kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"), {}
    yield "maxpool_same_lower", pool("MaxPool", kept=True, kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER"), {}
    yield "maxpool_1x3", pool("MaxPool", kept=True, kernel_shape=[1, 3]), {}
    yield "maxpool_whole_picture", pool("MaxPool", kept=True, kernel_shape=[9, 8]), {}
    yield "maxpool3d", pool("MaxPool", VOLUME, kept=True, kernel_shape=[1, 2, 2], strides=[1, 2, 2]), {}
    yield "maxpool3d_whole_depth", pool("MaxPool", VOLUME, kept=True, kernel_shape=[3, 2, 2]), {}
    yield "globalmaxpool", pool("GlobalMaxPool", kept=True), {}
    yield "globalmaxpool1d", pool("GlobalMaxPool", ROW), {}
    yield "globalmaxpool3d", pool("GlobalMaxPool", VOLUME), {}


def recipes_norm():
    yield "lppool", pool("LpPool", kernel_shape=[2, 3], strides=[2, 2]), {}
    yield "lppool_padded", pool("LpPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], p=1), {}
    yield "lppool1d", pool("LpPool", ROW, kernel_shape=[4], strides=[2], p=3), {}
    yield "globallppool", pool("GlobalLpPool"), {}


def recipes_average():
    three, two = dict(kernel_shape=[3, 3]), dict(kernel_shape=[2, 2], strides=[2, 2])
    padded = dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield "averagepool1d", pool("AveragePool", ROW, kernel_shape=[4], strides=[2]), {}
    yield "averagepool1d_padded", pool("AveragePool", ROW, kernel_shape=[3], pads=[1, 1], strides=[2]), {}
    yield "averagepool_2x2", pool("AveragePool", **two), {}
    yield "averagepool_2x2_power", pool("AveragePool", **POWERS, **two), {}
    yield "averagepool_kept", pool("AveragePool", kept=True, **two), {}
    yield "averagepool_3x3", pool("AveragePool", **three), {}
    yield "averagepool_3x3_power", pool("AveragePool", **POWERS, **three), {}
    yield "averagepool_uint8", pool("AveragePool", x=ASYMMETRIC, y=dict(dtype="uint8"), **three), {}
    for counted in (0, 1):
        for ceil in (0, 1):
            for word, options in (("", {}), ("_power", POWERS)):
                name = f"averagepool_padded_counted_{counted}_ceil_{ceil}{word}"
                yield name, pool("AveragePool", count_include_pad=counted, ceil_mode=ceil, **options, **padded), {}
    yield "averagepool_ceil", pool("AveragePool", kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1, **POWERS), {}
    yield "averagepool_ceil_counted", pool("AveragePool", kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1, **POWERS), {}
    yield "averagepool_asymmetric_pads", pool("AveragePool", kernel_shape=[3, 3], pads=[0, 1, 2, 0], **POWERS), {}
    yield "averagepool_asymmetric_pads_counted", pool("AveragePool", kernel_shape=[3, 3], pads=[0, 1, 2, 0], count_include_pad=1, **POWERS), {}
    yield "averagepool_same_upper", pool("AveragePool", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER", **POWERS), {}
    yield "averagepool_same_lower", pool("AveragePool", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER", **POWERS), {}
    yield "averagepool_dilation", pool("AveragePool", kernel_shape=[2, 2], dilations=[2, 2], **POWERS), dict(opset=19)
    yield "averagepool3d", pool("AveragePool", VOLUME, kernel_shape=[1, 2, 2], strides=[1, 2, 2], **POWERS), {}
    yield "averagepool3d_whole_depth", pool("AveragePool", VOLUME, kernel_shape=[3, 2, 2], **POWERS), {}
    yield "globalaveragepool", pool("GlobalAveragePool"), {}
    yield "globalaveragepool_uint8", pool("GlobalAveragePool", x=ASYMMETRIC, y=dict(dtype="uint8")), {}
    yield "globalaveragepool1d", pool("GlobalAveragePool", ROW), {}
    yield "globalaveragepool3d", pool("GlobalAveragePool", VOLUME), {}
    yield "qlinearaveragepool", *qlinear("AveragePool", ASYMMETRIC, dict(dtype="uint8"), **two)
    yield "qlinearaveragepool_padded", *qlinear("AveragePool", {}, {}, count_include_pad=1, **padded)
    yield "qlinearglobalaveragepool", *qlinear("GlobalAveragePool", ASYMMETRIC, dict(dtype="uint8"))
    yield "averagepool_flattened", flattened("AveragePool", **two), {}
    yield "globalaveragepool_flattened", flattened("GlobalAveragePool"), {}
    yield "squeeze_and_excite", excited, {}


def recipes_reductions():
    for type in ("ReduceMean", "ReduceMax", "ReduceMin"):
        short = type.lower()
        yield f"{short}_picture", reduction(type, [2, 3]), {}
        yield f"{short}_picture_flat", reduction(type, [2, 3], keepdims=0), {}
        yield f"{short}_channels", reduction(type, [1]), {}
        yield f"{short}_channels_flat", reduction(type, [1], keepdims=0), {}
        yield f"{short}_rows", reduction(type, [2]), {}
        yield f"{short}_columns_flat", reduction(type, [-1], keepdims=0), {}
        yield f"{short}_sequence", reduction(type, [1], (1, 7, 12), keepdims=0), {}
        yield f"{short}_axes_as_input", reduction(type, [2, 3], as_input=True, keepdims=0), dict(opset=18)
    yield "reducemean_all", reduction("ReduceMean", [1, 2, 3], (1, 2, 3, 3)), {}
    yield "reducemean_channels_and_rows", reduction("ReduceMean", [1, 2], keepdims=0), {}
    yield "reducemean_uint8", reduction("ReduceMean", [2, 3], x=ASYMMETRIC, y=dict(dtype="uint8"), keepdims=0), {}
    yield "reducemean_power", reduction("ReduceMean", [2], (1, 4, 8, 8), **POWERS), {}
    yield "reducesum_picture", reduction("ReduceSum", [2, 3], as_input=True), {}
    yield "reducesum_channels_flat", reduction("ReduceSum", [1], as_input=True, keepdims=0), {}
    yield "reducesum_sequence", reduction("ReduceSum", [1], (1, 7, 12), as_input=True), {}
    yield "reducesum_attribute", reduction("ReduceSum", [3]), dict(opset=11)
    yield "reducesum_nothing", reduction("ReduceSum", None, noop_with_empty_axes=1), {}
    yield "reducel2", reduction("ReduceL2", [2, 3]), {}
    yield "reducel1", reduction("ReduceL1", [2, 3]), {}
    yield "reducesumsquare", reduction("ReduceSumSquare", [2, 3]), {}


def recipes():
    yield from recipes_max()
    yield from recipes_average()
    yield from recipes_norm()
    yield from recipes_reductions()
