// Helpers of the rules for types and shapes. Private to compiler/operators. A returned text says what is wrong
// with the node; it is empty if nothing is wrong.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/nodes.hpp"

namespace millrace::compiler::operators {

using graph::axis_in;
using graph::elements;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::to_string;
using graph::Type;
using graph::Value;
using graph::ValueId;

inline constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

/// A node whose first output is inferred: its inputs by position, and the result.
struct Inference {
  const graph::Graph& graph;
  const Node& node;
  const OnnxOperator& op;
  Type type;
  Shape shape;

  std::size_t count() const { return node.inputs.size(); }
  bool has(std::size_t i) const { return has_input(node, i); }
  const Value& in(std::size_t i) const { return graph.value(node.inputs[i]); }
  const Shape& shape_of(std::size_t i) const { return in(i).shape; }
  std::size_t rank(std::size_t i) const { return in(i).shape.size(); }
};

/// Requires the first `inputs` inputs.
std::string need(const Inference& c, std::size_t inputs);

/// The result has the type and shape of the first input.
std::string same(Inference& c);
std::string same_floats(Inference& c);

std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The integers of a constant input or, in older operator sets, of an attribute. Empty if both are missing or
/// the input is not constant.
std::optional<std::vector<std::int64_t>> integers_of(const Inference& c, std::size_t input,
                                                     const char* attribute);

/// Checks the scale and zero point of the integer operand `data`: one number, or one per channel if there are
/// `channels`.
std::string check_parameters(const Inference& c, std::size_t data, std::optional<std::size_t> scale,
                             std::size_t zero, std::int64_t channels);

/// Checks the scale and zero point of the result, whose type is that of its zero point.
std::string check_result(const Inference& c, std::size_t scale, std::size_t zero);

/// For com.microsoft operators (x, scale, zero, result scale, result zero) whose shape follows `shape_rule`.
std::string infer_qlinear(Inference& c, std::string (*shape_rule)(Inference&));

/// The first text that is not empty.
std::string first_of(std::initializer_list<std::string> reasons);

}  // namespace millrace::compiler::operators
