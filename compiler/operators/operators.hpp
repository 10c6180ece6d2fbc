// The table of the ONNX operators that the compiler supports. A row gives the type and shape of an operator's
// output, the output's value if all inputs are constants, and the integer arithmetic that replaces the operator.
// compiler/front and compiler/passes look operators up here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::operators {

struct Inference;  // rules.hpp
struct Site;       // rules.hpp

/// The result of lowering a node.
struct Outcome {
  Outcome() = default;                                             // the node is replaced
  Outcome(std::string why) : refusal(std::move(why)) {}            // NOLINT(google-explicit-constructor)
  Outcome(const char* why) : Outcome(std::string(why)) {}          // NOLINT(google-explicit-constructor)
  static Outcome later() { return Outcome(std::string(), true); }  // a later pass lowers the node
  std::string refusal;                                             // why the node is not supported
  bool is_later = false;

 private:
  Outcome(std::string why, bool later) : refusal(std::move(why)), is_later(later) {}
};

using Lowering = Outcome (*)(Site&);
using Inputs = std::vector<const graph::Value*>;  // of a node; null for an optional input that is left out

inline constexpr const char* kOnnx = "";  // the domain ai.onnx
inline constexpr const char* kMicrosoft = "com.microsoft";

/// Whether an operator can be computed together with the one before it, without a quantiser between them.
enum class Fusion : std::uint8_t { kNever, kAlways, kWithConstant };

/// How the inputs of an operator in QOperator form are laid out. Each operand is followed by its scale and its zero
/// point.
struct Expansion {
  const char* type =
      nullptr;            // the float operator that is meant: "Conv"; null if the operator has no such form
  std::size_t first = 0;  // input: the first operand
  std::size_t operands = 1;  // 0: all inputs from the first on
  bool has_weights = false;  // the second operand may have one scale per output channel
  std::size_t result = 0;    // input: the scale of the result, followed by its zero point
  std::size_t bias = 0;      // input: the bias; 0 if there is none
};

struct Operator {
  const char* type;  // "Conv"
  const char* domain = kOnnx;
  /// Sets type and shape of the first output. Returns what is wrong with the node, or an empty text.
  std::string (*infer)(Inference&) = nullptr;
  /// The first output, if all inputs are constants; null if the operator is never folded.
  std::optional<graph::Constant> (*fold)(const graph::OnnxOperator&, const Inputs&,
                                         const graph::Value& output) = nullptr;
  // The passes of these names call the lowerings, in this order. Shape, Gather and Slice have none, because they
  // are only folded. The pass remove_dead removes Identity and Dropout.
  Lowering lower_elementwise = nullptr;  // one element at a time, or moves elements
  Lowering lower_qdq = nullptr;          // sums of floats that were dequantised
  // For passes::assume_quantised().
  bool computes = false;  // a quantising tool quantises its result
  Fusion fusion = Fusion::kNever;
  Expansion expansion =
      {};  // if it has a type, the operator is replaced on import and needs nothing of the above
};

/// The operator's row; null if it is not supported.
const Operator* find(const graph::OnnxOperator& op);

/// Empty if the operator is supported. Otherwise why it is not, and what to do.
std::string why_unsupported(const graph::OnnxOperator& op);

/// The names of all supported operators, separated by commas.
std::string supported_operators();

/// Empty if every attribute is known and has its type. Otherwise the error: "attribute 'axis' must be an
/// integer".
std::string check_attributes(const graph::OnnxOperator& op);

/// Whether the presence of this operator makes a model a quantised one.
bool is_quantiser(const graph::OnnxOperator& op);

/// The type of an ONNX data type number (TensorProto.DataType); empty if it is not supported.
std::optional<graph::Type> type_of(std::int64_t onnx_number);

/// Appends the node to `out`. In place of a node in QOperator form, appends the nodes between quantisers that it means.
/// Returns what is wrong with such a node, or an empty text.
std::string expand(graph::Graph& graph, const graph::Node& node, graph::Names& names,
                   std::vector<graph::Node>& out);

/// Sets type and shape of the node's first output. Types and shapes of its inputs must be known, and the values
/// of those inputs that decide shapes. Returns what is wrong with the node, or an empty text.
std::string infer(graph::Graph& graph, const graph::Node& node);

/// The first output of a node whose inputs are constants, if it has at most `limit` elements. Its type and shape must
/// have been inferred. DequantizeLinear is never folded, so integer weights stay integers.
std::optional<graph::Constant> fold(const graph::Graph& graph, const graph::Node& node,
                                    std::int64_t limit = std::int64_t{1} << 28);

}  // namespace millrace::compiler::operators
