#include "compiler/operators/rules.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler::operators {

std::string need(const Inference& c, std::size_t inputs) {
  for (std::size_t i = 0; i < inputs; ++i)
    if (!c.has(i)) return "lacks input " + std::to_string(i + 1);
  return {};
}

std::string same(Inference& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  c.type = c.in(0).type;
  c.shape = c.shape_of(0);
  return {};
}

std::string same_floats(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  return c.type.is_float() ? "" : "takes floats, its input '" + c.in(0).name + "' is " + to_string(c.type);
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

std::optional<std::vector<std::int64_t>> integers_of(const Inference& c, std::size_t input,
                                                     const char* attribute) {
  if (c.has(input)) {
    const Value& v = c.in(input);
    if (v.constant == nullptr || !v.type.is_integer()) return std::nullopt;
    return v.constant->integers;
  }
  if (c.op.has(attribute)) return c.op.integers(attribute, {});
  return std::nullopt;
}

std::string check_parameters(const Inference& c, std::size_t data, std::optional<std::size_t> scale,
                             std::size_t zero, std::int64_t channels) {
  const auto count_of = [&](std::size_t i, const char* what) -> std::string {
    const std::int64_t n = elements(c.shape_of(i));
    if (n == 1 || (channels > 1 && n == channels)) return {};
    return "has " + std::to_string(n) + " " + what + " for its input '" + c.in(data).name + "' (input " +
           std::to_string(i + 1) + "); " +
           (channels > 1 ? "one, or one for each of " + std::to_string(channels) + " channels, is expected"
                         : "one is expected");
  };
  if (scale) {
    if (!c.in(*scale).type.is_float()) return "has a scale that is not a float";
    if (std::string why = count_of(*scale, "scales"); !why.empty()) return why;
  }
  if (!c.has(zero)) return {};
  if (c.in(zero).type != c.in(data).type)
    return "has a zero point of another type than its input '" + c.in(data).name + "'";
  return count_of(zero, "zero points");
}

std::string check_result(const Inference& c, std::size_t scale, std::size_t zero) {
  if (!c.in(scale).type.is_float()) return "has a scale that is not a float";
  if (elements(c.shape_of(scale)) != 1 || (c.has(zero) && elements(c.shape_of(zero)) != 1))
    return "has an output scale or zero point that is not one number";
  return c.type.is_integer() ? "" : "quantises to " + to_string(c.type);
}

std::string infer_qlinear(Inference& c, std::string (*shape_rule)(Inference&)) {
  if (std::string why = shape_rule(c); !why.empty()) return why;
  if (!c.type.is_integer()) return "takes integers";
  if (!c.has(1) || !c.has(3)) return "lacks a scale";
  if (c.has(4)) c.type = c.in(4).type;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_result(c, 3, 4)});
}

std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& why : reasons)
    if (!why.empty()) return why;
  return {};
}

void Site::emit(graph::Operation operation, std::vector<ValueId> inputs, ValueId output,
                const std::string& suffix) {
  out.push_back(make_node(node.name + suffix, std::move(operation), std::move(inputs), output, node.sources));
}

Outcome Site::give(graph::Operation operation, std::vector<ValueId> inputs) {
  emit(std::move(operation), std::move(inputs), node.outputs[0]);
  return {};
}

ValueId Site::move(ValueId x, std::vector<std::int64_t> perm, Shape shape, const char* suffix) {
  const Value v = graph.value(x);
  const ValueId moved = graph.add_value(v.name + suffix, v.type, std::move(shape));
  emit(Move{std::move(perm)}, {x}, moved, suffix);
  return moved;
}

float Parameters::scale(std::size_t i) {
  const std::vector<float> all = scales(i);
  if (all.size() == 1) return all[0];
  fail(i, "scale", "must be one number");
  return 1;
}

std::vector<float> Parameters::scales(std::size_t i) {
  const Constant* c = site_.constant(i);
  if (c == nullptr || c->floats.empty()) {
    fail(i, "scale", "is not constant");
    return {1};
  }
  if (!std::all_of(c->floats.begin(), c->floats.end(), [](float f) { return f > 0 && std::isfinite(f); }))
    fail(i, "scale", "must be finite and above 0");
  return c->floats;
}

std::int64_t Parameters::zero(std::size_t i) {
  const std::vector<std::int64_t> all = zeros(i);
  if (all.size() != 1) fail(i, "zero point", "must be one number");
  return all[0];
}

std::vector<std::int64_t> Parameters::zeros(std::size_t i) {
  if (!site_.has(i)) return {0};
  const Constant* c = site_.constant(i);
  if (c != nullptr && !c->integers.empty()) return c->integers;
  fail(i, "zero point", "is not constant");
  return {0};
}

std::vector<std::int64_t> Parameters::bias(std::size_t i) {
  if (!site_.has(i)) return {};
  const Constant* c = site_.constant(i);
  if (c == nullptr || c->integers.empty()) {
    fail(i, "bias", "is not constant");
    return {};
  }
  if (site_.in(i).type != Type::integer(32)) fail(i, "bias", "is not int32");
  return c->integers;
}

Step Parameters::quantise(std::size_t i) {
  const float result_scale = scale(i);
  const std::int64_t result_zero = zero(i + 1);
  note_meaning(site_.graph.value(site_.node.outputs[0]), {result_scale}, {result_zero});
  const Type type = site_.result().type;
  return Step::quantise({result_scale}, result_zero, type.lowest(), type.highest());
}

void Parameters::fail(std::size_t input, const char* what, const char* why) {
  if (error_.empty())
    error_ = std::string("its ") + what + " (input " + std::to_string(input + 1) + ") " + why;
}

std::optional<AxisConstant> along_axis(const Value& constant, const Shape& shape) {
  AxisConstant result;
  // Leading axes of length 1 do not enlarge the shape.
  for (std::size_t i = 0; i + shape.size() < constant.shape.size(); ++i)
    if (constant.shape[i] != 1) return std::nullopt;
  for (std::size_t i = 0; i < std::min(constant.shape.size(), shape.size()); ++i) {
    const std::size_t axis = shape.size() - 1 - i;
    const std::int64_t extent = constant.shape[constant.shape.size() - 1 - i];
    if (extent == 1) continue;
    if (extent != shape[axis] || result.axis >= 0) return std::nullopt;
    result.axis = static_cast<std::int64_t>(axis);
  }
  result.floats = constant.constant->floats;
  result.integers = constant.constant->integers;
  return result;
}

}  // namespace millrace::compiler::operators
