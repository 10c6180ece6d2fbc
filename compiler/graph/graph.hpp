// The compiler's intermediate representation: values joined by nodes, plain C++.
//
// A graph passes through levels (enum Level). At first its nodes are ONNX operators. At last they are integer
// arithmetic with the model's float32 chains as exact references, from which compiler/passes makes a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "compiler/graph/chain.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::graph {

struct Type {
  enum class Kind : std::uint8_t { kFloat, kSigned, kUnsigned, kBool };
  Kind kind = Kind::kFloat;
  std::uint8_t bits = 32;  // float: 16, 32, 64; integers 1..64; bool 8

  bool is_float() const { return kind == Kind::kFloat; }
  bool is_integer() const { return kind == Kind::kSigned || kind == Kind::kUnsigned; }
  std::int64_t lowest() const;  // of an integer type, clamped to the range of int64
  std::int64_t highest() const;
  bool operator==(const Type&) const = default;

  static Type float32() { return {Kind::kFloat, 32}; }
  static Type integer(int bits) { return {Kind::kSigned, static_cast<std::uint8_t>(bits)}; }
  static Type natural(int bits) { return {Kind::kUnsigned, static_cast<std::uint8_t>(bits)}; }
  /// The smallest signed type that holds both numbers.
  static Type holding(std::int64_t lowest, std::int64_t highest);
};

std::string to_string(Type type);  // "float32", "int8", "uint8"
kernels::ElementType element_type(Type type);

/// The type's name in the Open Inference Protocol: "FP32", "UINT8", …; empty if the protocol has none.
std::string datatype(Type type);

using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
std::string to_string(const Shape& shape);  // "1x3x32x32"

/// Row-major strides, in elements.
std::vector<std::int64_t> strides_of(const Shape& shape);

/// For each element of `shape`, in order: the sum of its indices times `strides`.
std::vector<std::size_t> strided_indices(const Shape& shape, const std::vector<std::int64_t>& strides);

/// `axis`, counted from the front even if it is negative. Empty if there is no such axis.
std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank);

/// Maps the position of an element in a row-major tensor to its index along one axis.
struct AlongAxis {
  std::size_t inner = 1, extent = 1;  // by default, every element has index 0
  AlongAxis() = default;
  AlongAxis(const Shape& shape, std::size_t axis);
  std::size_t index(std::size_t element) const { return element / inner % extent; }
};

/// Elements of a value known at compile time, row-major: `floats` for float types, `integers` for all others.
struct Constant {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = 0xFFFFFFFFU;  // an optional input that was left out

struct Value {
  std::string name;  // unique; the ONNX value's name if there is one
  Type type;
  Shape shape;                               // with the batch axis
  std::shared_ptr<const Constant> constant;  // null if the value depends on the model's input
  // For reports: an integer q represents (q - zero_point) * scale.
  std::vector<float> scale;
  std::int32_t zero_point = 0;
};

using Attribute =
    std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;

/// An ONNX operator as in the file.
struct OnnxOperator {
  std::string domain;  // "" for ai.onnx
  std::string type;
  std::int64_t opset = 0;
  std::map<std::string, Attribute> attributes;
  bool qlinear = false;  // part of a QLinear operator, which ONNX Runtime computes as a whole

  bool has(const std::string& name) const { return attributes.contains(name); }
  /// An attribute, or `otherwise` if the operator does not have it with this type.
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

/// acc = sum (x - input_zero) * (w - weight_zero[o]) + bias[o]. x is [1, C, H, W], or [1, K] if `dense`.
/// The result is the integer chain(acc), or acc itself if `chain` is empty. Windows of this and of the pools are
/// over the last two axes of [1, C, H, W].
struct Accumulate {
  bool dense = false;
  kernels::Window window;
  std::int64_t groups = 1;
  std::int64_t out_channels = 0;
  Type weight_type;
  std::shared_ptr<const Constant> weights;  // [O][C / groups][kh][kw]; dense: [O][K]
  std::vector<std::int64_t> weight_zero;    // one, or one per output channel
  std::int64_t input_zero = 0;
  std::vector<std::int64_t> bias;  // empty, or one per output channel
  Chain chain;
};

/// Applies a chain to each element. Constants with several entries run along `axis`.
struct Elementwise {
  Chain chain;
  std::int64_t axis = -1;  // -1 if all constants are scalars
};

struct MaxPool {
  kernels::Window window;
};

/// chain(sum over the window of (x - zero)), channel by channel; padding counts as x = zero.
struct SumPool {
  kernels::Window window;
  std::int64_t zero = 0;
  Chain chain;
};

/// tail(a(x) + b(y)) or tail(a(x) * b(y)): `a` and `b` convert the operands to float32.
struct Combine {
  enum class Kind : std::uint8_t { kAdd, kMultiply };
  /// All but kAsWritten compute three steps together: one dequantisation in `a`, one in `b`, and the quantiser
  /// at the start of `tail`.
  enum class Arithmetic : std::uint8_t {
    kAsWritten,
    kQLinear,          // as ONNX Runtime's QLinearAdd and QLinearMul
    kQLinearUnsigned,  // the same on int8 tensors that ONNX Runtime converts to uint8
  };
  Kind kind = Kind::kAdd;
  Arithmetic arithmetic = Arithmetic::kAsWritten;
  Chain a, b, tail;
};

/// Moves elements: transposes by `perm` (unless empty), then reads the result in the output's shape.
struct Move {
  std::vector<std::int64_t> perm;
};

struct Concat {
  std::int64_t axis = 1;
};

/// Softmax along the last axis, in float32.
struct Softmax {};

using Operation =
    std::variant<OnnxOperator, Accumulate, Elementwise, MaxPool, SumPool, Combine, Move, Concat, Softmax>;

struct Node {
  std::string name;  // unique
  Operation operation;
  std::vector<ValueId> inputs;  // kNoValue only in ONNX operators
  std::vector<ValueId> outputs;
  std::vector<std::string> sources;  // names of the ONNX nodes that it implements
  bool refused = false;              // unsupported; Graph::refusals says why, and later passes skip it
};

/// "Conv", "accumulate": for printing and messages.
std::string operation_name(const Operation& operation);

/// A note for the model's owner: a bias that was rounded, or an operator whose results may differ.
struct Diagnostic {
  std::string node;
  std::string message;
};

/// A graph input or output as in the ONNX file. No pass changes signatures.
struct Signature {
  std::string name;
  Type type;
  Shape shape;  // batch axis included
};

/// Makes names unique.
class Names {
 public:
  /// `wanted`, with a number appended if that name is taken.
  std::string unique(const std::string& wanted);
  void take(const std::string& name) { next_.emplace(name, 1); }

