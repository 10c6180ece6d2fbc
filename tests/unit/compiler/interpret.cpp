// This source has more than 500 lines because it defines every ONNX operator that the compiler supports.
#include "interpret.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "compiler/graph/graph.hpp"

namespace millrace::tests {
namespace {

namespace cg = compiler::graph;

struct Array {
  cg::Shape shape;
  std::vector<double> data;
  std::int64_t dim(std::size_t i) const { return shape[i]; }
};

std::int64_t product(const cg::Shape& s, std::size_t from, std::size_t to) {
  std::int64_t n = 1;
  for (std::size_t i = from; i < to; ++i) n *= s[i];
  return n;
}

class Interpreter {
 public:
  explicit Interpreter(const cg::Graph& graph) : graph_(graph), values_(graph.values.size()) {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const cg::Value& v = graph.values[i];
      if (v.constant == nullptr) continue;
      values_[i].shape = v.shape;
      values_[i].data.assign(v.constant->floats.begin(), v.constant->floats.end());
      if (!v.type.is_float())
        values_[i].data.assign(v.constant->integers.begin(), v.constant->integers.end());
    }
  }

  std::vector<double> run(const std::vector<float>& input) {
    values_[graph_.inputs[0]] = {graph_.value(graph_.inputs[0]).shape, {input.begin(), input.end()}};
    for (const cg::Node& n : graph_.nodes) {
      node_ = &n;
      op_ = &std::get<cg::OnnxOperator>(n.operation);
      Array y = evaluate();
      y.shape = graph_.value(n.outputs[0]).shape;
      values_[n.outputs[0]] = std::move(y);
    }
    return values_[graph_.outputs[0]].data;
  }

 private:
  bool has(std::size_t i) const { return i < node_->inputs.size() && node_->inputs[i] != cg::kNoValue; }
  const Array& in(std::size_t i) const { return values_[node_->inputs[i]]; }
  double zero(std::size_t i, std::size_t c = 0) const {
    return has(i) ? in(i).data[in(i).data.size() == 1 ? 0 : c] : 0;
  }
  cg::Type type() const { return graph_.value(node_->outputs[0]).type; }

  Array map(const Array& x, const std::function<double(double)>& f) const {
    Array y = x;
    for (double& v : y.data) v = f(v);
    return y;
  }

  double quantise(double x, double scale, double z) const {
    const double q =
        std::nearbyint(static_cast<double>(static_cast<float>(x) / static_cast<float>(scale))) + z;
    return std::min(std::max(q, static_cast<double>(type().lowest())), static_cast<double>(type().highest()));
  }

  /// Applies `f(element, channel)` to every element. If there are several channels, they are along the operator's axis.
  Array per_channel(const Array& x, std::size_t channels,
                    const std::function<double(double, std::size_t)>& f) const {
    std::int64_t axis = op_->integer("axis", 1);
    if (axis < 0) axis += static_cast<std::int64_t>(x.shape.size());
    const std::int64_t inner =
        channels == 1 ? 1 : product(x.shape, static_cast<std::size_t>(axis) + 1, x.shape.size());
    Array y = x;
    for (std::size_t i = 0; i < y.data.size(); ++i)
      y.data[i] =
          f(y.data[i],
            channels == 1 ? 0 : static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner) % channels);
    return y;
  }

