#include "compiler/graph/verify.hpp"

#include <string>
#include <unordered_set>

namespace millrace::compiler::graph {
namespace {

/// Which operations a level allows.
bool is_allowed(const Operation& operation, Level level) {
  return level == Level::kMixed ||
         std::holds_alternative<OnnxOperator>(operation) == (level == Level::kImported);
}

/// Checks one node. The returned sentence says what is wrong; it is empty if nothing is.
class NodeCheck {
 public:
  NodeCheck(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::string run() const {
    return std::visit([this](const auto& operation) { return check(operation); }, node_.operation);
  }

 private:
  const Value& in(std::size_t i) const { return graph_.value(node_.inputs[i]); }
  const Value& out() const { return graph_.value(node_.outputs[0]); }

  std::string arity(std::size_t inputs) const {
    if (node_.inputs.size() != inputs || node_.outputs.size() != 1)
      return "has the wrong number of inputs or outputs";
    for (const ValueId v : node_.inputs)
      if (v == kNoValue) return "leaves out an input";
    return {};
  }

  static std::string chain(const Chain& c, Type from, Type to) {
    if (std::string why = c.check(from.is_float()); !why.empty()) return why;
    if (c.gives_float(from.is_float()) != to.is_float())
      return "gives " + to_string(to) + " where its chain does not";
    return {};
  }

  std::string check(const OnnxOperator& o) const {
    if (o.type.empty()) return "has no operator type";
    return node_.outputs.empty() ? "has no output" : "";
  }

  std::string check(const Accumulate& a) const {
    if (std::string why = arity(1); !why.empty()) return why;
    if (!in(0).type.is_integer() || !out().type.is_integer())
      return "accumulates something other than integers";
    if (a.weights == nullptr) return "has no weights";
    const Shape& x = in(0).shape;
    if (x.size() != (a.dense ? 2U : 4U)) return "has an input of the wrong rank";
    if (a.groups < 1 || x[1] % a.groups != 0 || a.out_channels % a.groups != 0)
      return "has groups that do not divide";
    const std::int64_t per_channel = x[1] / a.groups * a.window.kernel_h * a.window.kernel_w;
    if (static_cast<std::int64_t>(a.weights->integers.size()) != per_channel * a.out_channels)
      return "has weights of the wrong size";
    const auto one_or_all = [&a](std::size_t n) {
      return n == 1 || n == static_cast<std::size_t>(a.out_channels);
    };
    if (!one_or_all(a.weight_zero.size())) return "has weight zero points of the wrong size";
    if (!a.bias.empty() && a.bias.size() != static_cast<std::size_t>(a.out_channels))
      return "has a bias of the wrong size";
    if (out().shape.size() != x.size() || out().shape[1] != a.out_channels)
      return "has the wrong output shape";
    return chain(a.chain, Type::integer(64), out().type);
  }

  std::string check(const Elementwise& e) const {
    if (std::string why = arity(1); !why.empty()) return why;
    if (in(0).shape != out().shape) return "changes the shape";
    const std::size_t channels = e.chain.channels();
    if (channels > 1) {
      if (e.axis < 0 || e.axis >= static_cast<std::int64_t>(in(0).shape.size()) ||
          in(0).shape[static_cast<std::size_t>(e.axis)] != static_cast<std::int64_t>(channels))
        return "has constants that do not run along its axis";
    }
    return chain(e.chain, in(0).type, out().type);
  }

  std::string check(const MaxPool&) const {
    if (std::string why = arity(1); !why.empty()) return why;
    if (in(0).type != out().type) return "changes the type";
    return in(0).shape.size() == 4 && out().shape.size() == 4 ? "" : "is not on [1, C, H, W]";
  }

  std::string check(const SumPool& s) const {
    if (std::string why = arity(1); !why.empty()) return why;
    if (!in(0).type.is_integer()) return "sums something other than integers";
    if (in(0).shape.size() != 4 || out().shape.size() != 4) return "is not on [1, C, H, W]";
    return chain(s.chain, Type::integer(64), out().type);
  }

  std::string check(const Combine& c) const {
    if (std::string why = arity(2); !why.empty()) return why;
    if (in(0).shape != out().shape || in(1).shape != out().shape) return "combines different shapes";
    if (std::string why = chain(c.a, in(0).type, Type::float32()); !why.empty()) return why;
    if (std::string why = chain(c.b, in(1).type, Type::float32()); !why.empty()) return why;
    return chain(c.tail, Type::float32(), out().type);
  }

  std::string check(const Move& m) const {
    if (std::string why = arity(1); !why.empty()) return why;
    if (in(0).type != out().type) return "changes the type";
    if (elements(in(0).shape) != elements(out().shape)) return "changes the number of elements";
    return m.perm.empty() || m.perm.size() == in(0).shape.size() ? "" : "has a permutation of the wrong rank";
  }

  std::string check(const Concat& c) const {
    if (node_.inputs.empty() || node_.outputs.size() != 1) return "has the wrong number of inputs or outputs";
    if (c.axis < 0 || c.axis >= static_cast<std::int64_t>(out().shape.size()))
      return "has an axis outside the shape";
    for (std::size_t i = 0; i < node_.inputs.size(); ++i)
      if (in(i).type != out().type || in(i).shape.size() != out().shape.size())
        return "joins different types or ranks";
    return {};
  }

  std::string check(const Softmax&) const {
    if (std::string why = arity(1); !why.empty()) return why;
    return in(0).type.is_float() && out().type.is_float() ? "" : "is not on floats";
  }

  const Graph& graph_;
  const Node& node_;
};

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
    if (n.name.empty() || !names.insert(n.name).second) return bug(here + "has no name of its own");
    if (!is_allowed(n.operation, level)) return bug(here + "is not allowed at level " + to_string(level));
    for (const ValueId v : n.inputs) {
      if (v == kNoValue) continue;
      if (v >= known.size() || !known[v]) return bug(here + "reads a value before it is produced");
    }
    if (std::string why = NodeCheck(graph, n).run(); !why.empty()) return bug(here + why);
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
    return bug("signatures do not match inputs and outputs");
  return {};
}

}  // namespace millrace::compiler::graph
