#include "compiler/import/infer.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "compiler/graph/window.hpp"

namespace millrace::compiler::import {
namespace {

using graph::elements;
using graph::Graph;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::to_string;
using graph::Type;
using graph::Value;

constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

/// One node being inferred: its inputs by position, and what it found.
struct Context {
  const Graph& graph;
  const Node& node;
  const OnnxOperator& op;
  Type type;
  Shape shape;

  std::size_t count() const { return node.inputs.size(); }
  bool has(std::size_t i) const { return i < node.inputs.size() && node.inputs[i] != graph::kNoValue; }
  const Value& in(std::size_t i) const { return graph.value(node.inputs[i]); }
  const Shape& shape_of(std::size_t i) const { return in(i).shape; }
  std::size_t rank(std::size_t i) const { return in(i).shape.size(); }
};

using Rule = std::function<std::string(Context&)>;

std::string need(const Context& c, std::size_t inputs) {
  for (std::size_t i = 0; i < inputs; ++i)
    if (!c.has(i)) return "lacks input " + std::to_string(i + 1);
  return {};
}

/// Counted from the front; absent where it is outside.
std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + r : axis);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

/// The integers of a constant input, or of an attribute in older operator sets; absent where neither is there
/// or known.
std::optional<std::vector<std::int64_t>> integers_of(const Context& c, std::size_t input,
                                                     const char* attribute) {
  if (c.has(input)) {
    const Value& v = c.in(input);
    if (v.constant == nullptr || !v.type.is_integer()) return std::nullopt;
    return v.constant->integers;
  }
  if (c.op.has(attribute)) return c.op.integers(attribute, {});
  return std::nullopt;
}

std::string same(Context& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  c.type = c.in(0).type;
  c.shape = c.shape_of(0);
  return {};
}

std::string floats_only(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  return c.type.is_float() ? "" : "takes floats, its input '" + c.in(0).name + "' is " + to_string(c.type);
}

std::string binary(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (c.in(0).type != c.in(1).type) return "has operands of different types";
  const auto shape = broadcast(c.shape_of(0), c.shape_of(1));
  if (!shape)
    return "has operands of " + to_string(c.shape_of(0)) + " and " + to_string(c.shape_of(1)) +
           ", which do not broadcast";
  c.type = c.in(0).type;
  c.shape = *shape;
  return {};
}

std::string clip(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  for (std::size_t i = 1; i < 3; ++i)
    if (c.has(i) && (c.in(i).type != c.type || elements(c.shape_of(i)) != 1))
      return "has a bound of another type or shape";
  return {};
}

/// A scale and, where present, a zero point: scalars, or one along `axis` of what is (de)quantised.
std::string check_quantiser(const Context& c, std::size_t scale, std::size_t zero) {
  if (!c.in(scale).type.is_float()) return "has a scale that is no float";
  if (c.rank(scale) > 1)
    return "has a scale of rank " + std::to_string(c.rank(scale)) + " (blocked quantisation is not taken)";
  if (c.op.integer("block_size", 0) != 0) return "is quantised in blocks, which is not taken";
  const std::int64_t scales = elements(c.shape_of(scale));
  if (scales < 1) return "has an empty scale";
  if (scales > 1) {
    const auto axis = axis_in(c.op.integer("axis", 1), c.rank(0));
    if (!axis) return "has an axis outside its input of " + to_string(c.shape_of(0));
    if (c.shape_of(0)[*axis] != scales)
      return "has " + std::to_string(scales) + " scales for axis " + std::to_string(*axis) + " of " +
             to_string(c.shape_of(0));
  }
  if (c.has(zero) && elements(c.shape_of(zero)) != scales)
    return "has a scale and a zero point of different sizes";
  return {};
}

/// A scale and, where present, a zero point of the integer operand `data`: one, or one a channel where there
/// are `channels`.
std::string check_parameters(const Context& c, std::size_t data, std::optional<std::size_t> scale,
                             std::size_t zero, std::int64_t channels) {
  const auto count_of = [&](std::size_t i, const char* what) -> std::string {
    const std::int64_t n = elements(c.shape_of(i));
    if (n == 1 || (channels > 1 && n == channels)) return {};
    return "has " + std::to_string(n) + " " + what + " for its input '" + c.in(data).name + "' (input " +
           std::to_string(i + 1) + "); " +
           (channels > 1 ? "one, or one for each of " + std::to_string(channels) + " channels is taken"
                         : "one is taken");
  };
  if (scale) {
    if (!c.in(*scale).type.is_float()) return "has a scale that is no float";
    if (std::string why = count_of(*scale, "scales"); !why.empty()) return why;
  }
  if (!c.has(zero)) return {};
  if (c.in(zero).type != c.in(data).type)
    return "has a zero point of another type than its input '" + c.in(data).name + "'";
  return count_of(zero, "zero points");
}

/// The same of a result, whose type is its zero point's.
std::string check_result(const Context& c, std::size_t scale, std::size_t zero) {
  if (!c.in(scale).type.is_float()) return "has a scale that is no float";
  if (elements(c.shape_of(scale)) != 1 || (c.has(zero) && elements(c.shape_of(zero)) != 1))
    return "has an output scale or zero point that is not one number";
  return c.type.is_integer() ? "" : "quantises to " + to_string(c.type);
}

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& why : reasons)
    if (!why.empty()) return why;
  return {};
}

