// The compiler's intermediate representation: a graph whose nodes compute values, as plain C++ data.
//
// A graph passes through levels (enum Level). At first its nodes are ONNX operators. In the end they are integer
// operations, and the model's float32 chains are their exact references. compiler/passes makes a kernels::Program from
// that last graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "compiler/graph/chain.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::graph {

struct Type {
  /// The values of kBipolar are -1 and +1. Only the pass narrow_signs gives a value this type.
  enum class Kind : std::uint8_t { kFloat, kSigned, kUnsigned, kBool, kBipolar };
  Kind kind = Kind::kFloat;
  std::uint8_t bits = 32;  // floats have 16, 32 or 64 bits, integers 1 to 64, bools 8

  bool is_float() const { return kind == Kind::kFloat; }
  bool is_integer() const { return kind != Kind::kFloat && kind != Kind::kBool; }
  std::int64_t lowest() const;  // only for integer types; clamped to the range of int64
  std::int64_t highest() const;
  bool operator==(const Type&) const = default;

  static Type float32() { return {Kind::kFloat, 32}; }
  static Type integer(int bits) { return {Kind::kSigned, static_cast<std::uint8_t>(bits)}; }
  static Type natural(int bits) { return {Kind::kUnsigned, static_cast<std::uint8_t>(bits)}; }
  static Type bipolar() { return {Kind::kBipolar, 1}; }
  /// Returns the smallest signed type that can represent `lowest` and `highest`.
  static Type holding(std::int64_t lowest, std::int64_t highest);
};

std::string to_string(Type type);  // returns "float32", "int8" or "uint8", for example
kernels::ElementType element_type(Type type);

/// Returns the type's name in the Open Inference Protocol ("FP32", "UINT8", …); empty if the protocol has no name.
std::string datatype(Type type);

using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
std::string to_string(const Shape& shape);  // returns "1x3x32x32", for example

/// Returns the row-major strides of a shape, counted in elements.
std::vector<std::int64_t> strides_of(const Shape& shape);

/// Returns, for each element of `shape` in row-major order, the sum of the element's indices times `strides`.
std::vector<std::size_t> strided_indices(const Shape& shape, const std::vector<std::int64_t>& strides);

/// Converts an axis that may be negative (counted from the back) to one counted from the front. Returns nothing if a
/// tensor with `rank` axes has no such axis.
std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank);

/// Maps the position of an element in a row-major tensor to its index along one axis.
struct AlongAxis {
  std::size_t inner = 1, extent = 1;  // the defaults give every element index 0
  AlongAxis() = default;
  AlongAxis(const Shape& shape, std::size_t axis);
  std::size_t index(std::size_t element) const { return element / inner % extent; }
};

/// The elements of a value known at compile time, row-major. Float types use `floats`, all other types `integers`.
struct Constant {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = 0xFFFFFFFFU;  // stands for an optional input that the ONNX node omits

struct Value {
  std::string name;  // unique in the graph; the name of the ONNX value if there is one
  Type type;
  Shape shape;                               // includes the batch axis
  std::shared_ptr<const Constant> constant;  // null if the value depends on the model's input
  // Only for reports: an integer q represents the number (q - zero_point) * scale.
  std::vector<float> scale;
  std::int32_t zero_point = 0;
};

using Attribute =
    std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;

/// An ONNX operator as it is written in the file.
struct OnnxOperator {
  std::string domain;  // empty for the standard domain ai.onnx
  std::string type;
  std::int64_t opset = 0;
  std::map<std::string, Attribute> attributes;
  bool qlinear = false;  // whether it is a part of a QLinear operator, which ONNX Runtime computes as a whole
  bool written = false;  // whether the model writes this conversion itself (Step::written)

