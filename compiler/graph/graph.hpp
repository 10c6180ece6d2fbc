// The compiler's intermediate representation: values joined by nodes, plain C++.
//
// A graph goes through levels (verify.hpp): at first its nodes are ONNX operators, then integer arithmetic
// with the model's float32 chains as exact references, at last the blocks of kernels/program, one node a
// block.
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

namespace millrace::compiler::graph {

struct Type {
  enum class Kind : std::uint8_t { kFloat, kSigned, kUnsigned, kBool };
  Kind kind = Kind::kFloat;
  std::uint8_t bits = 32;  // float: 16, 32, 64; integers 1..64; bool 8

  bool is_float() const { return kind == Kind::kFloat; }
  bool is_integer() const { return kind == Kind::kSigned || kind == Kind::kUnsigned; }
  std::int64_t lowest() const;  // of an integer type, clamped to what int64 holds
  std::int64_t highest() const;
  bool operator==(const Type&) const = default;

  static Type float32() { return {Kind::kFloat, 32}; }
  static Type integer(int bits) { return {Kind::kSigned, static_cast<std::uint8_t>(bits)}; }
  static Type natural(int bits) { return {Kind::kUnsigned, static_cast<std::uint8_t>(bits)}; }
  /// The smallest signed type that holds both.
  static Type holding(std::int64_t lowest, std::int64_t highest);
};

std::string to_string(Type type);  // "float32", "int8", "uint8"

/// Open Inference Protocol: "FP32", "UINT8", …; empty where it has no name for it.
std::string datatype(Type type);

using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
std::string to_string(const Shape& shape);  // "1x3x32x32"

/// Elements of a value known at compile time, row-major: `floats` for float types, `integers` for all others.
struct Constant {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = 0xFFFFFFFFU;  // an optional input that was left out

struct Value {
  std::string name;  // unique; the ONNX value's name where there is one
  Type type;
  Shape shape;  // batch axis included, until the layout is chosen; then [height, width, channels]
  std::shared_ptr<const Constant> constant;  // null where it depends on the input
  // What an integer stands for: (q - zero_point) * scale; for reports.
  std::vector<float> scale;
  std::int32_t zero_point = 0;
};

// What a node does.
// -------------------------------------------------------------------------------------------------

using Attribute =
    std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;

/// An ONNX operator as the file has it.
struct OnnxOperator {
  std::string domain;  // "" for ai.onnx
  std::string type;
  std::int64_t opset = 0;
  std::map<std::string, Attribute> attributes;

  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  float real(const std::string& name, float otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const std::string& name, std::vector<std::int64_t> otherwise) const;
  bool has(const std::string& name) const { return attributes.contains(name); }
};

/// A window over the last two axes of [1, C, H, W].
struct Geometry {
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  bool operator==(const Geometry&) const = default;
};

/// acc = sum (x - input_zero) * (w - weight_zero[o]) + bias[o]; x is [1, C, H, W], or [1, K] where `dense`.
/// Where `chain` is not empty the result is chain(acc), an integer type; else acc itself.
struct Accumulate {
  bool dense = false;
  Geometry geometry;
  std::int64_t groups = 1;
  std::int64_t out_channels = 0;
  Type weight_type;
  std::shared_ptr<const Constant> weights;  // [O][C / groups][kh][kw]; dense: [O][K]
  std::vector<std::int64_t> weight_zero;    // one, or one an output channel
  std::int64_t input_zero = 0;
  std::vector<std::int64_t> bias;  // empty, or one an output channel
  Chain chain;
};

/// One number at a time; constants run along `axis` of the shape where there are several.
struct Elementwise {
  Chain chain;
  std::int64_t axis = -1;  // -1 where all constants are scalars
};

struct MaxPool {
  Geometry geometry;
};

/// chain(sum over the window of (x - zero)), channel by channel; padding counts as x = zero.
struct SumPool {
  Geometry geometry;
  std::int64_t zero = 0;
  Chain chain;
};

/// tail(a(x) + b(y)): operands made float by `a` and `b`, added or multiplied in float32, then `tail`.
struct Combine {
  enum class Kind : std::uint8_t { kAdd, kMultiply };
  /// Whose float32 arithmetic it is. All but kAsWritten have one dequantisation each as `a` and `b`, and a
  /// quantiser as the first step of `tail`, and compute the three together.
  enum class Arithmetic : std::uint8_t {
    kAsWritten,
    kQLinear,          // QLinearAdd, QLinearMul
    kQLinearUnsigned,  // the same on int8 tensors that ONNX Runtime has made uint8
  };
  Kind kind = Kind::kAdd;
  Arithmetic arithmetic = Arithmetic::kAsWritten;
  Chain a, b, tail;
};

/// Moves elements: transposed by `perm` (empty: not), then seen in the output's shape.
struct Move {
  std::vector<std::int64_t> perm;
};

struct Concat {
  std::int64_t axis = 1;
};

/// Along the last axis; float32.
struct Softmax {};

using Operation = std::variant<OnnxOperator, Accumulate, Elementwise, MaxPool, SumPool, Combine, Move, Concat,
                               Softmax, kernels::Operation>;

struct Node {
  std::string name;  // unique
  Operation operation;
  std::vector<ValueId> inputs;  // kNoValue only in ONNX operators
  std::vector<ValueId> outputs;
  std::vector<std::string> sources;  // names of the ONNX nodes it stands for
  bool refused = false;              // no pass can take it: it stays as it was read, Graph::refusals says why
};

/// "Conv", "accumulate", "kernel:convolution": for printing and messages.
std::string operation_name(const Operation& operation);

/// Something the model's owner should know: a rounding that had to be chosen, an operator with a tolerance.
struct Diagnostic {
  std::string node;
  std::string message;
};

/// A node that cannot be taken. Compilation ends in one error that lists all of them.
struct Refusal {
  std::string operation;  // "Conv"
  std::string node;
  std::string reason;
};

/// A graph input or output as the ONNX file has it; no pass changes these.
struct Signature {
  std::string name;
  Type type;
  Shape shape;  // batch axis included
};

/// Names given out, each once.
class Names {
 public:
  /// `wanted`, with a number behind it where it is taken.
  std::string unique(const std::string& wanted);
  void take(const std::string& name) { next_.emplace(name, 1); }

 private:
  std::unordered_map<std::string, int> next_;  // a name taken -> the number to try behind it
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
  std::vector<Refusal> refusals;

  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }

  /// A new value; its name is made unique by a suffix where it is taken.
  ValueId add_value(std::string name, Type type, Shape shape);
  ValueId add_constant(std::string name, Type type, Shape shape, Constant constant);

 private:
  Names value_names_;
  std::size_t named_ = 0;  // values whose names are in value_names_
};

/// Who makes a value and who reads it; a snapshot, invalid once nodes change.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<std::int64_t> producer;             // node index, -1 for inputs and constants
  std::vector<std::vector<std::size_t>> readers;  // node indices, once an occurrence
  std::vector<bool> is_output;
};

/// Puts nodes in an order in which producers come before readers. False where there is a cycle (graph
/// unchanged).
bool sort_nodes(Graph& graph);

/// A node that waits, through others or not, for its own output. Only where sort_nodes() returned false.
std::size_t node_on_cycle(const Graph& graph);

/// So many nodes are listed where several are at fault; and_more() tells how many of `count` are left out,
/// on a line of its own, or nothing where none is.
inline constexpr std::size_t kMostListed = 10;
std::string and_more(std::size_t count);

/// Every reader of `from` (graph outputs too) reads `to` instead.
void replace_value(Graph& graph, ValueId from, ValueId to);

}  // namespace millrace::compiler::graph
