// The rules of infer(): each says what an operator's first output is, or what is wrong with the node. Private
// to compiler/import.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::import::rules {

using graph::Graph;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
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

// What several rules check. Texts are empty where all is well.

std::string need(const Context& c, std::size_t inputs);

/// Counted from the front; absent where it is outside.
std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank);

std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The integers of a constant input, or of an attribute in older operator sets; absent where neither is there
/// or known.
std::optional<std::vector<std::int64_t>> integers_of(const Context& c, std::size_t input,
                                                     const char* attribute);

std::string same(Context& c);

/// A scale and, where present, a zero point of the integer operand `data`: one, or one a channel where there
/// are `channels`.
std::string check_parameters(const Context& c, std::size_t data, std::optional<std::size_t> scale,
                             std::size_t zero, std::int64_t channels);

/// The same of a result, whose type is its zero point's.
std::string check_result(const Context& c, std::size_t scale, std::size_t zero);

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> reasons);

// Sums of products and windows: infer_products.cpp.

std::string conv(Context& c);
std::string conv_integer(Context& c);
std::string qlinear_conv(Context& c);
std::string matmul(Context& c);
std::string matmul_integer(Context& c);
std::string qlinear_matmul(Context& c);
std::string gemm(Context& c);
std::string qgemm(Context& c);
std::string pool(Context& c);
std::string global_pool(Context& c);

// What moves elements and leaves them as they are: infer_moves.cpp.

std::string flatten(Context& c);
std::string reshape(Context& c);
std::string squeeze(Context& c);
std::string unsqueeze(Context& c);
std::string transpose(Context& c);
std::string concat(Context& c);
/// inputs: output scale, output zero point, then (x, scale, zero point) for each.
std::string qlinear_concat(Context& c);
std::string shape_of(Context& c);
std::string gather(Context& c);
std::string slice(Context& c);

}  // namespace millrace::compiler::import::rules
