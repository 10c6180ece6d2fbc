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
    const auto alpha = static_cast<double>(op_->real("alpha", 1.0F));  // an attribute of Gemm
    Array y;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t o = 0; o < columns; ++o) {
        double sum = c == nullptr ? 0 : c->data[c->data.size() == 1 ? 0 : static_cast<std::size_t>(o)];
        for (std::int64_t i = 0; i < k; ++i)
          sum += alpha * (a.data[static_cast<std::size_t>(r * k + i)] - za) *
                 (b.data[static_cast<std::size_t>(transposed ? o * k + i : i * columns + o)] -
                  zero(zb_input, static_cast<std::size_t>(o)));
        y.data.push_back(sum);
      }
    return y;
  }

  Array pool(bool largest, bool global) const {
    const Array& x = in(0);
    std::string why;
    cg::ResolvedWindow w;
    if (global)
      w.window = {static_cast<std::uint32_t>(x.dim(2)), static_cast<std::uint32_t>(x.dim(3))},
      w.out_h = w.out_w = 1;
    else
      w = *cg::resolve_window(*op_, x.shape, op_->integers("kernel_shape", {}), why);
    const kernels::Window g = w.window;
    Array y;
    for (std::int64_t c = 0; c < x.dim(1); ++c)
      for (std::int64_t oy = 0; oy < w.out_h; ++oy)
        for (std::int64_t ox = 0; ox < w.out_w; ++ox) {
          double most = -HUGE_VAL, sum = 0;
          for (std::int64_t ky = 0; ky < g.kernel_h; ++ky)
            for (std::int64_t kx = 0; kx < g.kernel_w; ++kx) {
              const std::int64_t iy = oy * g.stride_h - g.pad_top + ky * g.dilation_h,
                                 ix = ox * g.stride_w - g.pad_left + kx * g.dilation_w;
              if (iy < 0 || iy >= x.dim(2) || ix < 0 || ix >= x.dim(3)) continue;
              const double v = x.data[static_cast<std::size_t>((c * x.dim(2) + iy) * x.dim(3) + ix)];
              most = std::max(most, v);
              sum += v;
            }
          y.data.push_back(largest ? most : sum / static_cast<double>(g.kernel_h * g.kernel_w));
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

  Array concat() const {
    const auto axis = static_cast<std::size_t>(op_->integer("axis", 1));
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
    if (t == "Add") return binary([](double a, double b) { return a + b; });
    if (t == "Sub") return binary([](double a, double b) { return a - b; });
    if (t == "Mul") return binary([](double a, double b) { return a * b; });
    if (t == "Div") return binary([](double a, double b) { return a / b; });
    if (t == "Conv") return convolve(in(0), in(1), 0, 99, has(2) ? &in(2) : nullptr);
    if (t == "ConvInteger") return convolve(in(0), in(1), zero(2), 3, nullptr);
    if (t == "Gemm")
      return multiply(in(0), in(1), op_->integer("transB", 0) != 0, 0, 99, has(2) ? &in(2) : nullptr);
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
