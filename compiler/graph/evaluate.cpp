// Compiled with -ffp-contract=off: folded float arithmetic rounds as ONNX Runtime's does.
#include "compiler/graph/evaluate.hpp"

#include <cmath>
#include <functional>

namespace millrace::compiler::graph {
namespace {

using Inputs = std::vector<const Value*>;

/// Row-major.
std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// For every element of `shape`, in order: where it lies in an operand read with `strides` (0 where
/// broadcast).
std::vector<std::size_t> gather_indices(const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::vector<std::size_t> result;
  const std::int64_t n = elements(shape);
  result.reserve(static_cast<std::size_t>(n));
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    result.push_back(static_cast<std::size_t>(at));
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return result;
}

std::vector<std::int64_t> broadcast_strides(const Shape& operand, const Shape& shape) {
  const std::vector<std::int64_t> own = strides_of(operand);
  std::vector<std::int64_t> result(shape.size(), 0);
  const std::size_t lead = shape.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) result[lead + d] = operand[d] == 1 ? 0 : own[d];
  return result;
}

Constant take(const Constant& from, const std::vector<std::size_t>& indices) {
  Constant c;
  for (const std::size_t i : indices) {
    if (!from.floats.empty())
      c.floats.push_back(from.floats[i]);
    else
      c.integers.push_back(from.integers[i]);
  }
  return c;
}

std::optional<Constant> arithmetic(const std::string& type, const Inputs& in, const Value& output) {
  const auto a = gather_indices(output.shape, broadcast_strides(in[0]->shape, output.shape));
  const auto b = gather_indices(output.shape, broadcast_strides(in[1]->shape, output.shape));
  Constant c;
  const auto combine = [&](const auto& x, const auto& y, auto& result, const auto& function) {
    for (std::size_t i = 0; i < a.size(); ++i) result.push_back(function(x[a[i]], y[b[i]]));
  };
  if (output.type.is_float()) {
    const std::vector<float>& x = in[0]->constant->floats;
    const std::vector<float>& y = in[1]->constant->floats;
    if (type == "Add") combine(x, y, c.floats, std::plus<float>());
    if (type == "Sub") combine(x, y, c.floats, std::minus<float>());
    if (type == "Mul") combine(x, y, c.floats, std::multiplies<float>());
    if (type == "Div") combine(x, y, c.floats, std::divides<float>());
    return c;
  }
  const std::vector<std::int64_t>& x = in[0]->constant->integers;
  const std::vector<std::int64_t>& y = in[1]->constant->integers;
  const auto wrapping = [](auto function) {
    return [function](std::int64_t p, std::int64_t q) {
      return static_cast<std::int64_t>(
          function(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q)));
    };
  };
  if (type == "Add") combine(x, y, c.integers, wrapping(std::plus<std::uint64_t>()));
  if (type == "Sub") combine(x, y, c.integers, wrapping(std::minus<std::uint64_t>()));
  if (type == "Mul") combine(x, y, c.integers, wrapping(std::multiplies<std::uint64_t>()));
  if (type == "Div") {
    for (const std::int64_t d : y)
      if (d == 0 || d == -1) return std::nullopt;
    combine(x, y, c.integers, std::divides<std::int64_t>());
  }
  return c;
}

std::optional<Constant> cast(const Value& input, const Value& output) {
  if (input.type == output.type) return *input.constant;
  Constant c;
  if (output.type.is_float()) {
    if (output.type.bits != 32) return std::nullopt;
    if (input.type.is_float()) c.floats = input.constant->floats;
    for (const std::int64_t i : input.constant->integers) c.floats.push_back(static_cast<float>(i));
    return c;
  }
  for (const float f : input.constant->floats) {
    const bool fits = f >= -9.0e18F && f <= 9.0e18F;
    if (!fits) return std::nullopt;
    c.integers.push_back(output.type.kind == Type::Kind::kBool ? (f != 0 ? 1 : 0)
                                                               : static_cast<std::int64_t>(f));
  }
  for (const std::int64_t i : input.constant->integers) c.integers.push_back(i);
  for (const std::int64_t i : c.integers)
    if (i < output.type.lowest() || i > output.type.highest()) return std::nullopt;
  return c;
}

std::optional<Constant> gather(const OnnxOperator& op, const Inputs& in, const Value& output) {
  const Shape& data = in[0]->shape;
  const auto rank = static_cast<std::int64_t>(data.size());
  std::int64_t axis = op.integer("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const std::int64_t extent = data[static_cast<std::size_t>(axis)];
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t d = 0; d < axis; ++d) outer *= data[static_cast<std::size_t>(d)];
  for (std::int64_t d = axis + 1; d < rank; ++d) inner *= data[static_cast<std::size_t>(d)];
  std::vector<std::size_t> from;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i : in[1]->constant->integers) {
      if (i < 0) i += extent;
      if (i < 0 || i >= extent) return std::nullopt;
      for (std::int64_t k = 0; k < inner; ++k)
        from.push_back(static_cast<std::size_t>((o * extent + i) * inner + k));
    }
  if (static_cast<std::int64_t>(from.size()) != elements(output.shape)) return std::nullopt;
  return take(*in[0]->constant, from);
}

