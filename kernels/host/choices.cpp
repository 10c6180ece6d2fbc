// Operators that choose elements by their value or by a constant mask: ArgMax, ArgMin, TopK, Hardmax, Where, Trilu, and CumSum.
//
// ONNX gives the indices of ArgMax, ArgMin and TopK as INT64. Here they are float32 numbers, which represent every index of a tensor of
// up to 2^24 elements along the axis; the compiler puts a conversion behind them.
#include <algorithm>
#include <numeric>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

constexpr std::int64_t kLongestAxis = 1 << 24;

/// The elements along an axis, seen as [outer][extent][inner].
struct Along {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

Along along(const Shape& shape, std::int64_t axis) {
  const auto split = shape.begin() + axis;
  return {elements({shape.begin(), split}), *split, elements({split + 1, shape.end()})};
}

/// Returns the axis that the attribute names, or -1 after setting `why`.
std::int64_t axis_of(const FloatOperator& op, std::int64_t otherwise, std::string& why) {
  if (!is_float(op, 0)) {
    why = "needs a float32 operand";
    return -1;
  }
  const Shape& in = op.operands[0].shape;
  const std::int64_t axis = axis_in(op.integer("axis", otherwise), in.size());
  if (axis < 0) why = "names an axis that its input does not have";
  if (axis >= 0 && in[static_cast<std::size_t>(axis)] > kLongestAxis)
    why = "has an axis of more than 2^24 elements";
  return why.empty() ? axis : -1;
}

Shape extreme_shape(const FloatOperator& op, std::string& why) {
  const std::int64_t axis = axis_of(op, 0, why);
  if (axis < 0) return {};
  Shape shape = op.operands[0].shape;
  if (op.integer("keepdims", 1) != 0)
    shape[static_cast<std::size_t>(axis)] = 1;
  else
    shape.erase(shape.begin() + axis);
  return shape;
}

/// Calls give(result, elements of a row, step between two of them) for each row along the axis.
template <class Give>
void for_each_row(const Call& c, const Along& a, std::int64_t results, Give give) {
  for (std::int64_t o = 0; o < a.outer; ++o)
    for (std::int64_t k = 0; k < a.inner; ++k)
      give(c.result + o * results * a.inner + k, c.inputs[0].floats + o * a.extent * a.inner + k);
}

/// Writes the index of the largest element, or of the smallest one. Among equal elements, the first counts, or the last if
/// the attribute select_last_index is set.
template <bool Largest>
void extreme(const Call& c) {
  std::string why;
  const Along a = along(c.shape(0), axis_of(c.op, 0, why));
  const bool last = c.op.integer("select_last_index", 0) != 0;
  for_each_row(c, a, 1, [&](float* result, const float* x) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < a.extent; ++i) {
      const float now = x[i * a.inner], old = x[best * a.inner];
      if ((Largest ? now > old : now < old) || (last && now == old)) best = i;
    }
    *result = static_cast<float>(best);
  });
}

Shape top_shape(const FloatOperator& op, std::string& why) {
  const std::int64_t axis = axis_of(op, -1, why);
  if (axis < 0) return {};
  const auto k = integers_of(op, 1, "k");
  Shape shape = op.operands[0].shape;
  std::int64_t& extent = shape[static_cast<std::size_t>(axis)];
  if (!k || k->size() != 1 || k->front() < 1 || k->front() > extent) {
    why = "needs a constant K that is at most the number of elements along its axis";
    return {};
  }
  extent = k->front();
  return shape;
}

/// TopK. The attribute `indices`, which ONNX does not have, asks for the second output.
void top(const Call& c) {
  std::string why;
  const std::int64_t axis = axis_of(c.op, -1, why);
  const Along a = along(c.shape(0), axis);
  const bool largest = c.op.integer("largest", 1) != 0, indices = c.op.integer("indices", 0) != 0;
  const std::int64_t k = c.op.shape[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> order(static_cast<std::size_t>(a.extent));
  for_each_row(c, a, k, [&](float* result, const float* x) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int64_t i, std::int64_t j) {
      const float p = x[i * a.inner], q = x[j * a.inner];
      return p == q ? i < j : largest ? p > q : p < q;
    });
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t at = order[static_cast<std::size_t>(i)];
      result[i * a.inner] = indices ? static_cast<float>(at) : x[at * a.inner];
    }
  });
}

Shape same_shape(const FloatOperator& op, std::string& why) {
  return axis_of(op, -1, why) < 0 ? Shape{} : op.operands[0].shape;
}

/// Hardmax: 1 for the first largest element along the axis, 0 for the others. Before operator set 13, all axes from the
/// given one on count as one.
void hardmax(const Call& c) {
  std::string why;
  const bool joins = c.op.opset < 13;
  const std::int64_t axis = axis_in(c.op.integer("axis", joins ? 1 : -1), c.shape(0).size());
  Along a = along(c.shape(0), axis);
  if (joins) a = {a.outer, a.extent * a.inner, 1};
  for_each_row(c, a, a.extent, [&](float* result, const float* x) {
    std::int64_t best = 0;
    for (std::int64_t i = 0; i < a.extent; ++i) {
      if (x[i * a.inner] > x[best * a.inner]) best = i;
      result[i * a.inner] = 0;
    }
    result[best * a.inner] = 1;
  });
}