std::int64_t first_extent(const Shape& shape) {
  return shape.empty() ? 0 : shape[0];
}
std::int64_t last_extent(const Shape& shape) {
  return shape.empty() ? 0 : shape.back();
}

std::string quantise_linear(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (std::string why = check_quantiser(c, 1, 2); !why.empty()) return why;
  if (!c.in(0).type.is_float()) return "quantises what is no float";
  c.shape = c.shape_of(0);
  if (c.has(2)) {
    c.type = c.in(2).type;
  } else {
    switch (c.op.integer("output_dtype", 0)) {
      case 0:
      case 2:
        c.type = Type::natural(8);
        break;
      case 3:
        c.type = Type::integer(8);
        break;
      case 4:
        c.type = Type::natural(16);
        break;
      case 5:
        c.type = Type::integer(16);
        break;
      case 21:
        c.type = Type::natural(4);
        break;
      case 22:
        c.type = Type::integer(4);
        break;
      default:
        return "quantises to a type that is not taken";
    }
  }
  return c.type.is_integer() && c.type.bits <= 16 ? "" : "quantises to " + to_string(c.type);
}

std::string dequantise_linear(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (std::string why = check_quantiser(c, 1, 2); !why.empty()) return why;
  if (!c.in(0).type.is_integer()) return "dequantises " + to_string(c.in(0).type);
  if (c.has(2) && c.in(2).type != c.in(0).type) return "has a zero point of another type than its input";
  c.type = Type::float32();
  c.shape = c.shape_of(0);
  return {};
}

std::string convolve(Context& c, std::size_t x, std::size_t w) {
  if (c.rank(w) != c.rank(x) || c.rank(w) < 3)
    return "has weights of " + to_string(c.shape_of(w)) + " for an input of " + to_string(c.shape_of(x));
  const Shape& weights = c.shape_of(w);
  const std::vector<std::int64_t> kernel(weights.begin() + 2, weights.end());
  if (c.op.has("kernel_shape") && c.op.integers("kernel_shape", {}) != kernel)
    return "has a kernel_shape that is not its weights'";
  const std::int64_t groups = c.op.integer("group", 1);
  if (groups < 1 || c.shape_of(x)[1] != weights[1] * groups || weights[0] < 1 || weights[0] % groups != 0)
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

std::string with_output_type(Context& c, std::size_t zero, const Rule& shape_rule) {
  if (std::string why = shape_rule(c); !why.empty()) return why;
  if (!c.type.is_integer()) return "takes integers";
  if (!c.has(1) || !c.has(3)) return "lacks a scale";
  if (c.has(zero)) c.type = c.in(zero).type;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_result(c, 3, zero)});
}

