// The table of the ONNX operators that the compiler supports. The functions in an operator's entry compute the type and
// shape of its output, the output's value if all inputs are constants, and the integer arithmetic that replaces the
// operator. compiler/front and compiler/passes look operators up here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "kernels/host/float_operator.hpp"

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
using Inputs = std::vector<const graph::Value*>;  // a node's inputs; null for an absent optional input

inline constexpr const char* kOnnx = "";  // the domain ai.onnx
inline constexpr const char* kMicrosoft = "com.microsoft";
inline constexpr const char* kQonnx = "qonnx.custom_op.general";  // find() takes older names of it as well

/// Whether an operator can be computed together with the operator before it, without a quantiser between them.
enum class Fusion : std::uint8_t { kNever, kAlways, kWithConstant };

/// The order of the inputs of an operator in QOperator form. Each operand is followed by its scale and its zero point.
struct Expansion {
  // The float operator that replaces this operator, such as "Conv". Null if this operator is not in QOperator form.
  const char* type = nullptr;
  std::size_t first = 0;     // index of the input that is the first operand
  std::size_t operands = 1;  // number of operands; 0 means all inputs from the first operand on
  bool has_weights = false;  // the second operand may have one scale per output channel
  std::size_t result = 0;    // index of the input that is the result's scale; its zero point follows
  std::size_t bias = 0;      // index of the input that is the bias; 0 if there is none
};

/// Appends to `out` the nodes that replace a node of a dialect (QONNX or FINN). Returns what is wrong with the node, or
/// an empty text.
using Rewrite = std::string (*)(graph::Graph&, const graph::Node&, graph::Names&,
                                std::vector<graph::Node>& out);

struct Operator {
  const char* type;  // "Conv"
  const char* domain = kOnnx;
  /// Sets type and shape of the first output. Returns what is wrong with the node, or an empty text.
  std::string (*infer)(Inference&) = nullptr;
  /// Computes the first output if all inputs are constants. The pointer is null if the operator is never folded.
  std::optional<graph::Constant> (*fold)(const graph::OnnxOperator&, const Inputs&,
                                         const graph::Value& output) = nullptr;
  // The passes lower_elementwise and lower_qdq call these functions, in this order. Shape has neither function, because it
  // can only be folded. The pass remove_dead removes Identity and Dropout.
  Lowering lower_elementwise = nullptr;  // for operators that compute single elements or move elements
  Lowering lower_qdq = nullptr;          // for operators that sum dequantised floats
  // Only passes::assume_quantised() uses the next two fields.
  bool computes = false;  // a quantising tool quantises its result
  Fusion fusion = Fusion::kNever;
  // If `expansion` or `rewrite` is set, the importer replaces the operator, and all fields above are ignored.
  Expansion expansion = {};
  Rewrite rewrite = nullptr;
  bool hosted = false;           // lower_elementwise gives a block that only the host computes
  const char* limits = nullptr;  // the forms that are taken, for the list of operators; null: all forms
};

/// Returns the operator's entry in the table, or null if the operator is not supported.
const Operator* find(const graph::OnnxOperator& op);

/// Whether only the host computes the operator, in float32.
bool is_host_only(const Operator& row);

/// Whether a quantising tool quantises the operator's result, because the operator computes it or only the host does.
bool needs_quantiser(const graph::OnnxOperator& op);

/// Returns why the operator is not supported and what to do about it, or an empty text if it is supported.
std::string why_unsupported(const graph::OnnxOperator& op);

/// Returns the names of all supported operators, separated by commas.
std::string supported_operators();

/// Whether hardware computes an operator. kNoWork: the import removes the operator, so nothing is left to compute.
enum class Computed : std::uint8_t { kNo, kYes, kNoWork };

/// An operator that a model may contain, for the list of operators.
struct ListedOperator {
  std::string type, domain;
  Computed hardware = Computed::kNo;
  bool host = false;   // the host computes it in float32
  std::string limits;  // may be empty
};

/// Returns all operators, sorted by name: first those of the domain ai.onnx, then those of other domains.
std::vector<ListedOperator> listed_operators();

/// Returns listed_operators() as a table in Markdown, which README.md contains. A test compares the two.
std::string operator_table();

/// Checks that every attribute of the operator is known and has the right type, and that required attributes are there.
/// Returns an error such as "attribute
/// 'axis' must be an integer", or an empty text.
std::string check_attributes(const graph::OnnxOperator& op);

/// Returns the most inputs that a definition of the operator allows. Returns nothing if any number is allowed, or if the
/// operator is not supported.
std::optional<std::size_t> most_inputs(const graph::OnnxOperator& op);

/// Whether a model that contains this operator counts as quantised.
bool is_quantiser(const graph::OnnxOperator& op);

/// Returns the type for an ONNX data type number (TensorProto.DataType), or nothing if it is not supported.
std::optional<graph::Type> type_of(std::int64_t onnx_number);

/// Appends the node to `out`. If the node is in QOperator form or of a dialect (QONNX or FINN), instead appends the
/// equivalent float operator between dequantisers and quantisers. Returns what is wrong with the node, or an empty
/// text.
std::string expand(graph::Graph& graph, const graph::Node& node, graph::Names& names,
                   std::vector<graph::Node>& out);

/// Appends the node to `out`. Some nodes are replaced: a Split by one Slice for each output, a TopK by one node for each
/// output, an Einsum by Transposes and a MatMul, a Sum, Mean, Min or Max of one tensor by an Identity. An ArgMax or
/// ArgMin of integers gets a Cast before it. The shapes of the node's inputs must be known. Returns what is wrong with
/// the node, or an empty text.
std::string separate_outputs(graph::Graph& graph, const graph::Node& node, graph::Names& names,
                             std::vector<graph::Node>& out);

/// Sets type and shape of the node's first output. The types and shapes of its inputs must be known, and also the
/// values of inputs on which the output's shape depends. Returns what is wrong with the node, or an empty text.
std::string infer(graph::Graph& graph, const graph::Node& node);

/// Checks that the elements of `scale`, which is input `i` (counted from 0), are finite and above 0 if they are known.
/// Returns what is wrong, or an empty text.
std::string check_scale(const graph::Value& scale, std::size_t i);

/// Returns the first output of a node whose inputs are constants, if the output has at most `limit` elements. Its type
/// and shape must have been inferred. DequantizeLinear is never folded, so integer weights stay integers.
std::optional<graph::Constant> fold(const graph::Graph& graph, const graph::Node& node,
                                    std::int64_t limit = std::int64_t{1} << 28);

/// Returns the node as an operator that kernels/host computes. Inputs that are constant, or dequantised from constants if
/// `uses` is given, become constants of the operator. The others become its operands of kind kTensor, in order. Returns
/// nothing if kernels/host does not know the operator, or if one of these operands or the output is not float32. The
/// result is not checked (kernels::host::check()).
std::optional<kernels::FloatOperator> float_operator(const graph::Graph& graph, const graph::Node& node,
                                                     const graph::Uses* uses = nullptr);

/// Converts a step of a chain (of element-wise functions), from float to float, to an operator that kernels/host
/// computes on a tensor of this shape. A constant with several entries runs along `axis`. Returns nothing if no such
/// operator exists.
std::optional<kernels::FloatOperator> float_operator(const graph::Step& step, const graph::Shape& shape,
                                                     std::int64_t axis);

}  // namespace millrace::compiler::operators
