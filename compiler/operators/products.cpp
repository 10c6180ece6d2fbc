// The table entries of convolutions and matrix products, both of floats in QDQ form and of integers (ConvInteger). The
// file has more than 500 lines because all these operators share how their sums and the steps behind the sums are made.
#include <array>

#include "compiler/graph/graph.hpp"
#include "compiler/operators/activation_products.hpp"
#include "compiler/operators/qdq.hpp"

namespace millrace::compiler::operators {
namespace {

std::int64_t first_extent(const Shape& shape) {
  return shape.empty() ? 0 : shape[0];
}

std::int64_t last_extent(const Shape& shape) {
  return shape.empty() ? 0 : shape.back();
}

std::string do_not_fit(const Shape& x, const Shape& y) {
  return "multiplies " + to_string(x) + " by " + to_string(y) + ", which do not fit";
}

/// Infers the output shape of a convolution or matrix product with data input `x` and weights input `w`.
using ProductShape = std::string (*)(Inference& c, std::size_t x, std::size_t w);

std::string convolve(Inference& c, std::size_t x, std::size_t w) {
  if (c.rank(w) != c.rank(x) || c.rank(w) < 3)
    return "has weights of " + to_string(c.shape_of(w)) + " for an input of " + to_string(c.shape_of(x));
  const Shape& weights = c.shape_of(w);
  const std::vector<std::int64_t> kernel(weights.begin() + 2, weights.end());
  if (c.op.has("kernel_shape") && c.op.integers("kernel_shape", {}) != kernel)
    return "has a kernel_shape that differs from the shape of its weights";
  const std::int64_t groups = c.op.integer("group", 1);
  // There are at most as many groups as output channels, so the number of groups times an extent cannot overflow.
  if (groups < 1 || weights[0] < 1 || weights[0] % groups != 0 || c.shape_of(x)[1] != weights[1] * groups)
    return "has " + std::to_string(groups) + " groups, weights of " + to_string(weights) +
           " and an input of " + to_string(c.shape_of(x)) + ", which do not fit";
  std::string why;
  const auto extents = graph::windowed_extents(c.op, c.shape_of(x), kernel, why);
  if (!extents) return why;
  c.shape = {c.shape_of(x)[0], weights[0]};
  c.shape.insert(c.shape.end(), extents->begin(), extents->end());
  return {};
}

std::string multiply_matrices(Inference& c, std::size_t a, std::size_t b) {
  Shape x = c.shape_of(a), y = c.shape_of(b);
  if (x.empty() || y.size() < 2)
    return "multiplies " + to_string(x) + " by " + to_string(y) + ", which is not supported";
  if (x.back() != y[y.size() - 2]) return do_not_fit(x, y);
  const bool vector = x.size() == 1;
  if (vector) x.insert(x.begin(), 1);
  const auto lead = broadcast(Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2));
  if (!lead) return do_not_fit(x, y);
  c.shape = *lead;
  if (!vector) c.shape.push_back(x[x.size() - 2]);
  c.shape.push_back(y.back());
  return {};
}

std::string multiply_gemm(Inference& c, std::size_t a, std::size_t b) {
  Shape x = c.shape_of(a), y = c.shape_of(b);
  if (x.size() != 2 || y.size() != 2)
    return "multiplies " + to_string(x) + " by " + to_string(y) + "; both must be matrices";
  if (c.op.integer("transA", 0) != 0) std::swap(x[0], x[1]);
  if (c.op.integer("transB", 0) != 0) std::swap(y[0], y[1]);
  if (x[1] != y[0]) return do_not_fit(x, y);
  c.shape = {x[0], y[1]};
  return {};
}

/// Infers type and shape of a float32 convolution or matrix product, whose inputs are (x, w).
std::string infer_float(Inference& c, ProductShape shape) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  c.type = c.in(0).type;
  if (!c.type.is_float() || c.in(1).type != c.type) return "takes floats";
  return shape(c, 0, 1);
}