std::string flatten(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto r = static_cast<std::int64_t>(c.shape.size());
  std::int64_t axis = c.op.integer("axis", 1);
  if (axis < -r || axis > r) return "has an axis outside its input";
  if (axis < 0) axis += r;
  const Shape before(c.shape.begin(), c.shape.begin() + axis), after(c.shape.begin() + axis, c.shape.end());
  c.shape = {elements(before), elements(after)};
  return {};
}

std::string reshape(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto wanted = integers_of(c, 1, "shape");
  if (!wanted) return "has a shape that is not known at compile time";
  if (wanted->size() > 8) return "has a shape of rank " + std::to_string(wanted->size());
  Shape shape;
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    std::int64_t d = (*wanted)[i];
    if (d == 0 && c.op.integer("allowzero", 0) == 0) {
      if (i >= c.shape.size()) return "copies a dimension its input does not have";
      d = c.shape[i];
    }
    if (d == -1 && open) return "leaves two dimensions open";
    if (d < -1 || d > kMostElements) return "has the impossible dimension " + std::to_string(d);
    if (d == -1)
      open = i;
    else
      known *= d;
    if (known > kMostElements) return "has an absurd shape";
    shape.push_back(d);
  }
  const std::int64_t total = elements(c.shape);
  if (open) {
    if (known == 0 || total % known != 0) return "cannot reshape " + to_string(c.shape);
    shape[*open] = total / known;
  }
  if (elements(shape) != total)
    return "reshapes " + to_string(c.shape) + " to " + to_string(shape) + ", which has another size";
  c.shape = shape;
  return {};
}

std::string squeeze(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const bool given = c.has(1) || c.op.has("axes");
  const auto axes = integers_of(c, 1, "axes");
  if (given && !axes) return "has axes that are not known at compile time";
  std::vector<bool> drop(c.shape.size(), false);
  if (axes)
    for (const std::int64_t a : *axes) {
      const auto axis = axis_in(a, c.shape.size());
      if (!axis || c.shape[*axis] != 1) return "squeezes an axis that is not 1";
      drop[*axis] = true;
    }
  Shape shape;
  for (std::size_t i = 0; i < c.shape.size(); ++i)
    if (axes ? !drop[i] : c.shape[i] != 1) shape.push_back(c.shape[i]);
  c.shape = shape;
  return {};
}

std::string unsqueeze(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto axes = integers_of(c, 1, "axes");
  if (!axes) return "has axes that are not known at compile time";
  const std::size_t rank = c.shape.size() + axes->size();
  if (rank > 8) return "makes a shape of rank " + std::to_string(rank);
  std::vector<bool> fresh(rank, false);
  for (const std::int64_t a : *axes) {
    const auto axis = axis_in(a, rank);
    if (!axis || fresh[*axis]) return "has an axis that is outside its output, or there twice";
    fresh[*axis] = true;
  }
  Shape shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(fresh[i] ? 1 : c.shape[next++]);
  c.shape = shape;
  return {};
}

