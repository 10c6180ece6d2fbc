#include "compiler/operators/rules.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace millrace::compiler::operators {

std::string need(const Inference& c, std::size_t inputs) {
  for (std::size_t i = 0; i < inputs; ++i)
    if (!c.has(i)) return "lacks input " + std::to_string(i + 1);
  return {};
}

std::string check_scale(const Value& scale, std::size_t i) {
  if (scale.constant == nullptr) return {};
  const std::vector<float>& floats = scale.constant->floats;
  const auto wrong =
      std::find_if(floats.begin(), floats.end(), [](float f) { return !(f > 0) || !std::isfinite(f); });
  if (wrong == floats.end()) return {};
  std::ostringstream text;
  text << "its scale '" << scale.name << "' (input " << i + 1 << ") is " << *wrong;
  if (floats.size() > 1) text << " at index " << wrong - floats.begin();
  text << "; a scale must be finite and above 0: quantise the model again";
  return text.str();
}

std::string same(Inference& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  c.type = c.in(0).type;
  c.shape = c.shape_of(0);
  return {};
}

std::string same_floats(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  return c.type.is_float() ? ""
                           : "takes floats, but its input '" + c.in(0).name + "' is " + to_string(c.type);
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

std::optional<AxisConstant> along_axis(const Value& constant, const Shape& shape) {
  AxisConstant result;
  // When a constant is broadcast, leading axes of length 1 do not enlarge the result's shape.
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