/// Infers type and shape of an integer convolution or matrix product, whose inputs are (x, w, zero point of x, zero
/// points of w).
std::string infer_integer(Inference& c, ProductShape shape, std::int64_t (*channels)(const Shape&)) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(0).type.is_integer() || !c.in(1).type.is_integer()) return "takes integers";
  c.type = Type::integer(32);
  for (const std::size_t i : {0U, 1U}) {
    if (!c.has(i + 2)) continue;
    const std::int64_t zeros = elements(c.shape_of(i + 2));
    if (c.in(i + 2).type != c.in(i).type) return "has a zero point of another type than its input";
    if (zeros != 1 && (i == 0 || zeros != channels(c.shape_of(1))))
      return "has " + std::to_string(zeros) + " zero points for its input " + std::to_string(i + 1);
  }
  return shape(c, 0, 1);
}

std::string infer_conv(Inference& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (c.has(2) && (c.in(2).type != c.in(0).type || c.shape_of(2) != Shape{first_extent(c.shape_of(1))}))
    return "has a bias of the wrong type or shape";
  return infer_float(c, convolve);
}

std::string infer_gemm(Inference& c) {
  if (std::string why = infer_float(c, multiply_gemm); !why.empty()) return why;
  if (!c.has(2)) return {};
  if (c.in(2).type != c.type) return "takes floats";
  return broadcast(c.shape_of(2), c.shape) == c.shape
             ? ""
             : "has an operand C that does not broadcast to the shape of the result";
}

/// A sum of products of the data `x` and the constant `weights`, and the steps that follow the sum.
struct Product {
  ValueId x = graph::kNoValue;
  ValueId weights = graph::kNoValue;
  graph::Accumulate sum{};  // without window, groups, output channels and weights
  Chain chain{};            // steps on the accumulator, with constants per output channel; may be empty
};

std::string check(const Site& site, const Product& p) {
  const Value& w = site.graph.value(p.weights);
  const Value& x = site.graph.value(p.x);
  if (w.constant == nullptr) return "its weights are not constant";
  if (x.constant != nullptr) return "its data input is a constant";
  if (!x.type.is_integer() || x.type.bits > 16)
    return "its input is " + to_string(x.type) + "; at most 16 bits are supported";
  if (!w.type.is_integer() || w.type.bits > 16)
    return "its weights are " + to_string(w.type) + "; at most 16 bits are supported";
  return {};
}

/// Returns the sum of products with its weights in the order of the ONNX file.
graph::Accumulate with_weights(const Site& site, const Product& p, std::int64_t channels) {
  graph::Accumulate a = p.sum;
  a.out_channels = channels;
  a.weight_type = site.graph.value(p.weights).type;
  a.weights = site.graph.value(p.weights).constant;
  return a;
}

/// A sum over a window that slides over a line or a plane, and the shape of its results.
struct SlidingSum {
  graph::Accumulate sum;
  Shape shape;
};

/// Returns the sum over a window that slides over data of shape `x`, or nothing after setting `why`.
std::optional<SlidingSum> sliding_sum(const Site& site, const Product& p, const OnnxOperator& op,
                                      const Shape& x, const Shape& kernel, std::string& why) {
  const auto window = graph::resolve_window(op, x, kernel, why);
  if (!window) return std::nullopt;
  if (x[0] != 1) {
    why = "its batch is " + std::to_string(x[0]) + ", not 1";
    return std::nullopt;
  }
  SlidingSum s{with_weights(site, p, first_extent(site.graph.value(p.weights).shape)), {}};
  s.sum.window = window->window;
  s.sum.groups = site.op.integer("group", 1);
  s.shape = {1, s.sum.out_channels, window->out_h, window->out_w};
  return s;
}

