// Convolutions over any number of spatial axes, and matrix products.
#include <algorithm>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

bool has_bias(const FloatOperator& op, std::size_t i, std::int64_t channels, std::string& why) {
  if (!is_float(op, i)) return false;
  if (op.operands[i].shape != Shape{channels}) why = "has a bias that does not fit";
  return true;
}

Shape kernel_of(const FloatOperator& op) {
  const Shape& w = op.operands[1].shape;
  return {w.begin() + 2, w.end()};
}

/// Returns whether operands 1 and 2 exist and have as many axes as a convolution needs.
bool has_weights(const FloatOperator& op, std::string& why) {
  const bool fits = is_float(op, 0) && is_float(op, 1) && op.operands[0].shape.size() >= 3 &&
                    op.operands[1].shape.size() == op.operands[0].shape.size() &&
                    elements(op.operands[1].shape) > 0;
  if (!fits) why = "needs an input [N, C, ...] and weights with as many axes";
  return fits;
}

Shape conv_shape(const FloatOperator& op, std::string& why) {
  if (!has_weights(op, why)) return {};
  const Shape &x = op.operands[0].shape, &w = op.operands[1].shape;
  const std::int64_t groups = op.integer("group", 1);
  if (groups < 1 || w[0] % groups != 0 || x[1] != w[1] * groups)
    why = "has weights that do not fit its input";
  has_bias(op, 2, w[0], why);
  if (!why.empty()) return {};
  const Window window = resolve_window(op, x, kernel_of(op), why);
  Shape shape{x[0], w[0]};
  shape.insert(shape.end(), window.extent.begin(), window.extent.end());
  return shape;
}

/// Advances a position inside `extent`, the last axis first.
void step(Shape& at, const Shape& extent) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < extent[i]) break;
    at[i] = 0;
  }
}

/// Adds weight * x for one tap of the window to all results of one output plane.
void add_tap(const Window& w, const Shape& input, const Shape& tap, float weight, const float* x,
             float* out) {
  const std::size_t last = w.extent.size() - 1;
  // Compute the range [from, to) of results in a row for which this tap lies inside the input.
  const std::int64_t shift = tap[last] * w.dilation[last] - w.begin[last], stride = w.stride[last];
  const std::int64_t width = input[last + 2];
  const std::int64_t from = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t to = std::min(w.extent[last], width - shift <= 0 ? 0 : (width - shift - 1) / stride + 1);
  Shape outer(w.extent.begin(), w.extent.end() - 1);
  Shape at(last, 0);
  const std::int64_t rows = elements(outer);
  for (std::int64_t r = 0; r < rows; ++r, step(at, outer)) {
    std::int64_t offset = 0;
    bool inside = true;
    for (std::size_t i = 0; i < last; ++i) {
      const std::int64_t position = at[i] * w.stride[i] - w.begin[i] + tap[i] * w.dilation[i];
      inside = inside && position >= 0 && position < input[i + 2];
      offset = offset * input[i + 2] + position;
    }
    if (!inside) continue;
    const float* const row = x + offset * width;
    float* const results = out + r * w.extent[last];
    if (stride == 1)
      for (std::int64_t i = from; i < to; ++i) results[i] += weight * row[i + shift];
    else
      for (std::int64_t i = from; i < to; ++i) results[i] += weight * row[i * stride + shift];
  }
}

void conv(const Call& c) {
  std::string why;
  const Shape &x = c.shape(0), &w = c.shape(1);
  const Shape kernel = kernel_of(c.op);
  const Window window = resolve_window(c.op, x, kernel, why);
  const std::int64_t groups = c.op.integer("group", 1), group_out = w[0] / groups;
  const std::int64_t plane = elements(x) / (x[0] * x[1]), results = elements(window.extent),
                     taps = elements(kernel);
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t o = 0; o < w[0]; ++o) {
      float* const out = c.result + (n * w[0] + o) * results;
      std::fill(out, out + results, 0.0F);
      for (std::int64_t i = 0; i < w[1]; ++i) {
        const float* const in = c.inputs[0].floats + (n * x[1] + o / group_out * w[1] + i) * plane;
        const float* const weights = c.inputs[1].floats + (o * w[1] + i) * taps;
        Shape tap(kernel.size(), 0);
        for (std::int64_t t = 0; t < taps; ++t, step(tap, kernel))
          add_tap(window, x, tap, weights[t], in, out);
      }
      if (c.has(2))
        for (std::int64_t i = 0; i < results; ++i) out[i] += c.inputs[2].floats[o];
    }
}

/// The attributes of a ConvTranspose. `begin` is the number of rows or columns that padding cuts off at the front of
/// the result.
struct Transposed {
  Shape kernel, stride, dilation, begin, extent;
};

