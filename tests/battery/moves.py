"""Nets of one operator that moves, selects or repeats elements. Each operator stands alone between quantisers, and some stand
between two convolutions."""

PICTURE, ROW, VOLUME = (1, 4, 8, 6), (1, 4, 18), (1, 2, 3, 6, 4)
ASYMMETRIC = dict(dtype="uint8", zero=113)


def move(type, *constants, shape=PICTURE, x=None, y=None, kept=True, outputs=1, **attributes):
    """The operator with int64 `constants` as inputs. `kept`: the result has the data's scale and zero point."""

    def build(net):
        data = net.frame(shape, **(x or {}))
        out = net.node(type, [data] + [net.ints(c) if c is not None else "" for c in constants], outputs, **attributes)
        for tensor in [out] if outputs == 1 else out:
            if kept:
                net.end(net.quantise_as(tensor, data))
            else:
                net.done(tensor, **(y or {}))

    return build


def on_integers(type, *constants, **attributes):
    """The operator on int8, without dequantisers around it."""

    def build(net):
        x = net.frame(PICTURE)
        net.end(net.known(net.node(type, [x.name] + [net.ints(c) for c in constants], **attributes), x))

    return build


def between(steps, channels, kernel=(1, 1)):
    """Steps (type, constants, attributes) between two convolutions, the second of which reads `channels`."""

    def build(net):
        x, w = net.frame(PICTURE), net.weights((4, 4, 1, 1))
        q = net.quantise(net.node("Conv", [x, w]))
        out = q
        for type, constants, attributes in steps:
            out = net.node(type, [out] + [net.ints(c) for c in constants], **attributes)
        q = net.quantise_as(out, q)
        net.done(net.node("Conv", [q, net.weights((5, channels, *kernel))]))

    return build


def before_a_product(steps, inputs):
    def build(net):
        x, w = net.frame(PICTURE), net.weights((4, 4, 1, 1))
        q = net.quantise(net.node("Conv", [x, w]))
        out = q
        for type, constants, attributes in steps:
            out = net.node(type, [out] + [net.ints(c) for c in constants], **attributes)
        q = net.quantise_as(out, q)
        net.done(net.node("MatMul", [q, net.weights((inputs, 5))]))

    return build


def concat(axis, *shapes, kept=False, constant=None, entry=None):
    """Concat of inputs with scales of their own, or with the first one's; `constant` is the shape of a constant part."""

    def build(net):
        parts = [net.frame(shape, scale=0.031 if kept else None, **(entry or {})) for shape in shapes]
        if constant:
            parts.append(net.floats(net.random.uniform(-3, 3, constant)))
        out = net.node("Concat", parts, axis=axis)
        if kept:
            net.end(net.quantise_as(out, parts[0]))
        else:
            net.done(out)

    return build


def branches(axis):
    """Concat of a tensor and its convolution."""

    def build(net):
        x, w = net.frame(PICTURE), net.weights((4, 4, 1, 1))
        net.done(net.node("Concat", [x, net.quantise(net.node("Conv", [x, w]))], axis=axis))

    return build


def qlinearconcat(net):
    parts = [net.frame((1, c, 5, 4), **ASYMMETRIC) for c in (3, 2)]
    net.end(net.operator("QLinearConcat", "Concat", parts, domain="com.microsoft", dtype="uint8", axis=1))


def pad(pads, value=None, shape=PICTURE, mode="constant", x=None, axes=None):
    def build(net):
        data = net.frame(shape, **(x or {}))
        inputs = [data, net.ints(pads)]
        if value is not None or axes:
            inputs.append(net.floats(value or 0) if value is not None else "")
        if axes:
            inputs.append(net.ints(axes))
        out = net.node("Pad", inputs, mode=mode)
        if value is None:
            net.end(net.quantise_as(out, data))
        else:
            net.done(out)

    return build


def resize(scales=None, sizes=None, shape=PICTURE, kept=True, x=None, y=None, **attributes):
    def build(net):
        data = net.frame(shape, **(x or {}))
        inputs = [data, "", net.floats(scales) if scales else ""] + ([net.ints(sizes)] if sizes else [])
        out = net.node("Resize", inputs, **attributes)
        if kept:
            net.end(net.quantise_as(out, data))
        else:
            net.done(out, **(y or {}))

    return build