std::string transpose(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  std::vector<std::int64_t> perm = c.op.integers("perm", {});
  if (perm.empty())
    for (std::size_t i = c.shape.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  if (perm.size() != c.shape.size()) return "has a perm of the wrong length";
  std::vector<bool> seen(perm.size(), false);
  Shape shape;
  for (const std::int64_t p : perm) {
    if (p < 0 || p >= static_cast<std::int64_t>(perm.size()) || seen[static_cast<std::size_t>(p)])
      return "has a perm that is no permutation";
    seen[static_cast<std::size_t>(p)] = true;
    shape.push_back(c.shape[static_cast<std::size_t>(p)]);
  }
  c.shape = shape;
  return {};
}

std::string join(Context& c, std::size_t first, std::size_t step) {
  const std::int64_t wanted = c.op.integer("axis", 1);
  c.type = c.in(first).type;
  c.shape = c.shape_of(first);
  const auto axis = axis_in(wanted, c.shape.size());
  if (!axis) return "has an axis outside its inputs";
  for (std::size_t i = first + step; i < c.count(); i += step) {
    if (!c.has(i)) return "leaves out an input";
    Shape other = c.shape_of(i);
    if (other.size() != c.shape.size() || c.in(i).type != c.type) return "joins different types or ranks";
    const std::int64_t extent = other[*axis];
    other[*axis] = c.shape[*axis];
    if (other != c.shape) return "joins shapes that differ outside its axis";
    c.shape[*axis] += extent;
  }
  return {};
}

std::string concat(Context& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  return join(c, 0, 1);
}

/// inputs: output scale, output zero point, then (x, scale, zero point) for each.
std::string qlinear_concat(Context& c) {
  if (c.count() < 5 || (c.count() - 2) % 3 != 0) return "has the wrong number of inputs";
  if (std::string why = need(c, c.count()); !why.empty()) return why;
  if (std::string why = join(c, 2, 3); !why.empty()) return why;
  for (std::size_t i = 2; i < c.count(); i += 3) {
    if (!c.in(i).type.is_integer()) return "takes integers";
    if (std::string why = check_parameters(c, i, i + 1, i + 2, 1); !why.empty()) return why;
  }
  c.type = c.in(1).type;
  return check_result(c, 0, 1);
}

std::string qlinear_add(Context& c) {
  if (std::string why = need(c, 7); !why.empty()) return why;
  const auto shape = broadcast(c.shape_of(0), c.shape_of(3));
  if (!shape) return "has operands that do not broadcast";
  if (!c.in(0).type.is_integer() || !c.in(3).type.is_integer()) return "takes integers";
  c.type = c.has(7) ? c.in(7).type : c.in(0).type;
  c.shape = *shape;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_parameters(c, 3, 4, 5, 1), check_result(c, 6, 7)});
}

std::string cast(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  switch (c.op.integer("to", 0)) {
    case 1:
      c.type = Type::float32();
      return {};
    case 2:
      c.type = Type::natural(8);
      return {};
    case 3:
      c.type = Type::integer(8);
      return {};
    case 4:
      c.type = Type::natural(16);
      return {};
    case 5:
      c.type = Type::integer(16);
      return {};
    case 6:
      c.type = Type::integer(32);
      return {};
    case 7:
      c.type = Type::integer(64);
      return {};
    case 9:
      c.type = Type{Type::Kind::kBool, 8};
      return {};
    case 12:
      c.type = Type::natural(32);
      return {};
    default:
      return "casts to a type that is not taken";
  }
}

std::string shape_of(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  c.type = Type::integer(64);
  c.shape = {static_cast<std::int64_t>(c.shape.size())};
  return {};
}

std::string gather(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  const auto axis = axis_in(c.op.integer("axis", 0), c.rank(0));
  if (!axis || !c.in(1).type.is_integer())
    return "has an axis outside its input, or indices that are no integers";
  const Shape& data = c.shape_of(0);
  c.type = c.in(0).type;
  c.shape.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(*axis));
  c.shape.insert(c.shape.end(), c.shape_of(1).begin(), c.shape_of(1).end());
  c.shape.insert(c.shape.end(), data.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, data.end());
  return {};
}

