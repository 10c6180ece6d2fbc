"""Nets of one convolution: Conv over one, two and three axes, ConvTranspose, and the integer and QOperator forms."""

import numpy

PICTURE, ROW, VOLUME = (1, 4, 9, 8), (1, 4, 19), (1, 2, 3, 7, 6)


def conv(shape, outputs, kernel, group=1, x=None, w=None, y=None, bias=True, then=None, **attributes):
    """Conv between quantisers. `x`, `w` and `y` are options of the data, the weights and the result; the operator `then` follows
    without a quantiser."""

    def build(net):
        data = net.frame(shape, **(x or {}))
        weights = net.weights((outputs, shape[1] // group, *kernel), **(w or {}))
        inputs = [data, weights] + ([net.bias(data, weights, outputs)] if bias else [])
        out = net.node("Conv", inputs, group=group, kernel_shape=list(kernel), **attributes)
        if then:
            out = net.node(then[0], [out] + [net.floats(c) for c in then[1:]])
        net.done(out, **(y or {}))

    return build


def float_bias(net):
    data, weights = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    net.done(net.node("Conv", [data, weights, net.floats(net.random.uniform(-3, 3, 6))]))


def bias_behind(net):
    """The bias as an Add of [C, 1, 1], as some exporters write it."""
    data, weights = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    out = net.node("Conv", [data, weights])
    net.done(net.node("Add", [out, net.floats(net.random.uniform(-3, 3, (6, 1, 1)))]))


def normalised(net):
    data, weights = net.frame(PICTURE), net.weights((6, 4, 3, 3))
    out = net.node("Conv", [data, weights])
    parts = [net.floats(net.random.uniform(low, high, 6)) for low, high in ((0.5, 2), (-1, 1), (-2, 2), (1, 9))]
    net.done(net.node("BatchNormalization", [out, *parts]))


def qlinear(shape, outputs, kernel, x, w, y, bias=True, group=1, **attributes):
    def build(net):
        data = net.frame(shape, **x)
        weights = net.weights((outputs, shape[1] // group, *kernel), **w)
        b = net.bias(data, weights, outputs) if bias else None
        net.end(net.operator("QLinearConv", "Conv", [data, weights], b, group=group, kernel_shape=list(kernel), **y, **attributes))

    return build


def integer(x_type, w_type, x_zero, w_zero, form="float", **attributes):
    """ConvInteger, whose sums are dequantised by a product and quantised again, or are the net's output."""

    def build(net):
        data = net.frame(PICTURE, x_type, x_zero)
        weights = net.weights((6, 4, 3, 3), w_type, zero=w_zero)
        out = net.node("ConvInteger", [data.name, weights.name, data.z, weights.z], **attributes)
        if form == "integer":
            return net.output(out, "int32", 1)
        out = net.node("Cast", [out], to=1)
        net.done(net.node("Mul", [out, net.floats(numpy.float32(data.scale * weights.scale))]))

    return build


def transposed(shape, outputs, kernel, group=1, w=None, y=None, bias=True, **attributes):
    def build(net):
        data = net.frame(shape)
        weights = net.weights((shape[1], outputs // group, *kernel), **(w or {}))
        inputs = [data, weights] + ([net.bias(data, weights, outputs)] if bias else [])
        net.done(net.node("ConvTranspose", inputs, group=group, kernel_shape=list(kernel), **attributes), **(y or {}))

    return build


U8 = dict(dtype="uint8")
ASYMMETRIC = dict(dtype="uint8", zero=113)


def recipes_1d():
    yield "conv1d_1", conv(ROW, 6, (1,)), {}
    yield "conv1d_3", conv(ROW, 6, (3,)), {}
    yield "conv1d_3_padded", conv(ROW, 6, (3,), pads=[1, 1]), {}
    yield "conv1d_stride", conv(ROW, 6, (3,), strides=[2]), {}
    yield "conv1d_dilation", conv(ROW, 6, (3,), dilations=[3], pads=[3, 3]), {}
    yield "conv1d_group", conv(ROW, 6, (3,), group=2), {}
    yield "conv1d_depthwise", conv(ROW, 4, (5,), group=4, pads=[2, 2]), {}
    yield "conv1d_depthwise_multiplier", conv(ROW, 8, (3,), group=4), {}
    yield "conv1d_asymmetric_pads", conv(ROW, 6, (3,), pads=[2, 0]), {}
    yield "conv1d_same_upper", conv(ROW, 6, (4,), auto_pad="SAME_UPPER", strides=[2]), {}
    yield "conv1d_same_lower", conv(ROW, 6, (4,), auto_pad="SAME_LOWER", strides=[2]), {}
    yield "conv1d_uint8_weights", conv(ROW, 6, (3,), x=ASYMMETRIC, w=dict(dtype="uint8", zero=119), y=U8, pads=[1, 1]), {}


def recipes_2d():
    three = dict(pads=[1, 1, 1, 1])
    yield "conv_1x1", conv(PICTURE, 6, (1, 1)), {}
    yield "conv_1x1_stride", conv(PICTURE, 6, (1, 1), strides=[2, 2]), {}
    yield "conv_3x3", conv(PICTURE, 6, (3, 3)), {}
    yield "conv_3x3_padded", conv(PICTURE, 6, (3, 3), **three), {}
    yield "conv_5x5", conv(PICTURE, 3, (5, 5), pads=[2, 2, 2, 2]), {}
    yield "conv_3x1", conv(PICTURE, 6, (3, 1)), {}
    yield "conv_1x4", conv(PICTURE, 6, (1, 4)), {}
    yield "conv_2x2_stride", conv(PICTURE, 6, (2, 2), strides=[2, 2]), {}
    yield "conv_strides_2x1", conv(PICTURE, 6, (3, 3), strides=[2, 1]), {}
    yield "conv_stride_above_kernel", conv(PICTURE, 6, (2, 2), strides=[3, 3]), {}
    yield "conv_dilation", conv(PICTURE, 6, (3, 3), dilations=[2, 2]), {}
    yield "conv_dilations_3x1", conv(PICTURE, 6, (3, 2), dilations=[3, 1], pads=[3, 0, 3, 1]), {}
    yield "conv_asymmetric_pads", conv(PICTURE, 6, (3, 3), pads=[0, 1, 2, 0]), {}
    yield "conv_wide_pads", conv(PICTURE, 4, (5, 5), pads=[4, 4, 4, 4]), {}
    yield "conv_same_upper", conv(PICTURE, 6, (3, 3), auto_pad="SAME_UPPER", strides=[2, 2]), {}
    yield "conv_same_lower", conv(PICTURE, 6, (3, 3), auto_pad="SAME_LOWER", strides=[2, 2]), {}
    yield "conv_same_upper_even", conv(PICTURE, 6, (2, 4), auto_pad="SAME_UPPER"), {}
    yield "conv_same_lower_even", conv(PICTURE, 6, (4, 2), auto_pad="SAME_LOWER"), {}
    yield "conv_valid", conv(PICTURE, 6, (3, 3), auto_pad="VALID"), {}
    yield "conv_whole_picture", conv(PICTURE, 7, (9, 8)), {}
    yield "conv_one_channel", conv((1, 1, 9, 8), 5, (3, 3), **three), {}
    yield "conv_one_output", conv(PICTURE, 1, (3, 3), **three), {}
    yield "conv_many_channels", conv((1, 17, 5, 5), 23, (3, 3), **three), {}
    yield "conv_group", conv(PICTURE, 6, (3, 3), group=2), {}
    yield "conv_group_4", conv((1, 8, 7, 7), 12, (3, 3), group=4, **three), {}
    yield "conv_depthwise", conv(PICTURE, 4, (3, 3), group=4, **three), {}
    yield "conv_depthwise_multiplier", conv(PICTURE, 12, (3, 3), group=4, **three), {}
    yield "conv_depthwise_stride", conv(PICTURE, 4, (3, 3), group=4, strides=[2, 2], **three), {}
    yield "conv_depthwise_dilation", conv(PICTURE, 4, (3, 3), group=4, dilations=[2, 2], w=dict(axis=0)), {}
    yield "conv_depthwise_5x5", conv(PICTURE, 4, (5, 5), group=4, pads=[2, 2, 2, 2], x=ASYMMETRIC, y=U8), {}


def recipes_of_types():
    three = dict(pads=[1, 1, 1, 1])
    yield "conv_per_channel", conv(PICTURE, 6, (3, 3), w=dict(axis=0)), {}
    yield "conv_per_channel_depthwise", conv(PICTURE, 8, (3, 3), group=4, w=dict(axis=0), **three), {}
    yield "conv_no_bias", conv(PICTURE, 6, (3, 3), bias=False), {}
    yield "conv_float_bias", float_bias, {}
    yield "conv_bias_behind", bias_behind, {}
    yield "conv_normalised", normalised, dict(opset=15)
    yield "conv_power_of_two", conv(PICTURE, 6, (3, 3), x=dict(power_of_two=True), w=dict(scale=1 / 64), y=dict(power_of_two=True)), {}
    yield "conv_uint8_data", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, y=U8, **three), {}
    yield "conv_uint8_data_zero_0", conv(PICTURE, 6, (3, 3), x=dict(dtype="uint8", zero=0), y=U8, **three), {}
    yield "conv_uint8_data_zero_255", conv(PICTURE, 6, (3, 3), x=dict(dtype="uint8", zero=255), y=U8, **three), {}
    yield "conv_int8_data_zero", conv(PICTURE, 6, (3, 3), x=dict(zero=-37), **three), {}
    yield "conv_int8_to_uint8", conv(PICTURE, 6, (3, 3), y=U8, **three), {}
    yield "conv_uint8_to_int8", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, **three), {}
    yield "conv_uint8_weights", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, w=dict(dtype="uint8", zero=128), y=U8, **three), {}
    yield "conv_uint8_weights_zero_0", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, w=dict(dtype="uint8", zero=0), y=U8, **three), {}
    yield "conv_uint8_weights_zero_7", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, w=dict(dtype="uint8", zero=7), y=U8, **three), {}
    yield "conv_uint8_weights_depthwise", conv(PICTURE, 4, (3, 3), group=4, x=ASYMMETRIC, w=dict(dtype="uint8", zero=101), y=U8, **three), {}
    yield "conv_uint8_weights_per_channel", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, w=dict(dtype="uint8", axis=0), y=U8, **three), {}
    zeros = numpy.array([120, 131, 128, 90, 250, 3])
    yield "conv_uint8_weights_zeros", conv(PICTURE, 6, (3, 3), x=ASYMMETRIC, w=dict(dtype="uint8", axis=0, zero=zeros), y=U8, **three), {}
    yield "conv_int8_weights_zero", conv(PICTURE, 6, (3, 3), w=dict(zero=-9), **three), {}
    yield "conv_relu", conv(PICTURE, 6, (3, 3), then=("Relu",), y=dict(zero=-128)), {}
    yield "conv_relu_uint8", conv(PICTURE, 6, (3, 3), then=("Relu",), y=dict(dtype="uint8", zero=0), w=dict(axis=0)), {}
    yield "conv_relu_zero_inside", conv(PICTURE, 6, (3, 3), then=("Relu",), y=dict(zero=-50)), {}
    yield "conv_clip", conv(PICTURE, 6, (3, 3), then=("Clip", 0, 6), y=dict(zero=-128, fill=0.6), bias=False), {}
    yield "conv_integer_input", conv(PICTURE, 6, (3, 3), x=dict(entry="integer")), {}
    yield "conv_integer_ends", conv(PICTURE, 6, (3, 3), x=dict(entry="integer", **ASYMMETRIC), y=dict(form="integer", dtype="uint8")), {}


