// Types and functions that the entries of the operator table share. Private to compiler/operators and to the passes
// that call lowering functions. A function that returns a text returns what is wrong with the node, or an empty text.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/operators/operators.hpp"

namespace millrace::compiler::operators {

using graph::axis_in;
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

// The entries of the operator table, grouped by family of operators.
std::span<const Operator> activations();  // functions of one element, and Softmax
std::span<const Operator> arithmetic();   // Add, Sub, Mul, Div, Cast, BatchNormalization
std::span<const Operator> host();   // operators that only the host computes, unless another family has them
std::span<const Operator> moves();  // operators that move or join elements
std::span<const Operator> pools();
std::span<const Operator> products();  // convolutions and matrix products
std::span<const Operator> qonnx();     // Quant, BipolarQuant, Trunc, MultiThreshold
std::span<const Operator> qoperators();
std::span<const Operator> quantisers();
std::span<const Operator> selections();  // operators that select, repeat or reorder elements
std::span<const Operator> transposed();  // ConvTranspose

/// The maximum number of elements of a tensor that a node computes. The compiler may need more than 20 bytes for each
/// element.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 27;

/// A node whose first output's type and shape are being inferred. Inputs are numbered by position.
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

/// Checks that the node has its first `inputs` inputs.
std::string need(const Inference& c, std::size_t inputs);

/// Gives the output the type and shape of the first input. same_floats() also checks that the type is float32.
std::string same(Inference& c);
std::string same_floats(Inference& c);

std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// Returns the integers of a constant input or, in older operator sets, of an attribute. Returns nothing if both are
/// missing or the input is not constant.
std::optional<std::vector<std::int64_t>> integers_of(const Inference& c, std::size_t input,
                                                     const char* attribute);

/// Infers the output of an operator of kernels/host on float32.
std::string infer_host(Inference& c);
/// Computes an operator of kernels/host on constants. Returns nothing if kernels/host does not take this form.
std::optional<Constant> fold_host(const OnnxOperator& op, const Inputs& in, const Value& output);

/// Adds the constants of a Function step to `op` as the attributes of its ONNX operator.
void add_constants(const Step& step, kernels::FloatOperator& op);

/// The ONNX node that is being lowered. The nodes that replace it go to `out`. All old nodes stay in `graph` during the
/// pass, so that producers can be looked up.
struct Site {
  Graph& graph;
  const graph::Uses& uses;
  std::vector<Node>& out;
  std::vector<bool>& absorbed;  // [index in graph.nodes]: whether the node is now part of another node
  const Node& node;
  const OnnxOperator& op;

  const Value& in(std::size_t i) const { return graph.value(node.inputs[i]); }
  const Value& result() const { return graph.value(node.outputs[0]); }
  bool has(std::size_t i) const { return has_input(node, i); }
  const Constant* constant(std::size_t i) const { return constant_input(graph, node, i); }
  const Node* producer(std::size_t i) const { return producer_of(graph, uses, node.inputs[i]); }

  /// Appends a node that computes `output`. Its name is the old node's name with `suffix`.
  void emit(graph::Operation operation, std::vector<ValueId> inputs, ValueId output,
            const std::string& suffix = {});
  /// Appends a node that computes the old node's output.
  Outcome give(graph::Operation operation, std::vector<ValueId> inputs);
  /// Appends a Move of `x` to a new value, whose name is that of `x` with `suffix`.
  ValueId move(ValueId x, std::vector<std::int64_t> perm, Shape shape, const char* suffix);
};

/// Returns the step for an operator that computes a float function of one element, such as Sigmoid. Returns nothing for
/// any other operator.
std::optional<Step> activation_step(const OnnxOperator& op);

/// Returns the unrounded result of ONNX Runtime's QLinearAdd for the operands 0 and 0, after `shift` was added to both
/// operands' integers. The steps are the two dequantisations and the quantisation.
float qlinear_add_of_zeros(const Step& a, const Step& b, const Step& quantise, std::int64_t shift = 0);

/// A constant that broadcasts over a shape along at most one axis. It has one element, or one for each index of the
/// axis. `axis` is -1 if there is one element.
struct AxisConstant {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::int64_t axis = -1;
};
/// Returns `constant` as an AxisConstant. Returns nothing if it varies along several axes or enlarges the shape.
std::optional<AxisConstant> along_axis(const Value& constant, const Shape& shape);

}  // namespace millrace::compiler::operators