/// Emits Accumulate, then Elementwise and Move if they are needed. `shape` is the shape of the accumulators.
Outcome emit(Site& site, graph::Accumulate a, const Product& p, ValueId x, const Shape& shape,
             std::vector<std::int64_t> perm_back = {}) {
  const ValueId output = site.node.outputs[0];
  const Value result = site.result();
  const bool moves = !perm_back.empty() || result.shape != shape;
  const bool has_chain = !p.chain.steps.empty();
  ValueId last =
      has_chain || moves ? site.graph.add_value(result.name + ".acc", Type::integer(32), shape) : output;
  site.emit(std::move(a), {x}, last);
  if (has_chain) {
    const ValueId next = moves ? site.graph.add_value(result.name + ".chain", result.type, shape) : output;
    site.emit(Elementwise{p.chain, p.chain.channels() > 1 ? 1 : -1}, {last}, next, ".chain");
    last = next;
  }
  if (moves) site.emit(Move{std::move(perm_back)}, {last}, output, ".move");
  return {};
}

std::int64_t matrix_channels(const Value& weights, bool transposed) {
  return weights.shape.size() < 2 ? 0 : weights.shape[weights.shape.size() - (transposed ? 2 : 1)];
}

/// Removes spatial axis `axis` from an attribute that lists one value for each spatial axis or, like `pads`, two values
/// for each.
void erase_axis(OnnxOperator& op, const char* name, std::size_t axis) {
  std::vector<std::int64_t> values = op.integers(name, {});
  if (values.size() == 6) values.erase(values.begin() + static_cast<std::ptrdiff_t>(axis) + 3);
  if (values.size() > axis) values.erase(values.begin() + static_cast<std::ptrdiff_t>(axis));
  if (!values.empty()) op.attributes[name] = std::move(values);
}

/// Returns the spatial axis of a three-dimensional convolution along which the window cannot move, because the window
/// is as long as the input. Returns nothing if there is no such axis.
std::optional<std::size_t> still_axis(const OnnxOperator& op, const Shape& x, const Shape& w) {
  const std::vector<std::int64_t> pads = op.integers("pads", std::vector<std::int64_t>(6, 0));
  const bool pads_itself = op.text("auto_pad", "NOTSET").starts_with("SAME");
  for (std::size_t i = 0; i < 3 && pads.size() == 6; ++i)
    if (x[2 + i] == w[2 + i] && pads[i] == 0 && pads[3 + i] == 0 && (!pads_itself || w[2 + i] == 1)) return i;
  return std::nullopt;
}

/// Returns the permutation that moves spatial axis `axis` (0 to 2) of [N, C, D, H, W] to the place behind the channels.
std::vector<std::int64_t> behind_channels(std::size_t axis) {
  std::vector<std::int64_t> perm = {0, 1, static_cast<std::int64_t>(2 + axis)};
  for (std::int64_t i = 2; i < 5; ++i)
    if (i != perm[2]) perm.push_back(i);
  return perm;
}

/// Finds two neighbouring spatial axes of a three-dimensional convolution that can be seen as one, because along one of
/// them the window has one element, stride 1 and no padding. Returns the first of the two axes, or nothing if there are
/// no such axes.
std::optional<std::size_t> pointwise_axes(const OnnxOperator& op, const Shape& w) {
  const auto pads = op.integers("pads", std::vector<std::int64_t>(6, 0));
  const auto strides = op.integers("strides", {1, 1, 1});
  if (op.text("auto_pad", "NOTSET") != "NOTSET" || pads.size() != 6 || strides.size() != 3)
    return std::nullopt;
  std::array<bool, 3> is_pointwise{};
  for (std::size_t i = 0; i < 3; ++i)
    is_pointwise[i] = w[2 + i] == 1 && strides[i] == 1 && pads[i] == 0 && pads[3 + i] == 0;
  if (!is_pointwise[1] || !(is_pointwise[0] || is_pointwise[2])) return std::nullopt;
  return is_pointwise[0] ? 0 : 1;
}