def recipes_joins():
    yield "concat_channels", concat(1, (1, 3, 5, 4), (1, 2, 5, 4)), {}
    yield "concat_channels_kept", concat(1, (1, 3, 5, 4), (1, 2, 5, 4), kept=True), {}
    yield "concat_rows", concat(2, (1, 3, 5, 4), (1, 3, 2, 4)), {}
    yield "concat_columns", concat(3, (1, 3, 5, 4), (1, 3, 5, 6)), {}
    yield "concat_last", concat(-1, (1, 3, 5, 4), (1, 3, 5, 2), kept=True), {}
    yield "concat_three", concat(1, (1, 3, 5, 4), (1, 2, 5, 4), (1, 4, 5, 4)), {}
    yield "concat_flat", concat(1, (1, 17), (1, 12)), {}
    yield "concat_rank_3", concat(1, (1, 3, 12), (1, 4, 12)), {}
    yield "concat_rank_3_last", concat(2, (1, 3, 12), (1, 3, 5)), {}
    yield "concat_rank_5", concat(1, (1, 2, 3, 4, 5), (1, 3, 3, 4, 5), kept=True), {}
    yield "concat_rank_5_rows", concat(3, (1, 2, 3, 4, 5), (1, 2, 3, 2, 5), kept=True), {}
    yield "concat_constant", concat(1, (1, 3, 5, 4), constant=(1, 2, 5, 4)), {}
    yield "concat_uint8", concat(1, (1, 3, 5, 4), (1, 2, 5, 4), entry=ASYMMETRIC), {}
    yield "concat_branches", branches(1), {}
    yield "concat_branches_rows", branches(2), {}
    yield "qlinearconcat", qlinearconcat, dict(domains=["com.microsoft"])


def recipes_selections():
    for axis, name, sizes in ((1, "channels", [1, 3]), (2, "rows", [3, 5]), (3, "columns", [4, 2])):
        yield f"split_{name}", move("Split", sizes, axis=axis, outputs=2), {}
        yield f"split_{name}_evenly", move("Split", axis=axis, outputs=2), {}
    yield "split_attribute", move("Split", axis=1, split=[1, 2, 1], outputs=3), dict(opset=11)
    yield "split_flat", move("Split", [5, 7], axis=-1, shape=(1, 12), outputs=2), {}
    yield "split_num_outputs", move("Split", axis=2, num_outputs=3, outputs=3), dict(opset=18)
    for axis, name in ((1, "channels"), (2, "rows"), (3, "columns")):
        yield f"slice_{name}", move("Slice", [1], [3], [axis]), {}
        yield f"slice_{name}_step", move("Slice", [0], [8], [axis], [2]), {}
        yield f"slice_{name}_reversed", move("Slice", [-1], [-100], [axis], [-1]), {}
    yield "slice_two_axes", move("Slice", [1, 2], [7, 5], [2, 3], [3, 1]), {}
    yield "slice_no_axes", move("Slice", [0, 1, 2, 0], [1, 3, 6, 4]), {}
    yield "slice_flat", move("Slice", [3], [17], [1], [2], shape=(1, 24)), {}
    yield "slice_rank_5", move("Slice", [1], [3], [3], shape=VOLUME), {}
    yield "gather_one", move("Gather", 2, axis=1), {}
    yield "gather_rows", move("Gather", [1, 3, 5], axis=2), {}
    yield "gather_interleaved", move("Gather", [0, 2, 1, 3], axis=1), {}
    yield "gather_any", move("Gather", [3, 0, 0, 2, 1], axis=1), {}
    yield "gather_negative", move("Gather", [-1, -2], axis=3), {}
    yield "between_slice", between([("Slice", ([1], [3], [1]), {})], 2), {}
    yield "between_slice_rows", between([("Slice", ([1], [8], [2], [2]), {})], 4), {}


