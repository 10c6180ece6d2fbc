#include "compiler/operators/inference.hpp"

#include <algorithm>

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

}  // namespace millrace::compiler::operators
