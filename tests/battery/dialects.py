"""Nets of one operator in the dialects QONNX and FINN. ONNX Runtime does not know these; the outputs come from the evaluator of
tests/dialects, which is written from the definitions of the operators."""

import numpy

QONNX, BREVITAS, FINN = "qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"
PICTURE = (1, 4, 8, 6)


class Layers:
    """Adds the nodes of a dialect to a net whose outputs the evaluator computes."""

    def __init__(self, net, shape=PICTURE, domain=QONNX):
        self.net, self.domain = net, domain
        net.is_evaluated = True
        net.model.input("x", shape)
        net.frames["x"] = net.random.uniform(-4, 4, (6, *shape[1:])).astype("float32")
        self.now = "x"

    def numbers(self, *values):
        return [self.net.floats(numpy.float32(v)) for v in values]

    def quant(self, scale, bits=8, zero=0, signed=1, of=None, **attributes):
        inputs = [of or self.now, *self.numbers(scale, zero, bits)]
        out = self.net.node("Quant", inputs, domain=self.domain, signed=signed, **attributes)
        self.now = self.now if of else out
        return out

    def weights(self, shape, bits=4, axis=None):
        limit = 2 ** (bits - 1)
        extent = [d if i == axis else 1 for i, d in enumerate(shape)] if axis is not None else []
        scales = self.net.random.uniform(0.02, 0.05, extent).astype("float32")
        full = self.net.floats(self.net.random.normal(0, limit / 2, shape).astype("float32") * scales)
        return self.quant(scales, bits, of=full, narrow=1)

    def node(self, type, *others, **attributes):
        self.now = self.net.node(type, [self.now, *others], **attributes)

    def end(self):
        self.net.output(self.now, "float32", 1)


def quantiser(bits, scale=0.13, domain=QONNX, **attributes):
    def build(net):
        layers = Layers(net, domain=domain)
        layers.quant(1 / 32)
        layers.quant(scale, bits, **attributes)
        layers.end()

    return build, dict(domains=[domain])


def bipolar(net):
    layers = Layers(net)
    layers.quant(1 / 32)
    layers.now = net.node("BipolarQuant", [layers.now, *layers.numbers(0.7)], domain=QONNX)
    layers.end()


def truncated(out_bits, mode):
    def build(net):
        layers = Layers(net)
        layers.quant(1 / 16, signed=0)
        layers.node("GlobalAveragePool")
        parts = layers.numbers(1 / 16, 0, 8, out_bits)
        layers.now = net.node("Trunc", [layers.now, *parts], domain=QONNX, rounding_mode=mode)
        layers.end()

    return build, dict(domains=[QONNX])


def layer(type, shape, bits, axis, data_bits=8, out_bits=8, relu=False, bias=False, **attributes):
    def build(net):
        layers = Layers(net, PICTURE if len(shape) == 4 else (1, 24))
        layers.quant(4 / 2 ** (data_bits - 1), data_bits)
        extra = [net.floats(net.random.uniform(-1, 1, shape[0]))] if bias else []
        layers.node(type, layers.weights(shape, bits, axis), *extra, **attributes)
        if relu:
            layers.node("Relu")
        layers.quant(0.5 / 2 ** (out_bits - 4), out_bits, signed=0 if relu else 1)
        layers.end()

    return build, dict(domains=[QONNX])


def thresholds(bits, channels=4, **attributes):
    def build(net):
        layers = Layers(net, domain=FINN)
        layers.quant(1 / 32)
        steps = numpy.sort(net.random.uniform(-3, 3, (channels, 2**bits - 1)), axis=1)
        options = dict(out_dtype=f"UINT{bits}") | attributes
        layers.now = net.node("MultiThreshold", [layers.now, net.floats(steps)], domain=FINN, **options)
        layers.end()

    return build, dict(domains=[FINN, QONNX])


def recipes():
    for bits in range(2, 9):
        yield f"quant_{bits}", *quantiser(bits, 4 / 2 ** (bits - 1))
    yield "quant_unsigned", *quantiser(3, signed=0, scale=0.5)
    yield "quant_narrow", *quantiser(3, narrow=1, scale=1.1)
    yield "quant_zero", *quantiser(4, zero=5, signed=0, scale=0.4)
    yield "quant_brevitas", *quantiser(4, domain=BREVITAS, scale=0.4)
    for mode in ("ROUND", "FLOOR", "CEIL", "ROUND_TO_ZERO"):
        yield f"quant_{mode.lower()}", *quantiser(5, rounding_mode=mode, scale=0.25)
        yield f"trunc_{mode.lower()}", *truncated(6, mode)
    yield "bipolarquant", bipolar, dict(domains=[QONNX])
    conv = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], group=1)
    for bits in (2, 3, 4, 8):
        yield f"quant_conv_{bits}", *layer("Conv", (6, 4, 3, 3), bits, None, **conv)
    yield "quant_conv_channel", *layer("Conv", (6, 4, 3, 3), 4, 0, data_bits=4, out_bits=4, **conv)
    yield "quant_conv_relu", *layer("Conv", (6, 4, 3, 3), 4, 0, relu=True, bias=True, **conv)
    yield "quant_conv_depthwise", *layer("Conv", (4, 1, 3, 3), 4, 0, **(conv | dict(group=4)))
    yield "quant_conv_group", *layer("Conv", (6, 2, 3, 3), 3, 0, **(conv | dict(group=2, strides=[2, 2])))
    for bits in (2, 4, 7):
        yield f"quant_matmul_{bits}", *layer("MatMul", (24, 9), bits, None)
    yield "quant_matmul_column", *layer("MatMul", (24, 9), 4, 1, data_bits=5)
    yield "quant_gemm", *layer("Gemm", (9, 24), 4, 0, transB=1, bias=True)
    yield "multithreshold_1", *thresholds(1)
    yield "multithreshold_2", *thresholds(2)
    yield "multithreshold_4", *thresholds(4)
    yield "multithreshold_one_list", *thresholds(3, channels=1)
    yield "multithreshold_signed", *thresholds(3, out_dtype="INT3", out_bias=-4.0)
    yield "multithreshold_scaled", *thresholds(2, out_scale=0.5, out_bias=-0.75)
    yield "multithreshold_bipolar", *thresholds(1, out_scale=2.0, out_bias=-1.0, out_dtype="BIPOLAR")