  bool has(const std::string& name) const { return attributes.contains(name); }
  /// Returns an attribute, or `otherwise` if the operator has no attribute with this name and type.
  template <class T>
  T get(const std::string& name, T otherwise) const {
    const auto it = attributes.find(name);
    const T* value = it == attributes.end() ? nullptr : std::get_if<T>(&it->second);
    return value == nullptr ? otherwise : *value;
  }
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const { return get(name, otherwise); }
  float real(const std::string& name, float otherwise) const { return get(name, otherwise); }
  std::string text(const std::string& name, std::string otherwise) const { return get(name, otherwise); }
  std::vector<std::int64_t> integers(const std::string& name, std::vector<std::int64_t> otherwise) const {
    return get(name, std::move(otherwise));
  }
};

/// A convolution or, if `dense`, a fully connected layer: acc = sum (x - input_zero) * (w - weight_zero[o]) + bias[o].
/// The input x is [1, C, H, W], or [1, K] if `dense`. The result is the integer chain(acc), or acc itself if `chain` is
/// empty. Windows (also those of pools) slide over the last two axes of [1, C, H, W].
struct Accumulate {
  bool dense = false;
  kernels::Window window;
  std::int64_t groups = 1;
  std::int64_t out_channels = 0;
  Type weight_type;
  std::shared_ptr<const Constant> weights;  // [O][C / groups][kh][kw]; dense: [O][K]
  std::vector<std::int64_t> weight_zero;    // one entry for all output channels, or one for each
  std::int64_t input_zero = 0;
  std::vector<std::int64_t> bias;  // empty, or one entry for each output channel
  Chain chain;
};

/// Applies a chain of functions to each element. If a constant of the chain has several entries, they run along `axis`.
struct Elementwise {
  Chain chain;
  std::int64_t axis = -1;  // -1 if all constants are scalars
};

struct MaxPool {
  kernels::Window window;
};

/// Computes chain(sum over the window of (x - zero)) for each channel. Padding counts as x = zero.
struct SumPool {
  kernels::Window window;
  std::int64_t zero = 0;
  Chain chain;
};

/// Computes tail(a(x) + b(y)), or another function of two operands in place of the sum. The chains (of element-wise
/// functions) `a` and `b` convert the operands to float32.
struct Combine {
  enum class Kind : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kMinimum, kMaximum };
  /// All kinds of arithmetic except kAsWritten compute three steps as one: the dequantisation in `a`, the
  /// dequantisation in `b`, and the quantiser at the start of `tail`.
  enum class Arithmetic : std::uint8_t {
    kAsWritten,
    kQLinear,          // computed like ONNX Runtime's QLinearAdd and QLinearMul
    kQLinearUnsigned,  // like kQLinear, for int8 tensors that ONNX Runtime converts to uint8
  };
  Kind kind = Kind::kAdd;
  Arithmetic arithmetic = Arithmetic::kAsWritten;
  Chain a, b, tail;
};

/// Returns the name of a kind of Combine for printing: "add".
const char* to_string(Combine::Kind kind);

/// Returns what a Combine of this kind computes from its operands, in float32.
float combined(Combine::Kind kind, float x, float y);

/// Moves elements: transposes the input by `perm` (unless empty), then gives the result the output's shape.
struct Move {
  std::vector<std::int64_t> perm;
};

/// Selects, repeats or moves elements with the loops of a kernels::Rearrange, which number the elements row-major in
/// the ONNX shapes. A Select becomes a block. A Move, in contrast, keeps every element and costs nothing until the
/// order of its elements matters.
struct Select {
  kernels::Rearrange loops;
};

struct Concat {
  std::int64_t axis = 1;
};

/// Computes Softmax along the last axis, in float32.
struct Softmax {};

/// An ONNX operator on float32 values that the host computes, because no hardware takes it. The node's inputs are the
/// operands of kind kTensor, in order; constants are part of the operator.
struct HostOperator {
  kernels::FloatOperator op;
};

/// Nodes of the ONNX file that a plugin computes as one block. All inputs and outputs are integers. The node is allowed at
/// every level, and passes leave it as it is.
struct PluginOperator {
  kernels::PluginOperator op;
};

using Operation = std::variant<OnnxOperator, Accumulate, Elementwise, MaxPool, SumPool, Combine, Move, Select,
                               Concat, Softmax, HostOperator, PluginOperator>;

struct Node {
  std::string name;  // unique in the graph
  Operation operation;
  std::vector<ValueId> inputs;  // only ONNX operators may contain kNoValue
  std::vector<ValueId> outputs;
  std::vector<std::string> sources;  // the names of the ONNX nodes that this node implements
  /// Whether the compiler does not support the node: Graph::refusals has the reason, and later passes skip the node.
  bool refused = false;
};

/// Returns an operation's name for printing and messages: "Conv", "accumulate".
std::string operation_name(const Operation& operation);

/// A note for the model's owner, for example that a bias was rounded or that an operator's results may differ.
struct Diagnostic {
  std::string node;
  std::string message;
  std::vector<std::string> sources =
      {};  // if the host computes a part of a node: the names of the ONNX nodes
};

/// A node that the compiler does not support.
struct Refusal {
  std::string node;                  // the operator and the name: "Conv 'c'"
  std::vector<std::string> sources;  // the names of the ONNX nodes
  std::string reason;                // "its batch is 2, not 1"
};

/// An input or output of the graph as the ONNX file declares it. No pass changes signatures.
struct Signature {
  std::string name;
  Type type;
  Shape shape;  // includes the batch axis
};

class Names {
 public:
  /// Returns `wanted`, with a number appended if that name is already used.
  std::string unique(const std::string& wanted);
  void take(const std::string& name) { next_.emplace(name, 1); }

 private:
  std::unordered_map<std::string, int> next_;  // maps a used name to the next number to append
};

struct Graph {
  std::string name;
  std::vector<Value> values;  // indexed by ValueId; some values may be unused
  std::vector<Node> nodes;    // the producer of a value precedes its readers
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Signature> input_signatures;   // in the order of `inputs`
  std::vector<Signature> output_signatures;  // in the order of `outputs`
  std::vector<Diagnostic> diagnostics;
  std::vector<Refusal> refusals;  // which nodes are not supported, and why

  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }

  /// Adds a value. If another value has the same name, a suffix makes the new name unique.
  ValueId add_value(std::string name, Type type, Shape shape);
  ValueId add_constant(std::string name, Type type, Shape shape, Constant constant);

 private:
  Names value_names_;
  std::size_t named_ = 0;  // how many of `values` have their names in value_names_
};