/// The axis of CumSum is operand 2.
std::int64_t sum_axis(const FloatOperator& op, std::string& why) {
  const auto given = integers_of(op, 1, "");
  const std::int64_t axis = !is_float(op, 0) || !given || given->size() != 1
                                ? -1
                                : axis_in(given->front(), op.operands[0].shape.size());
  if (axis < 0) why = "needs a constant axis that exists in its input";
  return axis;
}

void cumulate(const Call& c) {
  std::string why;
  const Along a = along(c.shape(0), sum_axis(c.op, why));
  const bool exclusive = c.op.integer("exclusive", 0) != 0, reverse = c.op.integer("reverse", 0) != 0;
  for_each_row(c, a, a.extent, [&](float* result, const float* x) {
    float sum = 0;
    for (std::int64_t i = 0; i < a.extent; ++i) {
      const std::int64_t at = (reverse ? a.extent - 1 - i : i) * a.inner;
      if (exclusive) result[at] = sum;
      sum += x[at];
      if (!exclusive) result[at] = sum;
    }
  });
}

/// The operator Where. The condition is a constant; the two operands to choose from broadcast with it.
Shape where_shape(const FloatOperator& op, std::string& why) {
  if (op.operands.size() != 3 || op.operands[0].kind != FloatOperand::Kind::kIntegers || !is_float(op, 1) ||
      !is_float(op, 2)) {
    why = "needs a constant condition and two float32 operands";
    return {};
  }
  auto shape = broadcast(op.operands[0].shape, op.operands[1].shape);
  if (shape) shape = broadcast(*shape, op.operands[2].shape);
  if (!shape) why = "has operands whose shapes do not broadcast";
  return shape.value_or(Shape{});
}

/// The strides with which an operand is read for each element of `shape`.
Shape broadcast_strides(const Shape& operand, const Shape& shape) {
  Shape strides(shape.size(), 0);
  const Shape own = strides_of(operand);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (operand[i] != 1) strides[shape.size() - own.size() + i] = own[i];
  return strides;
}

void where(const Call& c) {
  const Shape& shape = c.op.shape;
  for_each_offset(shape, broadcast_strides(c.shape(1), shape),
                  [&](std::size_t i, std::size_t from) { c.result[i] = c.inputs[1].floats[from]; });
  std::vector<std::size_t> others(static_cast<std::size_t>(elements(shape)));
  for_each_offset(shape, broadcast_strides(c.shape(2), shape),
                  [&](std::size_t i, std::size_t from) { others[i] = from; });
  for_each_offset(shape, broadcast_strides(c.shape(0), shape), [&](std::size_t i, std::size_t from) {
    if (c.op.operands[0].integers[from] == 0) c.result[i] = c.inputs[2].floats[others[i]];
  });
}

/// The number of the diagonal from which Trilu keeps elements: operand 2, or 0 if that is missing.
std::int64_t diagonal(const FloatOperator& op) {
  const auto k = integers_of(op, 1, "");
  return k && k->size() == 1 ? std::clamp<std::int64_t>(k->front(), -kLongestAxis, kLongestAxis) : 0;
}

Shape triangle_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || op.operands[0].shape.size() < 2 ||
      (op.operands.size() > 1 && op.operands[1].kind == FloatOperand::Kind::kTensor)) {
    why = "needs float32 matrices and a constant diagonal";
    return {};
  }
  return op.operands[0].shape;
}

void triangle(const Call& c) {
  const Shape& in = c.shape(0);
  const std::int64_t columns = in.back(), rows = in[in.size() - 2], k = diagonal(c.op);
  const bool upper = c.op.integer("upper", 1) != 0;
  const std::int64_t count = elements(in);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t distance = i % columns - i / columns % rows;
    c.result[i] = (upper ? distance >= k : distance <= k) ? c.inputs[0].floats[i] : 0.0F;
  }
}

constexpr Rule kChoiceRules[] = {
    {"ArgMax", extreme_shape, extreme<true>},
    {"ArgMin", extreme_shape, extreme<false>},
    {"TopK", top_shape, top},
    {"Hardmax", same_shape, hardmax},
    {"CumSum",
     [](const FloatOperator& op, std::string& why) {
       return sum_axis(op, why) < 0 ? Shape{} : op.operands[0].shape;
     },
     cumulate},
    {"Where", where_shape, where},
    {"Trilu", triangle_shape, triangle},
};

}  // namespace

std::span<const Rule> choices() {
  return kChoiceRules;
}

}  // namespace millrace::kernels::host
