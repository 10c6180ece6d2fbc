// Types and functions that the files of kernels/host share. Private to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/float_operator.hpp"

namespace millrace::kernels::host {

using Operands = std::vector<FloatOperand>;

/// An operand during the computation: its shape and its elements.
struct View {
  const Shape& shape;
  const float* floats = nullptr;  // null if the operand is absent or holds integers
};

/// The arguments of a rule's `compute`: the operator, its operands by position, and the buffer for the result.
struct Call {
  const FloatOperator& op;
  std::vector<View> inputs;
  float* result = nullptr;

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i].floats != nullptr; }
  const Shape& shape(std::size_t i) const { return inputs[i].shape; }
};

/// The implementation of one ONNX operator. `shape` returns the result's shape; on failure it sets `why`. `shape` may
/// read every field but op.shape and must check the operands' sizes before it reads them. `compute` is called only if
/// `shape` succeeded.
struct Rule {
  const char* type;
  Shape (*shape)(const FloatOperator&, std::string& why);
  void (*compute)(const Call&);
};

std::span<const Rule> elementwise();
std::span<const Rule> products();
std::span<const Rule> pools();
std::span<const Rule> moves();
std::span<const Rule> reductions();
std::span<const Rule> normalisations();
std::span<const Rule> resizes();
std::span<const Rule> choices();

inline constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

/// Returns the product of the extents, or -1 if an extent is negative or the product is above kMostElements.
std::int64_t elements(const Shape& shape);

/// Returns the row-major strides of a shape.
Shape strides_of(const Shape& shape);

/// Converts an axis that may be negative. Returns -1 if there is no such axis.
std::int64_t axis_in(std::int64_t axis, std::size_t rank);

/// Whether operand `i` exists and has elements of type float32.
bool is_float(const FloatOperator& op, std::size_t i);

/// Returns the integers of constant operand `i` or, if there is no such operand, of the attribute `name`. Returns nothing
/// if neither exists.
std::optional<std::vector<std::int64_t>> integers_of(const FloatOperator& op, std::size_t i,
                                                     std::string_view name);

/// Returns the shape to which both shapes broadcast, or nothing.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// Calls visit(index of the element, offset) for the elements of `shape` in row-major order. The offset is the sum of the
/// element's coordinates times `strides`.
template <class Visit>
void for_each_offset(const Shape& shape, const Shape& strides, Visit visit) {
  const std::int64_t count = elements(shape);
  Shape at(shape.size(), 0);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

/// A window over the spatial axes of [N, C, ...], with all attributes resolved. `begin` is the padding before the input.
struct Window {
  Shape kernel, stride, dilation, begin, end;
  Shape extent;  // of the result, one entry per spatial axis
};

/// Resolves the attributes of a Conv or pool over an input of shape [N, C, ...]. Sets `why` on failure.
Window resolve_window(const FloatOperator& op, const Shape& input, const Shape& kernel, std::string& why);

}  // namespace millrace::kernels::host