def recipes_of_forms():
    three = dict(pads=[1, 1, 1, 1])
    yield "qlinearconv", qlinear(PICTURE, 6, (3, 3), dict(zero=3), {}, dict(zero=-4)), {}
    yield "qlinearconv_no_bias", qlinear(PICTURE, 6, (3, 3), {}, {}, {}, bias=False, **three), {}
    yield "qlinearconv_uint8", qlinear(PICTURE, 6, (3, 3), ASYMMETRIC, dict(dtype="uint8", zero=131), U8, **three), {}
    yield "qlinearconv_mixed", qlinear(PICTURE, 6, (3, 3), ASYMMETRIC, dict(axis=0), U8, **three), {}
    yield "qlinearconv_depthwise", qlinear(PICTURE, 4, (3, 3), ASYMMETRIC, dict(axis=0), U8, group=4, strides=[2, 2], **three), {}
    yield "qlinearconv_1d", qlinear(ROW, 6, (3,), ASYMMETRIC, {}, U8, pads=[0, 2]), {}
    yield "convinteger", integer("uint8", "uint8", 100, 130), {}
    yield "convinteger_signed", integer("uint8", "int8", 0, 0, pads=[1, 1, 1, 1]), {}
    yield "convinteger_padded", integer("uint8", "uint8", 7, 130, pads=[1, 0, 2, 1]), {}
    yield "convinteger_sums", integer("uint8", "uint8", 100, 130, form="integer"), {}