 private:
  std::unordered_map<std::string, int> next_;  // a taken name -> the next number to append
};

struct Graph {
  std::string name;
  std::vector<Value> values;  // by ValueId; some may be unused
  std::vector<Node> nodes;    // producers before readers
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Signature> input_signatures;   // in the order of inputs
  std::vector<Signature> output_signatures;  // in the order of outputs
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string>
      refusals;  // which nodes are not supported, and why: "Conv 'c': its batch is 2, not 1"

  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }

  /// Adds a value. If its name is taken, a suffix makes it unique.
  ValueId add_value(std::string name, Type type, Shape shape);
  ValueId add_constant(std::string name, Type type, Shape shape, Constant constant);

 private:
  Names value_names_;
  std::size_t named_ = 0;  // how many values have their names in value_names_
};

/// The producer and the readers of each value. A snapshot: invalid once nodes change.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<std::int64_t> producer;             // node index, -1 for inputs and constants
  std::vector<std::vector<std::size_t>> readers;  // node indices, one entry per occurrence
  std::vector<bool> is_output;
};

/// Sorts nodes so that producers come before readers. Null on success. If there is a cycle, nothing is changed and
/// the result is a node that depends on its own output.
const Node* sort_nodes(Graph& graph);

/// Makes all readers of `from` (graph outputs too) read `to` instead.
void replace_value(Graph& graph, ValueId from, ValueId to);

// Helpers that read and make nodes.

/// The node's ONNX operator, or null if it is another operation.
const OnnxOperator* onnx_of(const Node& node);
bool is_onnx(const Node& node, const char* type);

/// Whether an ONNX node has input `i`, and that input's constant (null if it is none).
bool has_input(const Node& node, std::size_t i);
const Constant* constant_input(const Graph& graph, const Node& node, std::size_t i);

/// The node that produces `value`; null for inputs and constants.
const Node* producer_of(const Graph& graph, const Uses& uses, ValueId value);

/// The elements of a float value that is constant, or dequantised from a constant. `uses` is of `graph`.
std::optional<std::vector<float>> known_floats(const Graph& graph, const Uses& uses, ValueId id);

/// Notes that no pass supports the node. The node stays in the graph as it is. Later passes skip it and what
/// depends on it, so that one error lists all such nodes.
void refuse(Graph& graph, Node& node, const std::string& reason);

/// The error that lists the refused nodes (kUnsupported): at most ten, and the number of the others.
Error refusal_error(const Graph& graph);

Node make_node(std::string name, Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources);

/// The names in `a`, then the names in `b` that are not in `a`.
std::vector<std::string> join_sources(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Records which scale and zero point the integers of `value` have. Reports show them.
void note_meaning(Value& value, const std::vector<float>& scale, const std::vector<std::int64_t>& zero_point);
void copy_meaning(Graph& graph, ValueId from, ValueId to);

/// Adds a note that the node's bias was rounded, if by more than a thousandth of an accumulator step.
void note_rounded_bias(Graph& graph, const Node& node, double accumulator_steps);

/// The graph as text, for --dump-after: one line per node, in order, with types and shapes.
std::string print(const Graph& graph);

/// The window of an ONNX Conv or pooling operator.
struct ResolvedWindow {
  kernels::Window window;  // one-dimensional windows have kernel_h = 1
  std::int64_t out_h = 0, out_w = 0;
  bool padded = false;  // some window reads outside the input
};

/// `input` is [N, C, W] or [N, C, H, W]. `kernel` has one extent per spatial axis. If the window is not valid,
/// the result is empty and `why` says why.
std::optional<ResolvedWindow> resolve_window(const OnnxOperator& op, const Shape& input,
                                             const std::vector<std::int64_t>& kernel, std::string& why);

/// Which operations a graph may hold. The rules of a level are checked after every pass, so a failure is a bug of the
/// compiler (kInternal) in the pass before.
enum class Level : std::uint8_t {
  kImported,  // ONNX operators only
  kMixed,     // ONNX operators and integer arithmetic
  kInteger,   // integer arithmetic only
};

const char* to_string(Level level);

/// Checks the structure (ids, names, order, one producer per value), that the level allows each operation, and
/// each operation's inputs, types, shapes and constants.
Status verify(const Graph& graph, Level level);

}  // namespace millrace::compiler::graph
