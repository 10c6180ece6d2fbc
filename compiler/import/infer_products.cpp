#include <algorithm>

#include "compiler/graph/window.hpp"
#include "compiler/import/infer_rules.hpp"

namespace millrace::compiler::import::rules {

using graph::to_string;

namespace {

std::int64_t first_extent(const Shape& shape) {
  return shape.empty() ? 0 : shape[0];
}
std::int64_t last_extent(const Shape& shape) {
  return shape.empty() ? 0 : shape.back();
}

std::string convolve(Context& c, std::size_t x, std::size_t w) {
  if (c.rank(w) != c.rank(x) || c.rank(w) < 3)
    return "has weights of " + to_string(c.shape_of(w)) + " for an input of " + to_string(c.shape_of(x));
  const Shape& weights = c.shape_of(w);
  const std::vector<std::int64_t> kernel(weights.begin() + 2, weights.end());
  if (c.op.has("kernel_shape") && c.op.integers("kernel_shape", {}) != kernel)
    return "has a kernel_shape that is not its weights'";
  const std::int64_t groups = c.op.integer("group", 1);
  // Once groups divide the outputs, their product with anything is no larger than what shapes allow.
  if (groups < 1 || weights[0] < 1 || weights[0] % groups != 0 || c.shape_of(x)[1] != weights[1] * groups)
    return "has " + std::to_string(groups) + " groups, weights of " + to_string(weights) +
           " and an input of " + to_string(c.shape_of(x)) + ", which do not fit";
  std::string why;
  const auto window = graph::resolve_window(c.op, c.shape_of(x), kernel, why);
  if (!window) return why;
  c.shape = {c.shape_of(x)[0], weights[0]};
  if (kernel.size() == 2) c.shape.push_back(window->out_h);
  c.shape.push_back(window->out_w);
  return {};
}

std::string multiply_matrices(Context& c, std::size_t a, std::size_t b) {
  Shape x = c.shape_of(a), y = c.shape_of(b);
  if (x.empty() || y.size() < 2)
    return "multiplies " + to_string(x) + " by " + to_string(y) + ", which is not taken";
  if (x.back() != y[y.size() - 2])
    return "multiplies " + to_string(x) + " by " + to_string(y) + ", which do not fit";
  const bool vector = x.size() == 1;
  if (vector) x.insert(x.begin(), 1);
  const auto lead = broadcast(Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2));
  if (!lead) return "multiplies " + to_string(x) + " by " + to_string(y) + ", which do not fit";
  c.shape = *lead;
  if (!vector) c.shape.push_back(x[x.size() - 2]);
  c.shape.push_back(y.back());
  return {};
}

std::string gemm_shape(Context& c, std::size_t a, std::size_t b) {
  Shape x = c.shape_of(a), y = c.shape_of(b);
  if (x.size() != 2 || y.size() != 2)
    return "multiplies " + to_string(x) + " by " + to_string(y) + "; both must be matrices";
  if (c.op.integer("transA", 0) != 0) std::swap(x[0], x[1]);
  if (c.op.integer("transB", 0) != 0) std::swap(y[0], y[1]);
  if (x[1] != y[0]) return "multiplies " + to_string(x) + " by " + to_string(y) + ", which do not fit";
  c.shape = {x[0], y[1]};
  return {};
}

}  // namespace

std::string conv(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(0).type.is_float() || c.in(1).type != c.in(0).type) return "takes floats";
  if (c.has(2) &&
      (c.in(2).type != c.in(0).type || c.shape_of(2) != Shape{c.shape_of(1).empty() ? 0 : c.shape_of(1)[0]}))
    return "has a bias of the wrong type or shape";
  c.type = c.in(0).type;
  return convolve(c, 0, 1);
}

std::string conv_integer(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(0).type.is_integer() || !c.in(1).type.is_integer()) return "takes integers";
  c.type = Type::integer(32);
  return first_of({check_parameters(c, 0, {}, 2, 1),
                   check_parameters(c, 1, {}, 3, first_extent(c.shape_of(1))), convolve(c, 0, 1)});
}

std::string qlinear_conv(Context& c) {
  if (std::string why = need(c, 8); !why.empty()) return why;
  if (!c.in(0).type.is_integer() || !c.in(3).type.is_integer() || !c.in(7).type.is_integer())
    return "takes integers";
  c.type = c.in(7).type;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_parameters(c, 3, 4, 5, first_extent(c.shape_of(3))),
                   check_result(c, 6, 7), convolve(c, 0, 3)});
}

std::string matmul(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(0).type.is_float() || c.in(1).type != c.in(0).type) return "takes floats";
  c.type = c.in(0).type;
  return multiply_matrices(c, 0, 1);
}

std::string matmul_integer(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(0).type.is_integer() || !c.in(1).type.is_integer()) return "takes integers";
  c.type = Type::integer(32);
  return first_of({check_parameters(c, 0, {}, 2, 1),
                   check_parameters(c, 1, {}, 3, last_extent(c.shape_of(1))), multiply_matrices(c, 0, 1)});
}

std::string qlinear_matmul(Context& c) {
  if (std::string why = need(c, 8); !why.empty()) return why;
  if (!c.in(0).type.is_integer() || !c.in(3).type.is_integer() || !c.in(7).type.is_integer())
    return "takes integers";
  c.type = c.in(7).type;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_parameters(c, 3, 4, 5, last_extent(c.shape_of(3))),
                   check_result(c, 6, 7), multiply_matrices(c, 0, 3)});
}

std::string gemm(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(0).type.is_float() || c.in(1).type != c.in(0).type || (c.has(2) && c.in(2).type != c.in(0).type))
    return "takes floats";
  c.type = c.in(0).type;
  if (std::string why = gemm_shape(c, 0, 1); !why.empty()) return why;
  if (c.has(2) && broadcast(c.shape_of(2), c.shape) != c.shape)
    return "has a C that does not broadcast to its result";
  return {};
}

std::string qgemm(Context& c) {
  if (std::string why = need(c, 6); !why.empty()) return why;
  if (!c.in(0).type.is_integer() || !c.in(3).type.is_integer()) return "takes integers";
  c.type = c.has(8) ? c.in(8).type : Type::float32();
  if (c.has(7) != c.has(8)) return "has an output scale without a zero point, or the other way round";
  if (std::string why = gemm_shape(c, 0, 3); !why.empty()) return why;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_parameters(c, 3, 4, 5, c.shape[1]),
                   c.has(7) ? check_result(c, 7, 8) : ""});
}

std::string pool(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const std::vector<std::int64_t> kernel = c.op.integers("kernel_shape", {});
  if (kernel.empty()) return "has no kernel_shape";
  if (c.op.integer("storage_order", 0) != 0) return "has storage_order 1, which is not taken";
  if (c.op.integer("channels_last", 0) != 0) return "has channels_last 1, which is not taken";
  std::string why;
  const auto window = graph::resolve_window(c.op, c.shape, kernel, why);
  if (!window) return why;
  Shape shape = {c.shape[0], c.shape[1]};
  if (kernel.size() == 2) shape.push_back(window->out_h);
  shape.push_back(window->out_w);
  c.shape = shape;
  return {};
}

std::string global_pool(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  if (c.shape.size() < 3) return "takes [N, C, spatial axes], its input is " + to_string(c.shape);
  if (c.op.integer("channels_last", 0) != 0) return "has channels_last 1, which is not taken";
  std::fill(c.shape.begin() + 2, c.shape.end(), 1);
  return {};
}

}  // namespace millrace::compiler::import::rules
