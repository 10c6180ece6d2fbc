#include "kernels/host/float_operator.hpp"

#include <algorithm>
#include <array>

#include "kernels/host/multiplications.hpp"
#include "kernels/host/rules.hpp"

namespace millrace::kernels {

const FloatAttribute* FloatOperator::attribute(std::string_view name) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const FloatAttribute& a) { return a.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

std::int64_t FloatOperator::integer(std::string_view name, std::int64_t otherwise) const {
  const FloatAttribute* const a = attribute(name);
  return a == nullptr || a->integers.size() != 1 ? otherwise : a->integers[0];
}

float FloatOperator::real(std::string_view name, float otherwise) const {
  const FloatAttribute* const a = attribute(name);
  return a == nullptr || a->reals.size() != 1 ? otherwise : a->reals[0];
}

std::string_view FloatOperator::text(std::string_view name, std::string_view otherwise) const {
  const FloatAttribute* const a = attribute(name);
  return a == nullptr ? otherwise : std::string_view(a->text);
}

std::vector<std::int64_t> FloatOperator::integers(std::string_view name,
                                                  std::vector<std::int64_t> otherwise) const {
  const FloatAttribute* const a = attribute(name);
  return a == nullptr ? std::move(otherwise) : a->integers;
}

namespace host {
namespace {

constexpr std::size_t kMostOperands = 1024;
constexpr std::size_t kMostAxes = 8;

std::array<std::span<const Rule>, 8> families() {
  return {elementwise(), products(), pools(), moves(), reductions(), normalisations(), resizes(), choices()};
}

const Rule* find(std::string_view type) {
  for (const auto family : families())
    for (const Rule& rule : family)
      if (type == rule.type) return &rule;
  return nullptr;
}

/// Checks the operands as far as this is possible without the operator's rule. Returns the first error, or an empty
/// text.
std::string check_operands(const FloatOperator& op) {
  if (op.operands.empty() || op.operands.size() > kMostOperands) return "must have 1 to 1024 operands";
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const FloatOperand& operand = op.operands[i];
    const std::string which = "operand " + std::to_string(i + 1);
    if (operand.kind == FloatOperand::Kind::kAbsent) continue;
    const std::int64_t count = elements(operand.shape);
    if (count < 0 || operand.shape.size() > kMostAxes) return which + " has an impossible shape";
    const auto size = static_cast<std::size_t>(count);
    if (operand.kind == FloatOperand::Kind::kTensor && size == 0) return which + " has no elements";
    if (operand.kind == FloatOperand::Kind::kFloats && operand.floats.size() != size)
      return which + " has more or fewer elements than its shape says";
    if (operand.kind == FloatOperand::Kind::kIntegers && operand.integers.size() != size)
      return which + " has more or fewer elements than its shape says";
  }
  return {};
}

}  // namespace

bool supports(std::string_view type) {
  return find(type) != nullptr;
}

std::vector<std::string_view> operators() {
  std::vector<std::string_view> names;
  for (const auto family : families())
    for (const Rule& rule : family) names.emplace_back(rule.type);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Shape> result_shape(const FloatOperator& op, std::string& why) {
  const Rule* const rule = find(op.type);
  why = rule == nullptr ? "is not an operator that the host computes" : check_operands(op);
  Shape shape;
  if (why.empty()) shape = rule->shape(op, why);
  if (why.empty() && (elements(shape) <= 0 || shape.size() > kMostAxes))
    why = "gives a result that has no elements, or too many elements";
  if (why.empty()) return shape;
  why = op.type + ": " + why;
  return std::nullopt;
}

std::string check(const FloatOperator& op) {
  std::string why;
  const auto shape = result_shape(op, why);
  if (shape && *shape != op.shape)
    return op.type + ": its stored shape differs from the shape that follows from its operands";
  return why;
}

std::uint64_t multiply_accumulates(const FloatOperator& op) {
  const auto count = [](const Shape& shape) { return static_cast<std::uint64_t>(elements(shape)); };
  const auto per_result = [&](const Shape& weights) {  // of a convolution
    return count(weights) / static_cast<std::uint64_t>(weights[0]);
  };
  if (op.type == "Conv") return count(op.shape) * per_result(op.operands[1].shape);
  if (op.type == "ConvTranspose") return count(op.operands[0].shape) * per_result(op.operands[1].shape);
  const bool gemm = op.type == "Gemm";
  if (!gemm && op.type != "MatMul") return 0;
  const Shape& a = op.operands[0].shape;
  const std::int64_t inner = gemm && op.integer("transA", 0) != 0 ? a[0] : a.back();
  return count(op.shape) * static_cast<std::uint64_t>(inner);
}

void compute(const FloatOperator& op, std::span<const float* const> tensors, float* result) {
  Call call{op, {}, result};
  std::size_t next = 0;
  for (const FloatOperand& operand : op.operands) {
    const float* floats = nullptr;
    if (operand.kind == FloatOperand::Kind::kTensor) floats = tensors[next++];
    if (operand.kind == FloatOperand::Kind::kFloats) floats = operand.floats.data();
    call.inputs.push_back({operand.shape, floats});
  }
  find(op.type)->compute(call);
}

std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || extent > kMostElements) return -1;
    count *= extent;
    if (count > kMostElements) return -1;
  }
  return count;
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::int64_t axis_in(std::int64_t axis, std::size_t rank) {
  const auto axes = static_cast<std::int64_t>(rank);
  if (axis < -axes || axis >= axes) return -1;
  return axis < 0 ? axis + axes : axis;
}

bool is_float(const FloatOperator& op, std::size_t i) {
  if (i >= op.operands.size()) return false;
  const auto kind = op.operands[i].kind;
  return kind == FloatOperand::Kind::kTensor || kind == FloatOperand::Kind::kFloats;
}

std::optional<std::vector<std::int64_t>> integers_of(const FloatOperator& op, std::size_t i,
                                                     std::string_view name) {
  if (i < op.operands.size() && op.operands[i].kind == FloatOperand::Kind::kIntegers)
    return op.operands[i].integers;
  const FloatAttribute* const a = op.attribute(name);
  if (a == nullptr) return std::nullopt;
  return a->integers;
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

}  // namespace host
}  // namespace millrace::kernels