/// Lowers a convolution over three axes, two of which are seen as one.
Outcome emit_merged_convolution(Site& site, const Product& p, std::size_t axis) {
  const Value w = site.graph.value(p.weights);
  const Shape x = site.graph.value(p.x).shape;
  const auto merged = [axis](const Shape& s) {
    Shape result(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(2 + axis));
    result.push_back(s[2 + axis] * s[3 + axis]);
    result.insert(result.end(), s.begin() + static_cast<std::ptrdiff_t>(4 + axis), s.end());
    return result;
  };
  OnnxOperator op = site.op;
  for (const char* name : {"strides", "dilations", "pads", "kernel_shape"}) erase_axis(op, name, axis);
  const Shape kernel = merged(w.shape);
  std::string why;
  auto sum = sliding_sum(site, p, op, merged(x), {kernel[2], kernel[3]}, why);
  if (!sum) return why;
  const ValueId plane = site.move(p.x, {}, merged(x), ".plane");
  return emit(site, std::move(sum->sum), p, plane, sum->shape);
}

/// Lowers a convolution over three axes, one of which becomes a part of the channels.
Outcome emit_solid_convolution(Site& site, const Product& p) {
  const Value w = site.graph.value(p.weights);
  const Shape x_shape = site.graph.value(p.x).shape;
  const auto axis = still_axis(site.op, x_shape, w.shape);
  const auto merged = pointwise_axes(site.op, w.shape);
  if (merged && !axis) return emit_merged_convolution(site, p, *merged);
  if (!axis)
    return "its window moves along three axes, which is not supported. "
           "Make the window as long as the input along at least one of the axes; "
           "the input has the shape " +
           to_string(x_shape);
  OnnxOperator op = site.op;
  for (const char* name : {"strides", "dilations", "pads", "kernel_shape"}) erase_axis(op, name, *axis);
  const std::vector<std::int64_t> perm = behind_channels(*axis);
  const auto permuted = [&perm](const Shape& shape) {
    Shape result;
    for (const std::int64_t i : perm) result.push_back(shape[static_cast<std::size_t>(i)]);
    return result;
  };
  const auto flat = [](const Shape& s) { return Shape{s[0], s[1] * s[2], s[3], s[4]}; };
  const Shape solid = permuted(x_shape), kernel = permuted(w.shape);
  std::string why;
  auto sum = sliding_sum(site, p, op, flat(solid), {kernel[3], kernel[4]}, why);
  if (!sum) return why;
  const std::vector<std::int64_t> own = graph::strides_of(w.shape);
  std::vector<std::int64_t> strides;
  for (const std::int64_t i : perm) strides.push_back(own[static_cast<std::size_t>(i)]);
  Constant turned;
  for (const std::size_t i : graph::strided_indices(kernel, strides))
    turned.integers.push_back(w.constant->integers[i]);
  sum->sum.weights = std::make_shared<const Constant>(std::move(turned));
  const ValueId ordered = *axis == 0 ? p.x : site.move(p.x, perm, solid, ".turned");
  const ValueId plane = site.move(ordered, {}, flat(solid), ".plane");
  return emit(site, std::move(sum->sum), p, plane, sum->shape);
}

/// Lowers a convolution over one or two spatial axes. Also lowers one over three axes if the window is as long as the
/// input along one of them, because that axis can be merged with the channels.
Outcome emit_convolution(Site& site, const Product& p) {
  const Value w = site.graph.value(p.weights);
  if (std::string why = check(site, p); !why.empty()) return why;
  if (w.shape.size() == 5) return emit_solid_convolution(site, p);
  const Shape x_shape = site.graph.value(p.x).shape;
  std::string why;
  auto sum = sliding_sum(site, p, site.op, x_shape, {w.shape.begin() + 2, w.shape.end()}, why);
  if (!sum) return why;
  const ValueId x = x_shape.size() == 3 ? site.move(p.x, {}, {1, x_shape[1], 1, x_shape[2]}, ".plane") : p.x;
  return emit(site, std::move(sum->sum), p, x, sum->shape);
}