std::optional<Constant> transpose(const OnnxOperator& op, const Value& input, const Value& output) {
  const std::size_t rank = input.shape.size();
  std::vector<std::int64_t> perm = op.integers("perm", {});
  if (perm.empty())
    for (std::size_t i = rank; i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  const std::vector<std::int64_t> own = strides_of(input.shape);
  std::vector<std::int64_t> strides;
  for (const std::int64_t p : perm) strides.push_back(own[static_cast<std::size_t>(p)]);
  return take(*input.constant, gather_indices(output.shape, strides));
}

std::optional<Constant> concat(const OnnxOperator& op, const Inputs& in, const Value& output) {
  const auto rank = static_cast<std::int64_t>(output.shape.size());
  std::int64_t axis = op.integer("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  std::int64_t outer = 1;
  for (std::int64_t d = 0; d < axis; ++d) outer *= output.shape[static_cast<std::size_t>(d)];
  Constant c;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Value* v : in) {
      const auto each = static_cast<std::size_t>(elements(v->shape) / outer);
      for (std::size_t k = 0; k < each; ++k) {
        const std::size_t at = static_cast<std::size_t>(o) * each + k;
        if (output.type.is_float())
          c.floats.push_back(v->constant->floats[at]);
        else
          c.integers.push_back(v->constant->integers[at]);
      }
    }
  return c;
}

/// A one-dimensional slice with step 1, as graphs that compute shapes have it.
std::optional<Constant> slice(const Inputs& in, const Value& output) {
  if (in.size() < 3 || in[1] == nullptr || in[2] == nullptr || in[0]->shape.size() != 1) return std::nullopt;
  if (in[1]->constant->integers.size() != 1) return std::nullopt;
  std::int64_t start = in[1]->constant->integers[0];
  if (start < 0) start += in[0]->shape[0];
  std::vector<std::size_t> from;
  for (std::int64_t i = 0; i < output.shape[0]; ++i) from.push_back(static_cast<std::size_t>(start + i));
  for (const std::size_t i : from)
    if (i >= in[0]->constant->size()) return std::nullopt;
  return take(*in[0]->constant, from);
}

std::optional<Constant> quantise(const OnnxOperator& op, const Inputs& in, const Value& output) {
  const Value& x = *in[0];
  const Value& scale = *in[1];
  std::int64_t axis = op.integer("axis", 1);
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  if (axis < 0) axis += rank;
  std::int64_t inner = 1, extent = 1;
  if (scale.constant->size() > 1) {
    if (axis < 0 || axis >= rank || scale.shape.size() != 1) return std::nullopt;
    extent = x.shape[static_cast<std::size_t>(axis)];
    for (std::int64_t d = axis + 1; d < rank; ++d) inner *= x.shape[static_cast<std::size_t>(d)];
    if (extent != static_cast<std::int64_t>(scale.constant->size())) return std::nullopt;
  }
  const std::size_t zeros = in.size() < 3 || in[2] == nullptr ? 1 : in[2]->constant->integers.size();
  if (scale.constant->floats.empty() || (zeros != 1 && zeros != scale.constant->floats.size()))
    return std::nullopt;
  Constant c;
  for (std::size_t i = 0; i < x.constant->floats.size(); ++i) {
    const auto channel = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % extent);
    const std::int64_t zero = in.size() < 3 || in[2] == nullptr       ? 0
                              : in[2]->constant->integers.size() == 1 ? in[2]->constant->integers[0]
                                                                      : in[2]->constant->integers[channel];
    const Chain q{{Step::quantise({scale.constant->floats[channel]}, zero, output.type.lowest(),
                                  output.type.highest())}};
    c.integers.push_back(q.evaluate(Number{true, 0, x.constant->floats[i]}, 0).integer);
  }
  return c;
}

}  // namespace

std::optional<Constant> evaluate(const OnnxOperator& op, const Inputs& in, const Value& output,
                                 std::int64_t limit) {
  if (elements(output.shape) > limit) return std::nullopt;
  if (op.type == "Shape" && in.size() == 1 && in[0] != nullptr) {
    if (op.has("start") || op.has("end")) return std::nullopt;
    return Constant{{}, in[0]->shape};
  }
  for (const Value* v : in)
    if (v != nullptr && v->constant == nullptr) return std::nullopt;
  if (in.empty() || in[0] == nullptr) return std::nullopt;
  const std::string& t = op.type;
  if (t == "Identity" || t == "Reshape" || t == "Flatten" || t == "Squeeze" || t == "Unsqueeze" ||
      t == "Dropout")
    return *in[0]->constant;
  const bool two = in.size() == 2 && in[1] != nullptr;
  if ((t == "Add" || t == "Sub" || t == "Mul" || t == "Div") && two) return arithmetic(t, in, output);
  if (t == "Cast") return cast(*in[0], output);
  if (t == "Gather" && two) return gather(op, in, output);
  if (t == "Transpose") return transpose(op, *in[0], output);
  if (t == "Concat") return concat(op, in, output);
  if (t == "Slice") return slice(in, output);
  if (t == "QuantizeLinear" && in.size() >= 2 && in[1] != nullptr) return quantise(op, in, output);
  return std::nullopt;
}

}  // namespace millrace::compiler::graph