/// The producer and the readers of each value. A snapshot: it becomes invalid when nodes change.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<std::int64_t> producer;  // index of a node; -1 for graph inputs and constants
  /// For each value, the indices of the nodes that read it. A node that reads the value twice occurs twice.
  std::vector<std::vector<std::size_t>> readers;
  std::vector<bool> is_output;
};

/// Sorts nodes so that producers come before readers. Returns null on success. If there is a cycle, nothing is changed
/// and the result is a node that depends on its own output.
const Node* sort_nodes(Graph& graph);

/// Returns the node's ONNX operator, or null if the node is another operation.
const OnnxOperator* onnx_of(const Node& node);
bool is_onnx(const Node& node, const char* type);

/// has_input() returns whether an ONNX node has input `i`. constant_input() returns the constant of that input. It
/// returns null if the input is missing or not constant.
bool has_input(const Node& node, std::size_t i);
const Constant* constant_input(const Graph& graph, const Node& node, std::size_t i);

/// Returns the node that produces `value`. Returns null for a graph input or a constant.
const Node* producer_of(const Graph& graph, const Uses& uses, ValueId value);

/// Returns the elements of a float value that is a constant or is dequantised from a constant; otherwise nothing.
/// `uses` must be made from `graph`.
std::optional<std::vector<float>> known_floats(const Graph& graph, const Uses& uses, ValueId id);

/// Records that no pass supports the node. The node stays in the graph unchanged. Later passes skip it and all nodes
/// that depend on it, so that one error can list all unsupported nodes.
void refuse(Graph& graph, Node& node, const std::string& reason);

/// Returns for each value whether it depends on an input of the graph. The producer of a value must precede its readers.
std::vector<bool> dynamic_values(const Graph& graph);

/// Makes each value in `loose` an output of the graph if the value depends on a graph input, has a producer and has no
/// reader.
void add_outputs(Graph& graph, const std::set<ValueId>& loose);

/// Takes the nodes that implement one of these ONNX nodes out of the graph. A value that only these nodes produced
/// becomes an input of the graph, and a value that only these nodes read becomes an output. The remaining nodes thus
/// keep their meaning, as if another program computed the removed nodes. Returns the number of removed nodes.
std::size_t cut(Graph& graph, const std::set<std::string>& sources);

/// Returns the error kUnsupported, which lists at most ten refused nodes and says how many more there are.
Error refusal_error(const Graph& graph);

Node make_node(std::string name, Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources);

/// Returns the names in `a`, followed by the names in `b` that are not in `a`.
std::vector<std::string> join_sources(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Records which scale and zero point the integers in `value` have. Reports show both.
void note_meaning(Value& value, const std::vector<float>& scale, const std::vector<std::int64_t>& zero_point);
void copy_meaning(Graph& graph, ValueId from, ValueId to);

/// Adds a diagnostic if rounding changed the node's bias by more than a thousandth of an accumulator step.
void note_rounded_bias(Graph& graph, const Node& node, double accumulator_steps);

/// Returns the graph as text for --dump-after: one line per node, in order, with types and shapes.
std::string print(const Graph& graph);

/// The window of an ONNX Conv or pooling operator, with all attributes resolved.
struct ResolvedWindow {
  kernels::Window window;  // one-dimensional windows have kernel_h = 1
  std::int64_t out_h = 0, out_w = 0;
  bool padded = false;  // whether some position of the window reads outside the input
};

/// Resolves the window attributes of `op`. `input` is [N, C, W] or [N, C, H, W], and `kernel` has one extent per
/// spatial axis. If the window is not valid, the result is empty and `why` has the reason.
std::optional<ResolvedWindow> resolve_window(const OnnxOperator& op, const Shape& input,
                                             const std::vector<std::int64_t>& kernel, std::string& why);

/// Returns the lengths of the result's spatial axes for an ONNX Conv or pooling operator with any number of spatial
/// axes. The arguments are as in resolve_window().
std::optional<std::vector<std::int64_t>> windowed_extents(const OnnxOperator& op, const Shape& input,
                                                          const std::vector<std::int64_t>& kernel,
                                                          std::string& why);

/// Which operations a graph may contain. These rules are checked after every pass. A violation is a bug of the compiler
/// (kInternal) in the pass that ran before the check.
enum class Level : std::uint8_t {
  kImported,  // ONNX operators only
  kMixed,     // ONNX operators and integer arithmetic
  kInteger,   // integer arithmetic only
};

const char* to_string(Level level);

/// Checks the structure (ids, names, order, one producer per value), that the level allows each operation, and the
/// inputs, types, shapes and constants of each operation.
Status verify(const Graph& graph, Level level);

}  // namespace millrace::compiler::graph