/// Transposes weights from [K, N] to [N, K].
std::shared_ptr<const Constant> transpose_weights(const Constant& weights, std::int64_t rows,
                                                  std::int64_t columns) {
  Constant turned;
  turned.integers.resize(weights.integers.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t o = 0; o < columns; ++o)
      turned.integers[static_cast<std::size_t>(o * rows + i)] =
          weights.integers[static_cast<std::size_t>(i * columns + o)];
  return std::make_shared<const Constant>(std::move(turned));
}

/// Lowers the matrix products of B matrices [T, K] of x by B matrices [K, N] of weights: a convolution in B groups with
/// a 1 x 1 window over the rows.
Outcome emit_matrix_products(Site& site, const Product& p) {
  const Value w = site.graph.value(p.weights);
  const Shape x_shape = site.graph.value(p.x).shape, result = site.result().shape;
  const std::int64_t batch = elements({w.shape.begin(), w.shape.end() - 2});
  const std::int64_t k = w.shape[w.shape.size() - 2], n = w.shape.back();
  const std::int64_t rows = elements(x_shape) / (batch * k);
  if (x_shape.size() < 2 || elements({x_shape.begin(), x_shape.end() - 2}) != batch || rows < 1 ||
      p.sum.weight_zero.size() != 1 || p.chain.channels() != 1)
    return "its weights of " + to_string(w.shape) +
           " consist of several matrices, which need a common scale. "
           "The data must consist of equally many matrices, but the data have the shape " +
           to_string(x_shape);
  graph::Accumulate a = with_weights(site, p, batch * n);
  a.groups = batch;
  Constant turned;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto first = w.constant->integers.begin() + b * k * n;
    const auto matrix = transpose_weights({{}, {first, first + k * n}}, k, n);
    turned.integers.insert(turned.integers.end(), matrix->integers.begin(), matrix->integers.end());
  }
  a.weights = std::make_shared<const Constant>(std::move(turned));
  const ValueId split = site.move(p.x, {}, {batch, rows, k}, ".rows");
  const ValueId columns = site.move(split, {0, 2, 1}, {batch, k, rows}, ".turned");
  const ValueId plane = site.move(columns, {}, {1, batch * k, 1, rows}, ".plane");
  const std::string name = site.result().name;
  const Type type = p.chain.steps.empty() ? Type::integer(32) : site.result().type;
  ValueId last = site.graph.add_value(name + ".acc", Type::integer(32), {1, batch * n, 1, rows});
  site.emit(std::move(a), {plane}, last);
  if (!p.chain.steps.empty()) {
    const ValueId next = site.graph.add_value(name + ".chain", type, {1, batch * n, 1, rows});
    site.emit(Elementwise{p.chain, -1}, {last}, next, ".chain");
    last = next;
  }
  const ValueId lines = site.move(last, {}, {batch, n, rows}, ".columns");
  const ValueId back = site.move(lines, {0, 2, 1}, {batch, rows, n}, ".back");
  site.emit(Move{}, {back}, site.node.outputs[0], ".move");
  return {};
}

/// Lowers the matrix product of x [.., T, K] and weights [K, N], which are [N, K] if `transposed`.
Outcome emit_matrix_product(Site& site, bool transposed, const Product& p) {
  const Value w = site.graph.value(p.weights);
  if (std::string why = check(site, p); !why.empty()) return why;
  if (w.shape.size() < 2) return "its weights are not a matrix";
  if (elements({w.shape.begin(), w.shape.end() - 2}) != 1) return emit_matrix_products(site, p);
  const std::int64_t channels = matrix_channels(w, transposed);
  const std::int64_t k = elements(w.shape) / channels;
  const Shape x_shape = site.graph.value(p.x).shape;
  const std::int64_t rows = elements(x_shape) / k;
  graph::Accumulate a = with_weights(site, p, channels);
  a.dense = rows == 1;
  if (!transposed) a.weights = transpose_weights(*w.constant, k, channels);
  if (a.dense) {
    const ValueId x = x_shape.size() == 2 ? p.x : site.move(p.x, {}, {1, k}, ".flat");
    return emit(site, std::move(a), p, x, {1, channels});
  }
  // A matrix product with several rows of x becomes a convolution with a 1 x 1 window over these rows.
  const ValueId flat = site.move(p.x, {}, {rows, k}, ".rows");
  const ValueId turned = site.move(flat, {1, 0}, {1, k, 1, rows}, ".turned");
  return emit(site, std::move(a), p, turned, {1, channels, 1, rows}, {0, 2, 3, 1});
}