Transposed transposed_window(const FloatOperator& op, std::string& why) {
  const Shape& x = op.operands[0].shape;
  Transposed t;
  t.kernel = kernel_of(op);
  const std::size_t axes = t.kernel.size();
  const auto list = [&](const char* name, std::size_t count, std::int64_t otherwise, std::int64_t least) {
    Shape values = op.integers(name, Shape(count, otherwise));
    for (const std::int64_t v : values)
      if (v < least || v > 65535) why = std::string("attribute '") + name + "' is out of range";
    if (values.size() != count) why = std::string("attribute '") + name + "' has the wrong length";
    values.resize(count, otherwise);
    return values;
  };
  t.stride = list("strides", axes, 1, 1);
  t.dilation = list("dilations", axes, 1, 1);
  const Shape pads = list("pads", 2 * axes, 0, 0), extra = list("output_padding", axes, 0, 0);
  const Shape wanted = list("output_shape", axes, 0, 0);
  const std::string_view mode = op.text("auto_pad", "NOTSET");
  for (std::size_t i = 0; i < axes && why.empty(); ++i) {
    const std::int64_t full = t.stride[i] * (x[i + 2] - 1) + extra[i] + (t.kernel[i] - 1) * t.dilation[i] + 1;
    std::int64_t begin = pads[i], end = pads[i + axes];
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (wanted[i] > 0 || same) {
      const std::int64_t size = wanted[i] > 0 ? wanted[i] : x[i + 2] * t.stride[i];
      const std::int64_t total = std::max<std::int64_t>(0, full - size);
      begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
    }
    t.begin.push_back(begin);
    t.extent.push_back(full - begin - end);
    if (t.extent.back() < 1) why = "has padding that leaves no result";
  }
  return t;
}

Shape transposed_shape(const FloatOperator& op, std::string& why) {
  if (!has_weights(op, why)) return {};
  const Shape &x = op.operands[0].shape, &w = op.operands[1].shape;
  const std::int64_t groups = op.integer("group", 1);
  if (groups < 1 || groups > 65535 || x[1] != w[0] || w[0] % groups != 0)
    why = "has weights that do not fit its input";
  if (why.empty()) has_bias(op, 2, w[1] * groups, why);
  if (!why.empty()) return {};
  const Transposed t = transposed_window(op, why);
  Shape shape{x[0], w[1] * groups};
  shape.insert(shape.end(), t.extent.begin(), t.extent.end());
  return shape;
}

void conv_transpose(const Call& c) {
  std::string why;
  const Shape &x = c.shape(0), &w = c.shape(1), &y = c.op.shape;
  const Transposed t = transposed_window(c.op, why);
  const std::int64_t groups = c.op.integer("group", 1), group_in = w[0] / groups;
  const std::int64_t taps = elements(t.kernel), results = elements(t.extent);
  const Shape spatial(x.begin() + 2, x.end());
  const std::int64_t plane = elements(spatial);
  for (std::int64_t i = 0; i < x[0] * y[1]; ++i)
    std::fill(c.result + i * results, c.result + (i + 1) * results,
              c.has(2) ? c.inputs[2].floats[i % y[1]] : 0.0F);
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t i = 0; i < w[0]; ++i)
      for (std::int64_t o = 0; o < w[1]; ++o) {
        float* const out = c.result + (n * y[1] + i / group_in * w[1] + o) * results;
        const float* const in = c.inputs[0].floats + (n * x[1] + i) * plane;
        const float* const weights = c.inputs[1].floats + (i * w[1] + o) * taps;
        Shape at(spatial.size(), 0);
        for (std::int64_t p = 0; p < plane; ++p, step(at, spatial)) {
          Shape tap(t.kernel.size(), 0);
          for (std::int64_t k = 0; k < taps; ++k, step(tap, t.kernel)) {
            std::int64_t offset = 0;
            bool inside = true;
            for (std::size_t a = 0; a < at.size(); ++a) {
              const std::int64_t position = at[a] * t.stride[a] - t.begin[a] + tap[a] * t.dilation[a];
              inside = inside && position >= 0 && position < t.extent[a];
              offset = offset * t.extent[a] + position;
            }
            if (inside) out[offset] += in[p] * weights[k];
          }
        }
      }
}

/// A matrix in memory, an operand of multiply(). The product out[m][n] = sum over k of a[m][k] * b[k][n] is added in
/// ascending order of k.
struct Matrix {
  const float* floats;
  std::int64_t row, column;  // strides
};
void multiply(Matrix a, Matrix b, float* out, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  for (std::int64_t m = 0; m < rows; ++m) {
    float* const row = out + m * columns;
    std::fill(row, row + columns, 0.0F);
    for (std::int64_t k = 0; k < inner; ++k) {
      const float factor = a.floats[m * a.row + k * a.column];
      const float* const from = b.floats + k * b.row;
      if (b.column == 1)
        for (std::int64_t n = 0; n < columns; ++n) row[n] += factor * from[n];
      else
        for (std::int64_t n = 0; n < columns; ++n) row[n] += factor * from[n * b.column];
    }
  }
}

