// Helpers of the lowering functions. Private to compiler/operators and the passes that call these functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/nodes.hpp"
#include "compiler/operators/operators.hpp"
#include "compiler/operators/qlinear_kernels.hpp"

namespace millrace::compiler::operators {

using graph::Chain;
using graph::Combine;
using graph::Constant;
using graph::elements;
using graph::Elementwise;
using graph::Graph;
using graph::Move;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::Step;
using graph::to_string;
using graph::Type;
using graph::Value;
using graph::ValueId;

/// The ONNX node that is being lowered. The replacing nodes go to `out`. All old nodes stay in `graph`
/// meanwhile, so that producers can be looked up.
struct Site {
  Graph& graph;
  const graph::Uses& uses;
  std::vector<Node>& out;
  std::vector<bool>& absorbed;  // by index in graph.nodes: has become part of another node
  const Node& node;
  const OnnxOperator& op;

  const Value& in(std::size_t i) const { return graph.value(node.inputs[i]); }
  const Value& result() const { return graph.value(node.outputs[0]); }
  bool has(std::size_t i) const { return has_input(node, i); }
  const Constant* constant(std::size_t i) const { return constant_input(graph, node, i); }
  const Node* producer(std::size_t i) const { return producer_of(graph, uses, node.inputs[i]); }

  /// Appends a node that computes `output`. Its name is the old node's with `suffix`.
  void emit(graph::Operation operation, std::vector<ValueId> inputs, ValueId output,
            const std::string& suffix = {});
  /// Appends a node that computes the old node's output.
  Outcome give(graph::Operation operation, std::vector<ValueId> inputs);
  /// Appends a Move of `x` to a new value, named after `x` with `suffix`.
  ValueId move(ValueId x, std::vector<std::int64_t> perm, Shape shape, const char* suffix);
};

/// Reads the constants of a node in QOperator form. It remembers the first error.
class Parameters {
 public:
  explicit Parameters(const Site& site) : site_(site) {}

  float scale(std::size_t i);
  std::vector<float> scales(std::size_t i);
  /// 0 if the input is left out.
  std::int64_t zero(std::size_t i);
  std::vector<std::int64_t> zeros(std::size_t i);
  std::vector<std::int64_t> bias(std::size_t i);
  /// The dequantisation by scale `i` and zero point `i` + 1.
  Step dequantise(std::size_t i) { return Step::dequantise({scale(i)}, zero(i + 1)); }
  /// The quantisation to the node's result by scale `i` and zero point `i` + 1.
  Step quantise(std::size_t i);
  /// Empty if nothing was wrong.
  const std::string& error() const { return error_; }

 private:
  void fail(std::size_t input, const char* what, const char* why);
  const Site& site_;
  std::string error_;
};

/// A constant that broadcasts over a shape along at most one axis: its elements (one, or as many as that axis
/// is long) and the axis (-1 if there is one element).
struct AxisConstant {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::int64_t axis = -1;
};
/// Empty if the constant varies along several axes or enlarges the shape.
std::optional<AxisConstant> along_axis(const Value& constant, const Shape& shape);

}  // namespace millrace::compiler::operators