/// Reads inputs 0 and 1 in QDQ form, without the bias. Input number `data` (0 or 1) is the data, and the remaining one
/// is the weights. Sets `scale` to `alpha` times the product of both inputs' scales.
std::optional<Product> qdq_operands(Site& site, std::int64_t channel_axis, float alpha,
                                    std::vector<float>& scale, std::string& why, std::size_t data = 0) {
  const auto x = activation(site, data, why);
  if (!x) return std::nullopt;
  const auto w = weights(site, 1 - data, channel_axis, why);
  if (!w) return std::nullopt;
  for (const float s : w->scale) scale.push_back(alpha * x->scale[0] * s);
  Step dequantise = Step::dequantise(scale, 0);
  dequantise.accumulator = !site.op.qlinear;
  dequantise.written = x->written || w->written;
  graph::Accumulate sum;
  sum.weight_zero = w->zero;
  sum.input_zero = x->zero[0];
  return Product{x->q, w->q, std::move(sum), {{std::move(dequantise)}}};
}

/// Adds `factor` times the bias at input 2. If the model states dequantisers and quantisers explicitly (QONNX, FINN),
/// the bias is added as a float after the dequantisation, otherwise as integers to the sum. Returns what is wrong with
/// the bias, or an empty text.
std::string add_bias(Site& site, Product& p, const std::vector<float>& scale, std::int64_t channels,
                     float factor = 1.0F) {
  std::string why;
  if (site.has(2) && p.chain.steps[0].written) {
    auto floats = float_bias(site, 2, channels, why);
    if (!floats) return why;
    for (float& f : *floats) f *= factor;
    p.chain.steps.push_back(Step::add(*floats));
  } else if (auto integers = bias(site, 2, scale, channels, why, factor)) {
    p.sum.bias = std::move(*integers);
  }
  return why;
}

Outcome lower_conv(Site& site) {
  std::string why;
  std::vector<float> scale;
  auto p = qdq_operands(site, 0, 1.0F, scale, why);
  if (!p) return why;
  why = add_bias(site, *p, scale, first_extent(site.graph.value(p->weights).shape));
  return why.empty() ? emit_convolution(site, *p) : why;
}

/// Lowers the matrix product of constant weights [M, K] and x [.., K, N]: a convolution with a 1 x 1 window over the N
/// columns.
Outcome lower_product_from_left(Site& site) {
  std::string why;
  std::vector<float> scale;
  const auto p = qdq_operands(site, 0, 1.0F, scale, why, 1);
  if (!p) return why;
  if (why = check(site, *p); !why.empty()) return why;
  const Shape w = site.graph.value(p->weights).shape, x = site.graph.value(p->x).shape;
  if (w.size() != 2 || x.size() < 2 || elements(x) != x.back() * x[x.size() - 2])
    return "multiplies weights of " + to_string(w) + " by data of " + to_string(x) +
           "; the data must be one matrix";
  graph::Accumulate a = with_weights(site, *p, w[0]);
  const ValueId columns = site.move(p->x, {}, {1, w[1], 1, x.back()}, ".columns");
  return emit(site, std::move(a), *p, columns, {1, w[0], 1, x.back()});
}