/// The shapes of a MatMul's operands, where a vector counts as a matrix with one row or column. `leading` is the shape
/// to which the axes before the last two broadcast.
struct Stacks {
  Shape a, b, leading;
};

std::optional<Stacks> stacks(const FloatOperator& op) {
  Stacks s{op.operands[0].shape, op.operands[1].shape, {}};
  if (s.a.empty() || s.b.empty()) return std::nullopt;
  if (s.a.size() == 1) s.a.insert(s.a.begin(), 1);
  if (s.b.size() == 1) s.b.push_back(1);
  const auto leading = broadcast({s.a.begin(), s.a.end() - 2}, {s.b.begin(), s.b.end() - 2});
  if (!leading || s.a.back() != s.b[s.b.size() - 2]) return std::nullopt;
  s.leading = *leading;
  return s;
}

Shape matmul_shape(const FloatOperator& op, std::string& why) {
  const bool floats = op.operands.size() == 2 && is_float(op, 0) && is_float(op, 1);
  const auto s = floats ? stacks(op) : std::nullopt;
  if (!s) {
    why = "needs two float32 operands whose matrices can be multiplied";
    return {};
  }
  Shape shape = s->leading;
  if (op.operands[0].shape.size() > 1) shape.push_back(s->a[s->a.size() - 2]);
  if (op.operands[1].shape.size() > 1) shape.push_back(s->b.back());
  return shape;
}

/// Returns the strides of a stack of matrices along all its axes except the last two. An axis along which the stack is
/// repeated has stride 0.
Shape leading_strides(const Shape& stack, std::size_t leading) {
  const Shape own = strides_of(stack);
  Shape strides(leading, 0);
  for (std::size_t i = 0; i + 2 < stack.size(); ++i)
    if (stack[i] != 1) strides[leading - (stack.size() - 2) + i] = own[i];
  return strides;
}

void matmul(const Call& c) {
  const Stacks s = *stacks(c.op);
  const std::int64_t rows = s.a[s.a.size() - 2], inner = s.a.back(), columns = s.b.back();
  std::vector<std::size_t> of_b;
  for_each_offset(s.leading, leading_strides(s.b, s.leading.size()),
                  [&](std::size_t, std::size_t offset) { of_b.push_back(offset); });
  for_each_offset(s.leading, leading_strides(s.a, s.leading.size()), [&](std::size_t i, std::size_t offset) {
    multiply({c.inputs[0].floats + offset, inner, 1}, {c.inputs[1].floats + of_b[i], columns, 1},
             c.result + static_cast<std::int64_t>(i) * rows * columns, rows, inner, columns);
  });
}

Shape gemm_shape(const FloatOperator& op, std::string& why) {
  const bool matrices = is_float(op, 0) && is_float(op, 1) && op.operands[0].shape.size() == 2 &&
                        op.operands[1].shape.size() == 2;
  if (!matrices) {
    why = "needs two matrices";
    return {};
  }
  Shape a = op.operands[0].shape, b = op.operands[1].shape;
  if (op.integer("transA", 0) != 0) std::swap(a[0], a[1]);
  if (op.integer("transB", 0) != 0) std::swap(b[0], b[1]);
  const Shape shape{a[0], b[1]};
  if (a[1] != b[0] || (is_float(op, 2) && broadcast(op.operands[2].shape, shape) != shape))
    why = "has operands that do not fit";
  return shape;
}

void gemm(const Call& c) {
  const bool turned_a = c.op.integer("transA", 0) != 0, turned_b = c.op.integer("transB", 0) != 0;
  const Shape &a = c.shape(0), &b = c.shape(1), &y = c.op.shape;
  const Matrix left{c.inputs[0].floats, turned_a ? 1 : a[1], turned_a ? a[1] : 1};
  const Matrix right{c.inputs[1].floats, turned_b ? 1 : b[1], turned_b ? b[1] : 1};
  multiply(left, right, c.result, y[0], turned_a ? a[0] : a[1], y[1]);
  const float alpha = c.op.real("alpha", 1.0F), beta = c.op.real("beta", 1.0F);
  Shape strides(2, 0);
  if (c.has(2)) {
    const Shape& shape = c.shape(2);
    const Shape own = strides_of(shape);
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1) strides[2 - shape.size() + i] = own[i];
  }
  for_each_offset(y, strides, [&](std::size_t i, std::size_t from) {
    c.result[i] *= alpha;
    if (c.has(2)) c.result[i] += beta * c.inputs[2].floats[from];
  });
}

constexpr Rule kProductRules[] = {
    {"Conv", conv_shape, conv},
    {"ConvTranspose", transposed_shape, conv_transpose},
    {"MatMul", matmul_shape, matmul},
    {"Gemm", gemm_shape, gemm},
};

}  // namespace

std::span<const Rule> products() {
  return kProductRules;
}

}  // namespace millrace::kernels::host
