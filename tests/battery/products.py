"""Nets of one product: Gemm, MatMul, and their integer and QOperator forms."""

import numpy

U8 = dict(dtype="uint8")
ASYMMETRIC = dict(dtype="uint8", zero=113)


def gemm(outputs=9, inputs=24, x=None, w=None, y=None, bias="quantised", then=None, **attributes):
    """Gemm between quantisers. `bias` is "quantised", or the shape of a float bias, or None."""

    def build(net):
        data = net.frame((1, inputs), **(x or {}))
        weights = net.weights((outputs, inputs) if attributes.get("transB") else (inputs, outputs), **(w or {}))
        terms = [data, weights]
        if bias == "quantised":
            terms.append(net.bias(data, weights, outputs))
        elif bias is not None:
            terms.append(net.floats(net.random.uniform(-4, 4, bias)))
        out = net.node("Gemm", terms, **attributes)
        if then:
            out = net.node(then, [out])
        net.done(out, **(y or {}))

    return build


def matmul(shape, weights, x=None, w=None, y=None, swapped=False, bias=None):
    """MatMul of data and constant weights; `swapped`: of weights and data."""

    def build(net):
        data, constant = net.frame(shape, **(x or {})), net.weights(weights, **(w or {}))
        out = net.node("MatMul", [constant, data] if swapped else [data, constant])
        if bias:
            out = net.node("Add", [out, net.floats(net.random.uniform(-4, 4, bias))])
        net.done(out, **(y or {}))

    return build


def activations(a, b, turned=None, **y):
    """MatMul of two inputs; `turned` is a permutation of the second one."""

    def build(net):
        first, second = net.frame(a), net.frame(b)
        if turned:
            second = net.node("Transpose", [second], perm=turned)
        net.done(net.node("MatMul", [first, second]), **y)

    return build


def scores(net):
    """A tensor times its own transpose, scaled, as attention computes it."""
    x = net.frame((1, 6, 8))
    turned = net.node("Transpose", [x], perm=[0, 2, 1])
    out = net.node("MatMul", [x, turned])
    net.done(net.node("Div", [out, net.floats(numpy.float32(8) ** 0.5)]))


def rows_of_a_gemm(net):
    """A Gemm whose rows are positions: Reshape to two axes, Gemm, Reshape back."""
    x, w = net.frame((1, 5, 12)), net.weights((7, 12))
    flat = net.node("Reshape", [x, net.ints([5, 12])])
    out = net.node("Gemm", [flat, w, net.bias(x, w, 7)], transB=1)
    q = net.quantise(net.node("Reshape", [out, net.ints([1, 5, 7])]))
    net.end(q)


def transposed_data(net):
    """A Gemm with transA: the data are columns."""
    x, w = net.frame((1, 12, 5)), net.weights((12, 7))
    flat = net.node("Reshape", [x, net.ints([12, 5])])
    out = net.node("Gemm", [flat, w], transA=1)
    net.done(net.node("Reshape", [out, net.ints([1, 5, 7])]))


def flattened(net):
    x, w = net.frame((1, 3, 4, 5)), net.weights((11, 60), axis=0)
    flat = net.node("Flatten", [x], axis=1)
    net.done(net.node("Gemm", [flat, w, net.bias(x, w, 11)], transB=1))


def qlinear(shape, weights, x, w, y):
    def build(net):
        net.end(net.operator("QLinearMatMul", "MatMul", [net.frame(shape, **x), net.weights(weights, **w)], **y))

    return build


def qgemm(x, w, y, bias=True, alpha=1.0, trans=1):
    def build(net):
        data = net.frame((1, 24), **x)
        weights = net.weights((9, 24) if trans else (24, 9), **w)
        b = net.bias(data, weights, 9) if bias else None
        net.end(net.operator("QGemm", "Gemm", [data, weights], b, domain="com.microsoft", alpha=alpha, transB=trans, **y))

    return build, dict(domains=["com.microsoft"])