std::string slice(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto starts = integers_of(c, 1, "starts"), ends = integers_of(c, 2, "ends");
  if (!starts || !ends || starts->size() != ends->size())
    return "has bounds that are not known at compile time";
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (const auto given = integers_of(c, 3, "axes")) axes = *given;
  if (const auto steps = integers_of(c, 4, "steps"))
    for (const std::int64_t s : *steps)
      if (s != 1) return "has a step other than 1, which is not taken";
  if (axes.size() != starts->size()) return "has axes of the wrong length";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_in(axes[i], c.shape.size());
    if (!axis) return "has an axis outside its input";
    const std::int64_t extent = c.shape[*axis];
    const auto bound = [extent](std::int64_t x) {
      return std::min(std::max<std::int64_t>(x < 0 ? x + extent : x, 0), extent);
    };
    c.shape[*axis] = std::max<std::int64_t>(0, bound((*ends)[i]) - bound((*starts)[i]));
  }
  return {};
}

std::string batch_normalise(Context& c) {
  if (std::string why = floats_only(c); !why.empty()) return why;
  if (std::string why = need(c, 5); !why.empty()) return why;
  if (c.shape.size() < 2) return "takes [N, C, …]";
  for (std::size_t i = 1; i < 5; ++i)
    if (!c.in(i).type.is_float() || c.shape_of(i) != Shape{c.shape[1]})
      return "has a parameter of the wrong type or shape";
  return {};
}

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> kRules = {
      {"Add", binary},
      {"Sub", binary},
      {"Mul", binary},
      {"Div", binary},
      {"AveragePool", pool},
      {"MaxPool", pool},
      {"GlobalAveragePool", global_pool},
      {"GlobalMaxPool", global_pool},
      {"BatchNormalization", batch_normalise},
      {"Cast", cast},
      {"Clip", clip},
      {"Concat", concat},
      {"Conv", conv},
      {"ConvInteger", conv_integer},
      {"DequantizeLinear", dequantise_linear},
      {"Dropout", same},
      {"Flatten", flatten},
      {"Gather", gather},
      {"Gemm", gemm},
      {"HardSigmoid", floats_only},
      {"HardSwish", floats_only},
      {"Identity", same},
      {"LeakyRelu", floats_only},
      {"MatMul", matmul},
      {"MatMulInteger", matmul_integer},
      {"QGemm", qgemm},
      {"QLinearAdd", qlinear_add},
      {"QLinearConcat", qlinear_concat},
      {"QLinearConv", qlinear_conv},
      {"QLinearMatMul", qlinear_matmul},
      {"QLinearAveragePool", [](Context& c) { return with_output_type(c, 4, pool); }},
      {"QLinearGlobalAveragePool", [](Context& c) { return with_output_type(c, 4, global_pool); }},
      {"QLinearLeakyRelu", [](Context& c) { return with_output_type(c, 4, same); }},
      {"QLinearSigmoid", [](Context& c) { return with_output_type(c, 4, same); }},
      {"QuantizeLinear", quantise_linear},
      {"Relu", same},
      {"Reshape", reshape},
      {"Shape", shape_of},
      {"Sigmoid", floats_only},
      {"Slice", slice},
      {"Softmax", floats_only},
      {"Squeeze", squeeze},
      {"Tanh", floats_only},
      {"Transpose", transpose},
      {"Unsqueeze", unsqueeze}};
  return kRules;
}

}  // namespace

std::string infer(Graph& graph, const Node& node) {
  const auto& op = std::get<OnnxOperator>(node.operation);
  const auto rule = rules().find(op.type);
  if (rule == rules().end()) return "has no shape rule";
  Context c{graph, node, op, {}, {}};
  if (std::string why = rule->second(c); !why.empty()) return why;
  std::int64_t total = 1;
  for (const std::int64_t d : c.shape) {
    if (d < 0 || d > kMostElements || (total *= d) > kMostElements)
      return "would give a tensor of " + to_string(c.shape) + ", which is absurd";
  }
  if (total == 0) return "gives an empty tensor of " + to_string(c.shape);
  Value& output = graph.value(node.outputs[0]);
  output.type = c.type;
  output.shape = c.shape;
  return {};
}

}  // namespace millrace::compiler::import