def recipes_pads():
    for axis, name in ((1, "channels"), (2, "rows"), (3, "columns")):
        pads = [0] * 8
        pads[axis], pads[axis + 4] = 1, 2
        yield f"pad_{name}", pad(pads), {}
        yield f"pad_{name}_value", pad(pads, value=1.7), {}
    yield "pad_all", pad([0, 1, 2, 1, 0, 2, 0, 3]), {}
    yield "pad_uint8", pad([0, 0, 1, 1, 0, 0, 1, 1], x=ASYMMETRIC), {}
    yield "pad_negative", pad([0, 0, -1, 1, 0, 0, -2, 0]), {}
    yield "pad_reflected", pad([0, 0, 2, 1, 0, 0, 1, 3], mode="reflect"), {}
    yield "pad_edge", pad([0, 0, 2, 1, 0, 0, 1, 3], mode="edge"), {}
    yield "pad_wrapped", pad([0, 0, 2, 1, 0, 0, 1, 3], mode="wrap"), dict(opset=19)
    yield "pad_flat", pad([0, 3, 0, 2], shape=(1, 20)), {}
    yield "pad_rank_3", pad([0, 1, 2, 0, 0, 1], shape=ROW), {}
    yield "pad_rank_5", pad([0, 0, 1, 1, 1, 0, 0, 1, 1, 1], shape=VOLUME), {}
    yield "pad_axes", pad([1, 2, 0, 1], axes=[2, 3]), dict(opset=18)
    yield "pad_attribute", move("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1]), dict(opset=10)
    yield "between_pad", between([("Pad", ([0, 0, 1, 1, 0, 0, 1, 1],), {})], 4, (3, 3)), {}


def recipes_resizes():
    asymmetric = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield "resize_nearest_2", resize([1, 1, 2, 2], **asymmetric), {}
    yield "resize_nearest_3x2", resize([1, 1, 3, 2], **asymmetric), {}
    yield "resize_nearest_half", resize([1, 1, 0.5, 0.5], **asymmetric), {}
    yield "resize_nearest_default", resize([1, 1, 2, 2], mode="nearest"), {}
    yield "resize_nearest_sizes", resize(sizes=[1, 4, 16, 18], mode="nearest"), {}
    yield "resize_nearest_1_5", resize([1, 1, 1.5, 1.5], mode="nearest"), {}
    yield "resize_nearest_ceil", resize([1, 1, 2, 3], mode="nearest", nearest_mode="ceil"), {}
    yield "resize_nearest_corners", resize([1, 1, 2, 2], mode="nearest", coordinate_transformation_mode="align_corners"), {}
    yield "resize_nearest_channels", resize([1, 2, 1, 1], **asymmetric), {}
    yield "resize_nearest_row", resize([1, 1, 3], shape=ROW, **asymmetric), {}
    yield "resize_nearest_volume", resize([1, 1, 2, 2, 2], shape=VOLUME, **asymmetric), {}
    yield "resize_nearest_requantised", resize([1, 1, 2, 2], kept=False, y=ASYMMETRIC, **asymmetric), {}
    for transformation in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
        mode = dict(mode="linear", coordinate_transformation_mode=transformation)
        yield f"resize_linear_{transformation}", resize([1, 1, 2, 2], **mode), {}
    yield "resize_linear_3x2", resize([1, 1, 3, 2], mode="linear"), {}
    yield "resize_linear_4", resize([1, 1, 4, 4], mode="linear"), {}
    yield "resize_linear_sizes", resize(sizes=[1, 4, 16, 12], mode="linear"), {}
    yield "resize_linear_half", resize([1, 1, 0.5, 0.5], mode="linear"), {}
    yield "resize_linear_uint8", resize([1, 1, 2, 2], mode="linear", x=ASYMMETRIC), {}
    yield "resize_linear_requantised", resize([1, 1, 2, 2], mode="linear", kept=False), {}
    yield "resize_linear_power", resize([1, 1, 2, 2], mode="linear", x=dict(power_of_two=True)), {}
    yield "resize_linear_row", resize([1, 1, 2], shape=ROW, mode="linear"), {}
    yield "resize_cubic", resize([1, 1, 2, 2], mode="cubic"), {}


def recipes_blocks():
    for mode in ("DCR", "CRD"):
        yield f"depthtospace_{mode.lower()}", move("DepthToSpace", shape=(1, 12, 4, 3), blocksize=2, mode=mode), {}
        yield f"depthtospace_{mode.lower()}_3", move("DepthToSpace", shape=(1, 18, 3, 2), blocksize=3, mode=mode), {}
        step = ("DepthToSpace", (), dict(blocksize=2, mode=mode))
        yield f"between_depthtospace_{mode.lower()}", between([step], 1), {}
    yield "depthtospace_on_integers", on_integers("DepthToSpace", blocksize=2), {}
    yield "spacetodepth", move("SpaceToDepth", blocksize=2), {}
    yield "spacetodepth_3", move("SpaceToDepth", shape=(1, 2, 9, 6), blocksize=3), {}
    yield "between_spacetodepth", between([("SpaceToDepth", (), dict(blocksize=2))], 16), {}
    shuffle = [("Reshape", ([1, 2, 2, 8, 6],), {}), ("Transpose", (), dict(perm=[0, 2, 1, 3, 4])), ("Reshape", ([1, 4, 8, 6],), {})]
    yield "channel_shuffle", between(shuffle, 4), {}
    pixels = [("Reshape", ([1, 1, 2, 2, 8, 6],), {}), ("Transpose", (), dict(perm=[0, 1, 4, 2, 5, 3])), ("Reshape", ([1, 1, 16, 12],), {})]
    yield "pixel_shuffle", between(pixels, 1), {}


def recipes_shapes():
    yield "transpose_nhwc", move("Transpose", perm=[0, 2, 3, 1]), {}
    yield "transpose_turned", move("Transpose", perm=[0, 1, 3, 2]), {}
    yield "transpose_channels_rows", move("Transpose", perm=[0, 2, 1, 3]), {}
    yield "transpose_rank_3", move("Transpose", perm=[0, 2, 1], shape=ROW), {}
    yield "transpose_rank_5", move("Transpose", perm=[0, 3, 1, 4, 2], shape=VOLUME), {}
    yield "transpose_integers", on_integers("Transpose", perm=[0, 3, 1, 2]), {}
    yield "between_transpose", between([("Transpose", (), dict(perm=[0, 1, 3, 2]))], 4, (3, 1)), {}
    yield "between_transpose_channels", between([("Transpose", (), dict(perm=[0, 3, 2, 1]))], 6), {}
    yield "product_behind_transpose", before_a_product([("Transpose", (), dict(perm=[0, 2, 3, 1]))], 4), {}
    yield "product_behind_flatten", before_a_product([("Flatten", (), dict(axis=1))], 192), {}
    yield "product_behind_nhwc_flatten", before_a_product([("Transpose", (), dict(perm=[0, 2, 3, 1])), ("Reshape", ([1, -1],), {})], 192), {}
    yield "product_behind_tokens", before_a_product([("Reshape", ([1, 4, 48],), {}), ("Transpose", (), dict(perm=[0, 2, 1]))], 4), {}
    yield "flatten", move("Flatten", axis=1), {}
    yield "flatten_axis_2", move("Flatten", axis=2), {}
    yield "reshape", move("Reshape", [1, 8, 4, 6]), {}
    yield "reshape_zero", move("Reshape", [0, 0, -1]), {}
    yield "reshape_rank_1", move("Reshape", [-1]), {}
    yield "squeeze", move("Squeeze", [2], shape=(1, 9, 1, 20)), {}
    yield "squeeze_attribute", move("Squeeze", axes=[2], shape=(1, 9, 1, 20)), dict(opset=11)
    yield "unsqueeze", move("Unsqueeze", [1, 4], shape=(1, 9, 20)), {}
    yield "expand", move("Expand", [1, 4, 5, 6], shape=(1, 4, 1, 6)), {}
    yield "expand_rank", move("Expand", [1, 3, 8, 6], shape=(1, 1, 8, 6)), {}
    yield "tile", move("Tile", [1, 2, 1, 3]), {}
    yield "identity", move("Identity", kept=False), {}
    yield "dropout", move("Dropout"), {}


def recipes():
    for family in (recipes_joins, recipes_selections, recipes_pads, recipes_resizes, recipes_blocks, recipes_shapes):
        yield from family()