def recipes_3d():
    yield "conv3d_whole_depth", conv(VOLUME, 5, (3, 3, 3)), {}
    yield "conv3d_whole_width", conv(VOLUME, 5, (2, 3, 6), pads=[0, 1, 0, 1, 1, 0]), {}
    yield "conv3d_whole_height", conv(VOLUME, 5, (2, 7, 3), strides=[1, 1, 2]), {}
    yield "conv3d_depth_1", conv((1, 3, 1, 7, 6), 5, (1, 3, 3), pads=[0, 1, 1, 0, 1, 1]), {}
    yield "conv3d_kernel_depth_1", conv(VOLUME, 5, (1, 3, 3)), {}
    yield "conv3d_1x1x1", conv(VOLUME, 5, (1, 1, 1)), {}
    yield "conv3d_3x1x1", conv(VOLUME, 5, (3, 1, 1)), {}
    yield "conv3d_2x2x2", conv(VOLUME, 5, (2, 2, 2)), {}
    yield "conv3d_padded_depth", conv(VOLUME, 5, (3, 3, 3), pads=[1, 1, 1, 1, 1, 1]), {}
    yield "conv3d_depthwise", conv(VOLUME, 2, (3, 3, 3), group=2), {}


def recipes_transposed():
    yield "convtranspose1d_stride", transposed(ROW, 3, (4,), strides=[2]), {}
    yield "convtranspose1d_padded", transposed(ROW, 3, (4,), strides=[2], pads=[1, 1], output_padding=[1]), {}
    yield "convtranspose_2x2_stride", transposed(PICTURE, 3, (2, 2), strides=[2, 2]), {}
    yield "convtranspose_3x3", transposed(PICTURE, 3, (3, 3)), {}
    yield "convtranspose_3x3_padded", transposed(PICTURE, 3, (3, 3), pads=[1, 1, 1, 1]), {}
    yield "convtranspose_3x3_stride", transposed(PICTURE, 3, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]), {}
    yield "convtranspose_4x4_stride", transposed(PICTURE, 3, (4, 4), strides=[2, 2], pads=[1, 1, 1, 1]), {}
    yield "convtranspose_stride_3", transposed(PICTURE, 3, (3, 3), strides=[3, 3]), {}
    yield "convtranspose_strides_1x2", transposed(PICTURE, 3, (3, 2), strides=[1, 2]), {}
    yield "convtranspose_stride_above_kernel", transposed(PICTURE, 3, (2, 2), strides=[3, 3]), {}
    yield "convtranspose_dilation", transposed(PICTURE, 3, (3, 3), dilations=[2, 2]), {}
    yield "convtranspose_asymmetric_pads", transposed(PICTURE, 3, (3, 3), strides=[2, 2], pads=[1, 0, 0, 2]), {}
    yield "convtranspose_output_shape", transposed(PICTURE, 3, (3, 3), strides=[2, 2], output_shape=[18, 16]), {}
    yield "convtranspose_same_upper", transposed(PICTURE, 3, (3, 3), strides=[2, 2], auto_pad="SAME_UPPER"), {}
    yield "convtranspose_same_lower", transposed(PICTURE, 3, (3, 3), strides=[2, 2], auto_pad="SAME_LOWER"), {}
    yield "convtranspose_group", transposed(PICTURE, 6, (3, 3), group=2, strides=[2, 2]), {}
    yield "convtranspose_depthwise", transposed(PICTURE, 4, (3, 3), group=4, strides=[2, 2]), {}
    yield "convtranspose_no_bias", transposed(PICTURE, 3, (3, 3), bias=False, strides=[2, 2]), {}
    yield "convtranspose_per_channel", transposed(PICTURE, 3, (3, 3), w=dict(axis=1), strides=[2, 2]), {}
    yield "convtranspose_uint8", transposed(PICTURE, 3, (3, 3), w=dict(dtype="uint8", zero=120), y=U8, strides=[2, 2]), {}
    yield "convtranspose3d", transposed((1, 2, 1, 5, 4), 3, (1, 3, 3), strides=[1, 2, 2]), {}


def recipes():
    for family in (recipes_1d, recipes_2d, recipes_of_types, recipes_of_forms, recipes_3d, recipes_transposed):
        yield from family()