  Array binary(const std::function<double(double, double)>& f) const {
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    Array y{shape, {}};
    const auto at = [&shape](const Array& a, std::int64_t i) {
      std::int64_t index = 0, stride = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::size_t from_end = shape.size() - 1 - d;
        const std::int64_t coordinate = i % shape[from_end];
        i /= shape[from_end];
        if (d >= a.shape.size()) continue;
        const std::int64_t extent = a.shape[a.shape.size() - 1 - d];
        if (extent != 1) index += coordinate * stride;
        stride *= extent;
      }
      return a.data[static_cast<std::size_t>(index)];
    };
    for (std::int64_t i = 0; i < cg::elements(shape); ++i) y.data.push_back(f(at(in(0), i), at(in(1), i)));
    return y;
  }

  /// Returns, for each position of the window, the sum of (x - zx) * (w - zw). `bias` is added if it is not null.
  Array convolve(const Array& x, const Array& w, double zx, std::size_t zw_input, const Array* bias) const {
    std::string why;
    const bool line = x.shape.size() == 3;
    const auto window = cg::resolve_window(*op_, x.shape, {w.shape.begin() + 2, w.shape.end()}, why);
    const kernels::Window g = window->window;
    const std::int64_t groups = op_->integer("group", 1), depth = w.dim(1), each = w.dim(0) / groups;
    const std::int64_t h = line ? 1 : x.dim(2), wide = x.shape.back();
    Array y;
    for (std::int64_t o = 0; o < w.dim(0); ++o)
      for (std::int64_t oy = 0; oy < window->out_h; ++oy)
        for (std::int64_t ox = 0; ox < window->out_w; ++ox) {
          double sum = bias == nullptr ? 0 : bias->data[static_cast<std::size_t>(o)];
          for (std::int64_t i = 0; i < depth; ++i)
            for (std::int64_t ky = 0; ky < g.kernel_h; ++ky)
              for (std::int64_t kx = 0; kx < g.kernel_w; ++kx) {
                const std::int64_t iy = oy * g.stride_h - g.pad_top + ky * g.dilation_h,
                                   ix = ox * g.stride_w - g.pad_left + kx * g.dilation_w;
                if (iy < 0 || iy >= h || ix < 0 || ix >= wide) continue;
                const std::int64_t c = o / each * depth + i;
                const double weight =
                    w.data[static_cast<std::size_t>(((o * depth + i) * g.kernel_h + ky) * g.kernel_w + kx)];
                sum += (x.data[static_cast<std::size_t>((c * h + iy) * wide + ix)] - zx) *
                       (weight - zero(zw_input, static_cast<std::size_t>(o)));
              }
          y.data.push_back(sum);
        }
    return y;
  }

  Array multiply(const Array& a, const Array& b, bool transposed, double za, std::size_t zb_input,
                 const Array* c) const {
    const std::int64_t k = a.shape.back(), rows = static_cast<std::int64_t>(a.data.size()) / k;
    const std::int64_t columns = static_cast<std::int64_t>(b.data.size()) / k;
    const auto alpha = static_cast<double>(op_->real("alpha", 1.0F));  // of Gemm
    const auto beta = static_cast<double>(op_->real("beta", 1.0F));
    Array y;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t o = 0; o < columns; ++o) {
        double sum = c == nullptr ? 0 : beta * c->data[c->data.size() == 1 ? 0 : static_cast<std::size_t>(o)];
        for (std::int64_t i = 0; i < k; ++i)
          sum += alpha * (a.data[static_cast<std::size_t>(r * k + i)] - za) *
                 (b.data[static_cast<std::size_t>(transposed ? o * k + i : i * columns + o)] -
                  zero(zb_input, static_cast<std::size_t>(o)));
        y.data.push_back(sum);
      }
    return y;
  }

  static Array turned(const Array& matrix) {
    Array y{{matrix.dim(1), matrix.dim(0)}, {}};
    for (std::int64_t i = 0; i < matrix.dim(1); ++i)
      for (std::int64_t k = 0; k < matrix.dim(0); ++k)
        y.data.push_back(matrix.data[static_cast<std::size_t>(k * matrix.dim(1) + i)]);
    return y;
  }

  /// Multiplies each matrix of [.., M, K] by the corresponding matrix of [.., K, N].
  Array multiply_batch() const {
    const Array &a = in(0), &b = in(1);
    const std::int64_t k = a.shape.back(), n = b.shape.back(), m = a.dim(a.shape.size() - 2);
    Array y;
    for (std::int64_t batch = 0; batch < static_cast<std::int64_t>(b.data.size()) / (k * n); ++batch)
      for (std::int64_t r = 0; r < m; ++r)
        for (std::int64_t o = 0; o < n; ++o) {
          double sum = 0;
          for (std::int64_t i = 0; i < k; ++i)
            sum += a.data[static_cast<std::size_t>((batch * m + r) * k + i)] *
                   b.data[static_cast<std::size_t>((batch * k + i) * n + o)];
          y.data.push_back(sum);
        }
    return y;
  }

  /// A convolution over three axes with strides and pads, without dilation.
  Array convolve_solid() const {
    const Array &x = in(0), &w = in(1);
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    const auto stride = op_->integers("strides", {1, 1, 1}), pad = op_->integers("pads", {0, 0, 0, 0, 0, 0});
    const std::int64_t each = w.dim(0) / op_->integer("group", 1);
    Array y;
    for (std::int64_t at = 0; at < cg::elements(shape); ++at) {
      const std::int64_t p[3] = {at / (shape[3] * shape[4]) % shape[2], at / shape[4] % shape[3],
                                 at % shape[4]};
      const std::int64_t o = at / (shape[2] * shape[3] * shape[4]);
      double sum = has(2) ? in(2).data[static_cast<std::size_t>(o)] : 0;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(w.data.size()) / w.dim(0); ++i) {
        const std::int64_t tap[3] = {i / (w.dim(3) * w.dim(4)) % w.dim(2), i / w.dim(4) % w.dim(3),
                                     i % w.dim(4)};
        std::int64_t from = o / each * w.dim(1) + i / (w.dim(2) * w.dim(3) * w.dim(4));
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::int64_t position = p[d] * stride[d] - pad[d] + tap[d];
          inside = inside && position >= 0 && position < x.dim(2 + d);
          from = from * x.dim(2 + d) + position;
        }
        if (inside)
          sum +=
              x.data[static_cast<std::size_t>(from)] *
              w.data[static_cast<std::size_t>(o * static_cast<std::int64_t>(w.data.size()) / w.dim(0) + i)];
      }
      y.data.push_back(sum);
    }
    return y;
  }

  /// Computes ConvTranspose: every input pixel, multiplied by the weights, is added to the output pixels around it. A
  /// shape [C, W] is treated as [C, 1, W].
  Array convolve_transposed() const {
    const Array &x = in(0), &w = in(1);
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    const std::size_t n = shape.size() - 2;
    const auto list = [&](const char* name, std::int64_t otherwise) {
      auto values = op_->integers(name, std::vector<std::int64_t>(2 * n, otherwise));
      if (n == 1) values.insert(values.begin(), otherwise);
      return values;
    };
    const auto stride = list("strides", 1), dilation = list("dilations", 1), pad = list("pads", 0);
    const auto last2 = [n](const cg::Shape& s) {
      return n == 1 ? std::pair(std::int64_t{1}, s[2]) : std::pair(s[2], s[3]);
    };
    const auto [h, wide] = last2(x.shape);
    const auto [out_h, out_w] = last2(shape);
    const auto [kh, kw] = last2(w.shape);
    const std::int64_t groups = op_->integer("group", 1), each = w.dim(1), depth = x.dim(1) / groups;
    Array y;
    for (std::int64_t o = 0; o < shape[1]; ++o)
      y.data.insert(y.data.end(), static_cast<std::size_t>(out_h * out_w),
                    has(2) ? in(2).data[static_cast<std::size_t>(o)] : 0.0);
    for (std::int64_t c = 0; c < x.dim(1); ++c)
      for (std::int64_t i = 0; i < h * wide; ++i)
        for (std::int64_t k = 0; k < each * kh * kw; ++k) {
          const std::int64_t oy = i / wide * stride[0] + k / kw % kh * dilation[0] - pad[0];
          const std::int64_t ox = i % wide * stride[1] + k % kw * dilation[1] - pad[1];
          if (oy < 0 || oy >= out_h || ox < 0 || ox >= out_w) continue;
          const std::int64_t o = c / depth * each + k / (kh * kw);
          y.data[static_cast<std::size_t>((o * out_h + oy) * out_w + ox)] +=
              x.data[static_cast<std::size_t>(c * h * wide + i)] *
              w.data[static_cast<std::size_t>(c * each * kh * kw + k)];
        }
    return y;
  }

  Array reduce(const std::string& type) const {
    const Array& x = in(0);
    auto axes = op_->integers("axes", {});
    if (has(1)) axes.assign(in(1).data.begin(), in(1).data.end());
    std::vector<bool> reduced(x.shape.size(), axes.empty());
    for (const std::int64_t a : axes)
      reduced[static_cast<std::size_t>(a < 0 ? a + static_cast<std::int64_t>(x.shape.size()) : a)] = true;
    std::int64_t count = 1;
    for (std::size_t d = 0; d < reduced.size(); ++d) count *= reduced[d] ? x.shape[d] : 1;
    Array y;
    const bool largest = type == "ReduceMax", least = type == "ReduceMin";
    y.data.assign(x.data.size() / static_cast<std::size_t>(count), largest ? -HUGE_VAL
                                                                   : least ? HUGE_VAL
                                                                           : 0.0);
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      std::size_t rest = i, to = 0, stride = 1;
      for (std::size_t d = reduced.size(); d-- > 0;) {
        const auto extent = static_cast<std::size_t>(x.shape[d]);
        if (!reduced[d]) to += rest % extent * stride, stride *= extent;
        rest /= extent;
      }
      y.data[to] = largest ? std::max(y.data[to], x.data[i])
                   : least ? std::min(y.data[to], x.data[i])
                           : y.data[to] + x.data[i];
    }
    if (type == "ReduceMean")
      for (double& v : y.data) v /= static_cast<double>(count);
    return y;
  }

  /// Returns the function of one element that ONNX defines for the operator `t`, or null if `t` is no such operator.
  std::function<double(double)> unary(const std::string& t) const {
    const auto a = [this](const char* name, double otherwise) {
      return static_cast<double>(op_->real(name, static_cast<float>(otherwise)));
    };
    const double alpha = a("alpha", t == "Selu" ? 1.6732631921768188 : t == "HardSigmoid" ? 0.2 : 1.0);
    if (t == "Tanh") return [](double x) { return std::tanh(x); };
    if (t == "HardSigmoid")
      return [alpha, beta = a("beta", 0.5)](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); };
    if (t == "Elu") return [alpha](double x) { return x < 0 ? alpha * std::expm1(x) : x; };
    if (t == "Celu") return [alpha](double x) { return x < 0 ? alpha * std::expm1(x / alpha) : x; };
    if (t == "Selu")
      return [alpha, gamma = a("gamma", 1.0507010221481323)](double x) {
        return gamma * (x < 0 ? alpha * std::expm1(x) : x);
      };
    if (t == "Softplus") return [](double x) { return std::log1p(std::exp(x)); };
    if (t == "Softsign") return [](double x) { return x / (1 + std::abs(x)); };
    if (t == "Mish") return [](double x) { return x * std::tanh(std::log1p(std::exp(x))); };
    if (t == "Gelu" && op_->text("approximate", "none") == "tanh")
      return [](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      };
    if (t == "Gelu") return [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); };
    if (t == "Erf") return [](double x) { return std::erf(x); };
    if (t == "Exp") return [](double x) { return std::exp(x); };
    if (t == "Log") return [](double x) { return std::log(x); };
    if (t == "Sqrt") return [](double x) { return std::sqrt(x); };
    if (t == "Reciprocal") return [](double x) { return 1 / x; };
    if (t == "Abs") return [](double x) { return std::abs(x); };
    if (t == "Neg") return [](double x) { return -x; };
    if (t == "Floor") return [](double x) { return std::floor(x); };
    if (t == "Ceil") return [](double x) { return std::ceil(x); };
    if (t == "Round") return [](double x) { return std::nearbyint(x); };
    if (t == "Sign") return [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; };
    if (t == "Sin") return [](double x) { return std::sin(x); };
    if (t == "Cos") return [](double x) { return std::cos(x); };
    if (t == "Tan") return [](double x) { return std::tan(x); };
    if (t == "Asin") return [](double x) { return std::asin(x); };
    if (t == "Acos") return [](double x) { return std::acos(x); };
    if (t == "Atan") return [](double x) { return std::atan(x); };
    if (t == "Sinh") return [](double x) { return std::sinh(x); };
    if (t == "Cosh") return [](double x) { return std::cosh(x); };
    if (t == "Asinh") return [](double x) { return std::asinh(x); };
    if (t == "Acosh") return [](double x) { return std::acosh(x); };
    if (t == "Atanh") return [](double x) { return std::atanh(x); };
    if (t == "Swish") return [alpha](double x) { return x / (1 + std::exp(-alpha * x)); };
    if (t == "Shrink")
      return [bias = a("bias", 0), lambda = a("lambd", 0.5)](double x) {
        return x < -lambda ? x + bias : x > lambda ? x - bias : 0.0;
      };
    if (t == "ThresholdedRelu") return [alpha](double x) { return x > alpha ? x : 0.0; };
    return nullptr;
  }

  Array pool(bool largest, bool global) const {
    Array x = in(0);
    if (global && x.shape.size() == 3) x.shape.insert(x.shape.begin() + 2, 1);
    std::string why;
    cg::ResolvedWindow w;
    if (global)
      w.window = {static_cast<std::uint32_t>(x.dim(2)), static_cast<std::uint32_t>(x.dim(3))},
      w.out_h = w.out_w = 1;
    else
      w = *cg::resolve_window(*op_, x.shape, op_->integers("kernel_shape", {}), why);
    if (x.shape.size() == 3) x.shape.insert(x.shape.begin() + 2, 1);
    const kernels::Window g = w.window;
    Array y;
    for (std::int64_t c = 0; c < x.dim(1); ++c)
      for (std::int64_t oy = 0; oy < w.out_h; ++oy)
        for (std::int64_t ox = 0; ox < w.out_w; ++ox) {
          double most = -HUGE_VAL, sum = 0, inside = 0, padded = 0;
          for (std::int64_t ky = 0; ky < g.kernel_h; ++ky)
            for (std::int64_t kx = 0; kx < g.kernel_w; ++kx) {
              const std::int64_t iy = oy * g.stride_h - g.pad_top + ky * g.dilation_h,
                                 ix = ox * g.stride_w - g.pad_left + kx * g.dilation_w;
              // The padding ends where the attribute pads says, even if ceil_mode adds a window that reaches beyond it.
              const auto pads = op_->integers("pads", {0, 0, 0, 0});
              const std::int64_t below = pads[pads.size() / 2], right = pads.back();
              padded += iy < x.dim(2) + below && ix < x.dim(3) + right ? 1 : 0;
              if (iy < 0 || iy >= x.dim(2) || ix < 0 || ix >= x.dim(3)) continue;
              ++inside;
              const double v = x.data[static_cast<std::size_t>((c * x.dim(2) + iy) * x.dim(3) + ix)];
              most = std::max(most, v);
              sum += v;
            }
          y.data.push_back(largest ? most
                                   : sum / (op_->integer("count_include_pad", 0) != 0 ? padded : inside));
        }
    return y;
  }

  Array transpose() const {
    const Array& x = in(0);
    const std::vector<std::int64_t> perm = op_->integers("perm", {});
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    Array y;
    for (std::int64_t i = 0; i < cg::elements(shape); ++i) {
      std::int64_t rest = i, from = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        const auto axis = static_cast<std::size_t>(perm[d]);
        from += rest % shape[d] * product(x.shape, axis + 1, x.shape.size());
        rest /= shape[d];
      }
      y.data.push_back(x.data[static_cast<std::size_t>(from)]);
    }
    return y;
  }

  using Indices = std::vector<std::int64_t>;

  /// Selects elements of the first input. For each element of the output, `from` gets the element's indices and
  /// returns the indices of the input element to copy.
  Array pick(const std::function<Indices(const Indices&)>& from) const {
    const Array& x = in(0);
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    Array y;
    for (std::int64_t i = 0; i < cg::elements(shape); ++i) {
      Indices at(shape.size());
      std::int64_t rest = i, index = 0;
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) at[d] = rest % shape[d];
      const Indices source = from(at);
      for (std::size_t d = 0; d < source.size(); ++d) index = index * x.shape[d] + source[d];
      y.data.push_back(x.data.at(static_cast<std::size_t>(index)));
    }
    return y;
  }

  Indices numbers(std::size_t i, const char* attribute) const {
    if (!has(i)) return op_->integers(attribute, {});
    Indices values;
    for (const double v : in(i).data)
      values.push_back(v >= 9e18 ? INT64_MAX : v <= -9e18 ? INT64_MIN : static_cast<std::int64_t>(v));
    return values;
  }

  Array slice() const {
    const Indices starts = numbers(1, "starts"), axes = numbers(3, "axes");
    const Indices steps = has(4) ? numbers(4, "") : Indices(starts.size(), 1);
    return pick([&](const Indices& at) {
      Indices from = at;
      for (std::size_t k = 0; k < starts.size(); ++k) {
        const std::int64_t rank = static_cast<std::int64_t>(at.size());
        const auto axis = static_cast<std::size_t>(axes[k] < 0 ? axes[k] + rank : axes[k]);
        const std::int64_t extent = in(0).shape[axis];
        std::int64_t start = starts[k] < 0 ? starts[k] + extent : starts[k];
        start = std::max<std::int64_t>(0, std::min(start, steps[k] > 0 ? extent : extent - 1));
        from[axis] = start + at[axis] * steps[k];
      }
      return from;
    });
  }

  Array gather() const {
    const auto axis = static_cast<std::size_t>(op_->integer("axis", 0));
    return pick([&](const Indices& at) {
      Indices from(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(axis));
      std::int64_t entry = 0;
      const std::size_t rank = in(1).shape.size();
      for (std::size_t d = 0; d < rank; ++d) entry = entry * in(1).shape[d] + at[axis + d];
      const auto index = static_cast<std::int64_t>(in(1).data[static_cast<std::size_t>(entry)]);
      from.push_back(index < 0 ? index + in(0).shape[axis] : index);
      from.insert(from.end(), at.begin() + static_cast<std::ptrdiff_t>(axis + rank), at.end());
      return from;
    });
  }

  /// Computes Expand, Tile, and a Resize that repeats every element. The shapes of input and output say how often
  /// elements are repeated.
  Array repeat(bool neighbours) const {
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    return pick([&](const Indices& at) {
      Indices from;
      for (std::size_t d = 0; d < at.size(); ++d)
        from.push_back(neighbours ? at[d] / (shape[d] / in(0).shape[d]) : at[d] % in(0).shape[d]);
      return from;
    });
  }

  /// Computes a linear Resize of [1, C, H, W], which interpolates between the centres or the beginnings of pixels.
  Array resize_linearly() const {
    const cg::Shape &from = in(0).shape, &to = graph_.value(node_->outputs[0]).shape;
    const double half = op_->text("coordinate_transformation_mode", "half_pixel") == "asymmetric" ? 0 : 0.5;
    Array y;
    for (std::int64_t i = 0; i < cg::elements(to); ++i) {
      const std::int64_t at[2] = {i / to[3] % to[2], i % to[3]};
      double sum = 0;
      for (int corner = 0; corner < 4; ++corner) {
        double weight = 1;
        std::int64_t index = i / (to[2] * to[3]);
        for (std::size_t d = 0; d < 2; ++d) {
          const auto extent = static_cast<double>(from[2 + d]);
          const double x =
              std::clamp((static_cast<double>(at[d]) + half) * extent / static_cast<double>(to[2 + d]) - half,
                         0.0, extent - 1);
          const bool upper = (corner >> d & 1) != 0;
          const double low = std::floor(x);
          weight *= upper ? x - low : 1 - (x - low);
          index =
              index * from[2 + d] + static_cast<std::int64_t>(std::min(low + (upper ? 1 : 0), extent - 1));
        }
        sum += weight * in(0).data[static_cast<std::size_t>(index)];
      }
      y.data.push_back(sum);
    }
    return y;
  }

  Array where() const {
    Array chosen = binary([](double condition, double x) { return condition != 0 ? x : NAN; });
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    const Array& other = in(2);
    for (std::size_t i = 0; i < chosen.data.size(); ++i)
      if (std::isnan(chosen.data[i]))
        chosen.data[i] = other.data[other.data.size() == 1 ? 0 : i % other.data.size()];
    chosen.shape = shape;
    return chosen;
  }

  /// ArgMax along the last axis.
  Array largest_index() const {
    const Array& x = in(0);
    Array y;
    for (auto row = x.data.begin(); row != x.data.end(); row += x.shape.back())
      y.data.push_back(static_cast<double>(std::max_element(row, row + x.shape.back()) - row));
    return y;
  }

  /// The element that a Pad puts at position `at` of an axis of `extent` elements.
  std::int64_t bordered(std::int64_t at, std::int64_t extent) const {
    const std::string mode = op_->text("mode", "constant");
    if (mode == "edge") return std::clamp<std::int64_t>(at, 0, extent - 1);
    if (mode == "wrap") return (at + extent) % extent;
    if (mode == "reflect") return at < 0 ? -at : at >= extent ? 2 * extent - 2 - at : at;
    return at;
  }

  Array pad() const {
    const Array& x = in(0);
    const Indices pads = numbers(1, "pads");
    const cg::Shape& shape = graph_.value(node_->outputs[0]).shape;
    const double value = has(2) ? in(2).data[0] : static_cast<double>(op_->real("value", 0));
    Array y;
    for (std::int64_t i = 0; i < cg::elements(shape); ++i) {
      std::int64_t rest = i, index = 0, stride = 1;
      bool inside = true;
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
        const std::int64_t at = bordered(rest % shape[d] - pads[d], x.shape[d]);
        inside = inside && at >= 0 && at < x.shape[d];
        index += at * stride;
        stride *= x.shape[d];
      }
      y.data.push_back(inside ? x.data[static_cast<std::size_t>(index)] : value);
    }
    return y;
  }

  Array blocks(bool to_space) const {
    const std::int64_t b = op_->integer("blocksize", 1);
    const bool depth_first = op_->text("mode", "DCR") == "DCR";
    const std::int64_t channels = to_space ? in(0).dim(1) / (b * b) : in(0).dim(1);
    return pick([&](const Indices& at) -> Indices {
      if (!to_space) {
        const std::int64_t place = at[1] / channels;
        return {at[0], at[1] % channels, at[2] * b + place / b, at[3] * b + place % b};
      }
      const std::int64_t place = at[2] % b * b + at[3] % b;
      return {at[0], depth_first ? place * channels + at[1] : at[1] * b * b + place, at[2] / b, at[3] / b};
    });
  }

  Array concat() const {
    const std::int64_t given = op_->integer("axis", 1);
    const auto axis =
        static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(in(0).shape.size()) : given);
    Array y;
    const std::int64_t outer = product(in(0).shape, 0, axis);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::size_t i = 0; i < node_->inputs.size(); ++i) {
        const std::int64_t each = static_cast<std::int64_t>(in(i).data.size()) / outer;
        y.data.insert(y.data.end(), in(i).data.begin() + o * each, in(i).data.begin() + (o + 1) * each);
      }
    return y;
  }

  Array softmax() const {
    Array y = in(0);
    const double most = *std::max_element(y.data.begin(), y.data.end());
    double sum = 0;
    for (double& v : y.data) sum += v = std::exp(v - most);
    for (double& v : y.data) v /= sum;
    return y;
  }

  Array normalise() const {
    Array y = in(0);
    const std::int64_t inner = product(y.shape, 2, y.shape.size());
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      const std::size_t c = i / static_cast<std::size_t>(inner) % in(1).data.size();
      const float factor = static_cast<float>(in(1).data[c]) /
                           std::sqrt(static_cast<float>(in(4).data[c]) + op_->real("epsilon", 1e-5F));
      y.data[i] = y.data[i] * static_cast<double>(factor) +
                  (in(2).data[c] - in(3).data[c] * static_cast<double>(factor));
    }
    return y;
  }

  Array evaluate() const {
    const std::string& t = op_->type;
    if (t == "QuantizeLinear")
      return per_channel(in(0), in(1).data.size(),
                         [this](double x, std::size_t c) { return quantise(x, in(1).data[c], zero(2, c)); });
    if (t == "DequantizeLinear")
      return per_channel(in(0), in(1).data.size(),
                         [this](double q, std::size_t c) { return (q - zero(2, c)) * in(1).data[c]; });
    if (const auto function = unary(t)) return map(in(0), function);
    if (t.starts_with("Reduce")) return reduce(t);
    if (t == "PRelu") return binary([](double x, double slope) { return x < 0 ? x * slope : x; });
    if (t == "Min") return binary([](double a, double b) { return std::min(a, b); });
    if (t == "Max") return binary([](double a, double b) { return std::max(a, b); });
    if (t == "Pow") return binary([](double a, double b) { return std::pow(a, b); });
    if (t == "ConvTranspose") return convolve_transposed();
    if (t == "Conv" && in(0).shape.size() == 5) return convolve_solid();
    if (t == "MatMul" && in(1).shape.size() > 2) return multiply_batch();
    if (t == "Relu") return map(in(0), [](double x) { return std::max(x, 0.0); });
    if (t == "LeakyRelu")
      return map(in(0),
                 [this](double x) { return x < 0 ? x * static_cast<double>(op_->real("alpha", 0.01F)) : x; });
    if (t == "HardSwish")
      return map(in(0), [](double x) { return x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); });
    if (t == "Sigmoid") return map(in(0), [](double x) { return 1 / (1 + std::exp(-x)); });
    if (t == "Clip")
      return map(in(0), [this](double x) {
        return std::min(std::max(x, has(1) ? in(1).data[0] : -HUGE_VAL), has(2) ? in(2).data[0] : HUGE_VAL);
      });
    if (t == "Cast" || t == "Reshape" || t == "Flatten" || t == "Squeeze" || t == "Unsqueeze" ||
        t == "Identity" || t == "Dropout")
      return in(0);
    if (t == "Transpose") return transpose();
    if (t == "Concat") return concat();
    if (t == "Pad") return pad();
    if (t == "Slice") return slice();
    if (t == "Gather") return gather();
    if (t == "Expand" || t == "Tile") return repeat(false);
    if (t == "Resize" && op_->text("mode", "nearest") == "linear") return resize_linearly();
    if (t == "Resize" || t == "Upsample") return repeat(true);
    if (t == "Where") return where();
    if (t == "ArgMax") return largest_index();
    if (t == "DepthToSpace" || t == "SpaceToDepth") return blocks(t == "DepthToSpace");
    if (t == "Add" || t == "Sum") return binary([](double a, double b) { return a + b; });
    if (t == "Sub") return binary([](double a, double b) { return a - b; });
    if (t == "Mul") return binary([](double a, double b) { return a * b; });
    if (t == "Div") return binary([](double a, double b) { return a / b; });
    if (t == "Conv") return convolve(in(0), in(1), 0, 99, has(2) ? &in(2) : nullptr);
    if (t == "ConvInteger") return convolve(in(0), in(1), zero(2), 3, nullptr);
    if (t == "Gemm")
      return multiply(op_->integer("transA", 0) != 0 ? turned(in(0)) : in(0), in(1),
                      op_->integer("transB", 0) != 0, 0, 99, has(2) ? &in(2) : nullptr);
    if (t == "MatMul") return multiply(in(0), in(1), false, 0, 99, nullptr);
    if (t == "MatMulInteger") return multiply(in(0), in(1), false, zero(2), 3, nullptr);
    if (t == "MaxPool") return pool(true, false);
    if (t == "GlobalMaxPool") return pool(true, true);
    if (t == "AveragePool") return pool(false, false);
    if (t == "GlobalAveragePool") return pool(false, true);
    if (t == "Softmax") return softmax();
    if (t == "BatchNormalization") return normalise();
    throw std::runtime_error("the interpreter does not know " + t);
  }

  const cg::Graph& graph_;
  std::vector<Array> values_;
  const cg::Node* node_ = nullptr;
  const cg::OnnxOperator* op_ = nullptr;
};

}  // namespace

std::vector<double> interpret(const cg::Graph& graph, const std::vector<float>& input) {
  return Interpreter(graph).run(input);
}

}  // namespace millrace::tests