def integer(x, w, form="float"):
    def build(net):
        data, weights = net.frame((1, 5, 24), **x), net.weights((24, 9), **w)
        out = net.node("MatMulInteger", [data.name, weights.name, data.z, weights.z])
        if form == "integer":
            return net.output(out, "int32", 1)
        out = net.node("Cast", [out], to=1)
        net.done(net.node("Mul", [out, net.floats(numpy.float32(data.scale) * weights.scale)]))

    return build


def einsum(equation, shape, weights, **w):
    """An Einsum of data and constant weights."""

    def build(net):
        net.done(net.node("Einsum", [net.frame(shape), net.weights(weights, **w)], equation=equation))

    return build


def einsum_of_data(equation, left, right):
    """An Einsum of two tensors of data, as in attention."""

    def build(net):
        net.done(net.node("Einsum", [net.frame(left), net.frame(right)], equation=equation))

    return build


def recipes_einsum():
    yield "einsum_columns", einsum("bij,jk->bik", (1, 5, 24), (24, 9)), {}
    yield "einsum_rows", einsum("bqd,od->bqo", (1, 5, 24), (9, 24), axis=0), {}
    yield "einsum_channels", einsum("bchw,oc->bohw", (1, 12, 4, 5), (7, 12)), {}
    yield "einsum_spaces", einsum("b i j, j k -> b k i", (1, 5, 24), (24, 9)), {}
    yield "einsum_scores", einsum_of_data("bhqd,bhkd->bhqk", (1, 2, 5, 8), (1, 2, 6, 8)), {}
    yield "einsum_heads", einsum_of_data("bqhd,bkhd->bhqk", (1, 5, 2, 8), (1, 6, 2, 8)), {}
    yield "einsum_values", einsum_of_data("bhqk,bkhd->bqhd", (1, 2, 5, 6), (1, 6, 2, 8)), {}
    yield "einsum_outer", einsum_of_data("bi,bj->bij", (1, 5), (1, 6)), {}
    yield "einsum_two_sums", einsum("bij,ijk->bk", (1, 5, 6), (5, 6, 9)), {}


def recipes_gemm():
    yield "gemm", gemm(), {}
    yield "gemm_trans_b", gemm(transB=1), {}
    yield "gemm_alpha", gemm(alpha=0.37), {}
    yield "gemm_alpha_negative", gemm(alpha=-1.5, transB=1), {}
    yield "gemm_beta", gemm(beta=2.5), {}
    yield "gemm_beta_0", gemm(beta=0.0), {}
    yield "gemm_alpha_beta", gemm(alpha=0.5, beta=0.25, transB=1), {}
    yield "gemm_no_bias", gemm(bias=None), {}
    yield "gemm_float_bias", gemm(bias=(9,)), {}
    yield "gemm_bias_scalar", gemm(bias=()), {}
    yield "gemm_bias_one", gemm(bias=(1,)), {}
    yield "gemm_bias_row", gemm(bias=(1, 9), alpha=0.5, beta=3.0), {}
    yield "gemm_per_channel", gemm(transB=1, w=dict(axis=0)), {}
    yield "gemm_per_column", gemm(w=dict(axis=1)), {}
    yield "gemm_uint8", gemm(x=ASYMMETRIC, w=dict(dtype="uint8", zero=120), y=U8), {}
    yield "gemm_uint8_data", gemm(x=ASYMMETRIC, y=U8, transB=1), {}
    yield "gemm_int8_weights_zero", gemm(w=dict(zero=11)), {}
    yield "gemm_relu", gemm(then="Relu", y=dict(zero=-128)), {}
    yield "gemm_one_output", gemm(outputs=1), {}
    yield "gemm_large", gemm(outputs=40, inputs=300, transB=1, w=dict(axis=0)), {}
    yield "gemm_integer_ends", gemm(x=dict(entry="integer"), y=dict(form="integer")), {}
    yield "gemm_rows", rows_of_a_gemm, {}
    yield "gemm_trans_a", transposed_data, {}
    yield "gemm_flattened", flattened, {}
    yield "qgemm", *qgemm(ASYMMETRIC, dict(dtype="uint8", zero=120), U8)
    yield "qgemm_alpha", *qgemm(ASYMMETRIC, {}, U8, alpha=0.75)
    yield "qgemm_no_bias", *qgemm(ASYMMETRIC, dict(axis=1), U8, bias=False, trans=0)
    yield "qgemm_signed", *qgemm({}, {}, {})


