#include "compiler/graph/graph.hpp"

#include <string>
#include <unordered_set>

namespace millrace::compiler::graph {
namespace {

/// Whether a level allows an operation.
bool is_allowed(const Operation& operation, Level level) {
  return level == Level::kMixed || std::holds_alternative<PluginOperator>(operation) ||
         std::holds_alternative<OnnxOperator>(operation) == (level == Level::kImported);
}

/// Checks the types of a chain (of element-wise functions) from type `from` to type `to`. Returns the error, or an
/// empty text.
std::string check(const Chain& chain, Type from, Type to) {
  if (std::string why = chain.check(from.is_float()); !why.empty()) return why;
  return chain.gives_float(from.is_float()) == to.is_float()
             ? ""
             : "gives " + to_string(to) + " where its chain of operations does not";
}

std::string check(const Accumulate& a, const Value& in, const Value& out) {
  if (!in.type.is_integer() || !out.type.is_integer()) return "accumulates something other than integers";
  const Shape &x = in.shape, &y = out.shape;
  if (x.size() != (a.dense ? 2U : 4U) || y.size() != x.size())
    return "has an input or output of the wrong rank";
  const std::int64_t taps = x[1] / a.groups * a.window.kernel_h * a.window.kernel_w;
  const auto weights = static_cast<std::int64_t>(a.weights->integers.size());
  if (y[1] != a.out_channels || taps * a.out_channels != weights) return "has weights of the wrong size";
  for (const std::size_t n : {a.weight_zero.size(), a.bias.empty() ? 1 : a.bias.size()})
    if (n != 1 && n != static_cast<std::size_t>(a.out_channels))
      return "has weight zero points or a bias of the wrong size";
  return check(a.chain, Type::integer(64), out.type);
}

std::string check(const Elementwise& e, const Value& in, const Value& out) {
  if (in.shape != out.shape) return "changes the shape";
  const auto channels = static_cast<std::int64_t>(e.chain.channels());
  const auto axis = axis_in(e.axis, in.shape.size());
  if (channels > 1 && (!axis || in.shape[*axis] != channels))
    return "has constants whose number differs from the extent of its axis";
  return check(e.chain, in.type, out.type);
}

std::string check(const MaxPool&, const Value& in, const Value& out) {
  if (in.type != out.type) return "changes the type";
  return in.shape.size() == 4 && out.shape.size() == 4 ? "" : "is not on [1, C, H, W]";
}

std::string check(const SumPool& s, const Value& in, const Value& out) {
  if (!in.type.is_integer() || in.shape.size() != 4 || out.shape.size() != 4)
    return "is not on integers [1, C, H, W]";
  return check(s.chain, Type::integer(64), out.type);
}

std::string check(const Move& m, const Value& in, const Value& out) {
  if (in.type != out.type || elements(in.shape) != elements(out.shape)) return "changes type or size";
  return m.perm.empty() || m.perm.size() == in.shape.size() ? "" : "has a permutation of the wrong rank";
}

std::string check(const Select& s, const Value& in, const Value& out) {
  if (in.type != out.type) return "changes the type";
  const std::size_t loops = s.loops.extents.size();
  if (loops == 0 || loops != s.loops.strides.size()) return "has no loops, or loops without strides";
  std::int64_t made = 1, lowest = static_cast<std::int64_t>(s.loops.offset), highest = lowest;
  for (std::size_t k = 0; k < loops; ++k) {
    made *= s.loops.extents[k];
    const std::int64_t reach = (std::int64_t{s.loops.extents[k]} - 1) * s.loops.strides[k];
    (reach < 0 ? lowest : highest) += reach;
  }
  if (made != elements(out.shape)) return "has loops that do not make its output";
  return lowest >= 0 && highest < elements(in.shape) ? "" : "reads elements outside its input";
}

std::string check(const Concat& c, const Value& in, const Value& out) {
  const bool same = in.type == out.type && in.shape.size() == out.shape.size();
  return same && axis_in(c.axis, out.shape.size())
             ? ""
             : "concatenates different types or ranks, or along an axis that does not exist";
}

std::string check(const Softmax&, const Value& in, const Value& out) {
  return in.type.is_float() && out.type.is_float() ? "" : "is not on floats";
}

std::string check(const Combine& c, const Value& in, const Value& out) {
  if (in.shape != out.shape) return "combines different shapes";
  for (const Chain* operand : {&c.a, &c.b})
    if (std::string why = check(*operand, in.type, Type::float32()); !why.empty()) return why;
  return check(c.tail, Type::float32(), out.type);
}

std::string check(const OnnxOperator&, const Value&, const Value&) {
  return {};
}

std::string check(const HostOperator&, const Value& in, const Value& out) {
  return in.type == Type::float32() && out.type == Type::float32() ? "" : "is not on float32";
}

std::string check(const PluginOperator&, const Value& in, const Value& out) {
  return in.type.is_integer() && out.type.is_integer() ? "" : "is not on integers";
}

/// Checks that the node's inputs have the shapes of the operator's tensors, and that the host can compute the operator.
std::string check_operands(const Graph& graph, const Node& n, const kernels::FloatOperator& op) {
  std::size_t next = 0;
  for (const kernels::FloatOperand& operand : op.operands) {
    if (operand.kind != kernels::FloatOperand::Kind::kTensor) continue;
    if (next == n.inputs.size() || n.inputs[next] == kNoValue) return "lacks an input";
    if (graph.value(n.inputs[next++]).shape != operand.shape) return "has an input of another shape";
  }
  if (next != n.inputs.size()) return "has too many inputs";
  if (op.shape != graph.value(n.outputs[0]).shape) return "has an output of another shape";
  return kernels::host::check(op);
}

/// Checks one node. Returns the error, or an empty text.
std::string check(const Graph& graph, const Node& n) {
  if (n.outputs.empty()) return "has no output";
  if (onnx_of(n) != nullptr) return {};
  const auto* host = std::get_if<HostOperator>(&n.operation);
  const bool takes_two = std::holds_alternative<Combine>(n.operation);
  if (n.inputs.size() != (takes_two ? 2 : 1) && host == nullptr &&
      !std::holds_alternative<Concat>(n.operation) && !std::holds_alternative<PluginOperator>(n.operation))
    return "has the wrong number of inputs";
  if (host != nullptr)
    if (std::string why = check_operands(graph, n, host->op); !why.empty()) return why;
  for (const ValueId v : n.inputs) {
    if (v == kNoValue) return "leaves out an input";
    const auto visitor = [&](const auto& op) { return check(op, graph.value(v), graph.value(n.outputs[0])); };
    if (std::string why = std::visit(visitor, n.operation); !why.empty()) return why;
  }
  return {};
}

Error bug(const std::string& what) {
  return Error(ErrorCode::kInternal, "graph: " + what);
}

Status verify_values(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const Value& v : graph.values) {
    if (v.name.empty()) return bug("a value has no name");
    if (!names.insert(v.name).second) return bug("two values are named '" + v.name + "'");
    if (v.constant == nullptr) continue;
    const std::size_t have = v.type.is_float() ? v.constant->floats.size() : v.constant->integers.size();
    if (static_cast<std::int64_t>(have) != elements(v.shape))
      return bug("constant '" + v.name + "' has the wrong size");
  }
  return {};
}

}  // namespace