Outcome lower_matmul(Site& site) {
  if (constant_operand(site, 0)) return lower_product_from_left(site);
  if (!known_floats(site.graph, site.uses, site.node.inputs[0]) &&
      !known_floats(site.graph, site.uses, site.node.inputs[1]))
    return lower_product_of_activations(site);
  std::string why;
  std::vector<float> scale;
  const auto p = qdq_operands(site, static_cast<std::int64_t>(site.in(1).shape.size()) - 1, 1.0F, scale, why);
  if (!p) return why;
  return emit_matrix_product(site, false, *p);
}

Outcome lower_gemm(Site& site) {
  const bool transposed = site.op.integer("transB", 0) != 0;
  const float alpha = site.op.real("alpha", 1.0F), beta = site.op.real("beta", 1.0F);
  if (alpha == 0) return "its alpha is 0, so the result does not depend on the data";
  std::string why;
  std::vector<float> scale;
  auto p = qdq_operands(site, transposed ? 0 : 1, alpha, scale, why);
  if (!p) return why;
  why = add_bias(site, *p, scale, matrix_channels(site.graph.value(p->weights), transposed), beta);
  if (!why.empty()) return why;
  if (site.op.integer("transA", 0) != 0) {
    const Shape& x = site.graph.value(p->x).shape;
    p->x = site.move(p->x, {1, 0}, {x[1], x[0]}, ".transposed");
  }
  return emit_matrix_product(site, transposed, *p);
}

/// Reads the operands of ConvInteger or MatMulInteger: (x, w, zero point of x, zero points of w).
std::optional<Product> integer_operands(const Site& site, std::string& why) {
  Product p{site.node.inputs[0], site.node.inputs[1]};
  for (const std::size_t i : {2U, 3U})
    if (site.has(i) && site.constant(i) == nullptr)
      why = "its zero point (input " + std::to_string(i + 1) + ") is not constant";
  if (!why.empty()) return std::nullopt;
  p.sum.weight_zero = site.has(3) ? site.constant(3)->integers : std::vector<std::int64_t>{0};
  if (site.has(2)) p.sum.input_zero = site.constant(2)->integers[0];
  return p;
}

Outcome lower_conv_integer(Site& site) {
  std::string why;
  const auto p = integer_operands(site, why);
  return p ? emit_convolution(site, *p) : why;
}

Outcome lower_matmul_integer(Site& site) {
  std::string why;
  const auto p = integer_operands(site, why);
  return p ? emit_matrix_product(site, false, *p) : why;
}

constexpr Operator kProducts[] = {
    {.type = "Conv",
     .infer = infer_conv,
     .lower_qdq = lower_conv,
     .computes = true,
     .limits = "one or two spatial axes; "
               "three axes if the window covers a whole axis, or has length 1 along two neighbouring axes; "
               "groups, strides, dilations, any padding and auto_pad; "
               "constant weights of 1 to 16 bits (hardware: at most 9 bits, with data of at most 8 bits); "
               "scales per tensor or per output channel; the bias is a constant"},
    {.type = "ConvInteger",
     .infer = [](Inference& c) { return infer_integer(c, convolve, first_extent); },
     .lower_elementwise = lower_conv_integer,
     .limits = "as Conv; zero points are constants"},
    {.type = "Gemm",
     .infer = infer_gemm,
     .lower_qdq = lower_gemm,
     .computes = true,
     .limits = "any alpha except 0, any beta, transA, transB; the second operand and the bias are constants"},
    {.type = "MatMul",
     .infer = [](Inference& c) { return infer_float(c, multiply_matrices); },
     .lower_qdq = lower_matmul,
     .computes = true,
     .limits =
         "one operand is a constant matrix, or one constant matrix for each matrix of the other operand; "
         "a product of two activations runs on the host"},
    {.type = "MatMulInteger",
     .infer = [](Inference& c) { return infer_integer(c, multiply_matrices, last_extent); },
     .lower_elementwise = lower_matmul_integer,
     .limits = "as MatMul, but one operand must be constant; the zero points are constants"}};

}  // namespace

std::span<const Operator> products() {
  return kProducts;
}

}  // namespace millrace::compiler::operators