def recipes_matmul():
    yield "matmul_rank_2", matmul((1, 24), (24, 9)), {}
    yield "matmul_rank_3", matmul((1, 5, 24), (24, 9)), {}
    yield "matmul_rank_4", matmul((1, 2, 5, 24), (24, 9)), {}
    yield "matmul_rank_5", matmul((1, 2, 3, 5, 12), (12, 9)), {}
    yield "matmul_vector", matmul((1, 5, 24), (24,)), {}
    yield "matmul_matrices", matmul((1, 3, 5, 24), (3, 24, 9)), {}
    yield "matmul_matrices_of_rank_4", matmul((1, 3, 5, 24), (1, 3, 24, 9)), {}
    yield "matmul_one_matrix_of_rank_3", matmul((1, 5, 24), (1, 24, 9)), {}
    yield "matmul_repeated_data", matmul((1, 1, 5, 24), (3, 24, 9)), {}
    yield "matmul_per_column", matmul((1, 5, 24), (24, 9), w=dict(axis=1)), {}
    yield "matmul_uint8", matmul((1, 5, 24), (24, 9), x=ASYMMETRIC, w=dict(dtype="uint8", zero=120), y=U8), {}
    yield "matmul_uint8_data", matmul((1, 5, 24), (24, 9), x=ASYMMETRIC, y=U8), {}
    yield "matmul_bias", matmul((1, 5, 24), (24, 9), bias=(9,)), {}
    yield "matmul_bias_per_row", matmul((1, 5, 24), (24, 9), bias=(5, 1)), {}
    yield "matmul_weights_first", matmul((1, 24, 5), (9, 24), swapped=True), {}
    yield "matmul_weights_first_rank_4", matmul((1, 3, 24, 5), (9, 24), swapped=True), {}
    yield "matmul_of_activations", activations((1, 5, 8), (1, 8, 6)), {}
    yield "matmul_of_activations_rank_4", activations((1, 2, 5, 8), (1, 2, 8, 6)), {}
    yield "matmul_of_activations_turned", activations((1, 5, 8), (1, 6, 8), [0, 2, 1]), {}
    yield "matmul_of_activations_repeated", activations((1, 3, 5, 8), (1, 1, 8, 6)), {}
    yield "matmul_of_activations_rows", activations((1, 1, 8), (1, 8, 6)), {}
    yield "matmul_scores", scores, {}
    yield "qlinearmatmul", qlinear((1, 24), (24, 9), dict(zero=5), {}, dict(zero=2)), {}
    yield "qlinearmatmul_uint8", qlinear((1, 5, 24), (24, 9), ASYMMETRIC, dict(dtype="uint8", zero=120), U8), {}
    yield "qlinearmatmul_mixed", qlinear((1, 5, 24), (24, 9), ASYMMETRIC, {}, U8), {}
    yield "matmulinteger", integer(ASYMMETRIC, dict(dtype="uint8", zero=120)), {}
    yield "matmulinteger_signed", integer(ASYMMETRIC, dict(zero=0)), {}
    yield "matmulinteger_per_column", integer(ASYMMETRIC, dict(axis=1)), {}
    yield "matmulinteger_sums", integer(ASYMMETRIC, dict(zero=0), form="integer"), {}


def recipes():
    yield from recipes_gemm()
    yield from recipes_matmul()
    yield from recipes_einsum()