const char* to_string(Level level) {
  static constexpr const char* kNames[] = {"imported", "mixed", "integer"};
  return kNames[static_cast<std::size_t>(level)];
}

Status verify(const Graph& graph, Level level) {
  MILLRACE_TRY(verify_values(graph));
  std::vector<bool> known(graph.values.size(), false);
  for (std::size_t i = 0; i < graph.values.size(); ++i) known[i] = graph.values[i].constant != nullptr;
  for (const ValueId v : graph.inputs) {
    if (v >= known.size() || known[v]) return bug("an input is missing or a constant");
    known[v] = true;
  }
  std::unordered_set<std::string> names;
  for (const Node& n : graph.nodes) {
    const std::string here = operation_name(n.operation) + " '" + n.name + "' ";
    if (n.name.empty() || !names.insert(n.name).second) return bug(here + "has no unique name");
    if (!is_allowed(n.operation, level)) return bug(here + "is not allowed at level " + to_string(level));
    for (const ValueId v : n.inputs) {
      if (v == kNoValue) continue;
      if (v >= known.size() || !known[v]) return bug(here + "reads a value before it is produced");
    }
    if (std::string why = check(graph, n); !why.empty()) return bug(here + why);
    for (const ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      if (v >= known.size() || known[v]) return bug(here + "produces a value that already has a producer");
      known[v] = true;
    }
  }
  for (const ValueId v : graph.outputs)
    if (v >= known.size() || !known[v]) return bug("an output has no producer");
  if (graph.inputs.size() != graph.input_signatures.size() ||
      graph.outputs.size() != graph.output_signatures.size())
    return bug("the number of signatures differs from the number of inputs or outputs");
  return {};
}

}  // namespace millrace::compiler::graph
