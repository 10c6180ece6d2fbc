#include "compiler/operators/lowering.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler::operators {

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
