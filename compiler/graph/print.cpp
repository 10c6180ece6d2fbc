#include "compiler/graph/graph.hpp"

#include <sstream>

namespace millrace::compiler::graph {
namespace {

std::string attribute_text(const Attribute& attribute) {
  std::ostringstream out;
  const auto list = [&out](const auto& values) {
    for (std::size_t k = 0; k < values.size(); ++k) out << (k == 0 ? "" : ",") << values[k];
  };
  if (const auto* i = std::get_if<std::int64_t>(&attribute)) out << *i;
  if (const auto* f = std::get_if<float>(&attribute)) out << *f;
  if (const auto* s = std::get_if<std::string>(&attribute)) out << '"' << *s << '"';
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) list(*integers);
  if (const auto* floats = std::get_if<std::vector<float>>(&attribute)) list(*floats);
  return out.str();
}

std::string window_text(const kernels::Window& w) {
  std::ostringstream out;
  out << " window " << w.kernel_h << 'x' << w.kernel_w << '/' << w.stride_h << ',' << w.stride_w;
  if (w.pad_top + w.pad_left + w.pad_bottom + w.pad_right != 0)
    out << " pads " << w.pad_top << ',' << w.pad_left << ',' << w.pad_bottom << ',' << w.pad_right;
  return out.str();
}

std::string chain_text(const Chain& chain) {
  return chain.steps.empty() ? "" : " {" + to_string(chain) + "}";
}

std::string detail(const Operation& operation) {
  if (const auto* o = std::get_if<OnnxOperator>(&operation)) {
    std::string text;
    for (const auto& [name, value] : o->attributes) text += " " + name + "=" + attribute_text(value);
    return text;
  }
  if (const auto* a = std::get_if<Accumulate>(&operation)) {
    const std::string bias = a->bias.empty() ? "" : " bias";
    return (a->dense ? " dense" : window_text(a->window) + " groups " + std::to_string(a->groups)) +
           " weights " + to_string(a->weight_type) + bias + chain_text(a->chain);
  }
  if (const auto* e = std::get_if<Elementwise>(&operation)) return chain_text(e->chain);
  if (const auto* m = std::get_if<MaxPool>(&operation)) return window_text(m->window);
  if (const auto* s = std::get_if<SumPool>(&operation)) return window_text(s->window) + chain_text(s->chain);
  if (const auto* c = std::get_if<Combine>(&operation))
    return std::string(" ") + to_string(c->kind) + " a" + chain_text(c->a) + " b" + chain_text(c->b) +
           " tail" + chain_text(c->tail);
  if (const auto* m = std::get_if<Move>(&operation))
    return m->perm.empty() ? "" : " perm " + attribute_text(m->perm);
  if (const auto* s = std::get_if<Select>(&operation))
    return " offset " + std::to_string(s->loops.offset) + " extents " +
           attribute_text(std::vector<std::int64_t>(s->loops.extents.begin(), s->loops.extents.end())) +
           " strides " + attribute_text(s->loops.strides);
  if (const auto* c = std::get_if<Concat>(&operation)) return " axis " + std::to_string(c->axis);
  if (std::holds_alternative<HostOperator>(operation)) return " on the host";
  if (const auto* p = std::get_if<PluginOperator>(&operation))
    return " " + p->op.plugin + " runner " + p->op.runner;
  return {};
}

}  // namespace

std::string print(const Graph& graph) {
  std::ostringstream out;
  const auto typed = [&graph](ValueId id) {
    if (id == kNoValue) return std::string("-");
    const Value& v = graph.value(id);
    return v.name + ":" + to_string(v.type) + "[" + to_string(v.shape) + "]" +
           (v.constant != nullptr ? "=" : "");
  };
  out << "graph " << graph.name << "\n";
  for (const ValueId v : graph.inputs) out << "  input  " << typed(v) << "\n";
  for (const Node& n : graph.nodes) {
    out << "  ";
    for (std::size_t i = 0; i < n.outputs.size(); ++i) out << (i == 0 ? "" : ", ") << typed(n.outputs[i]);
    out << " = " << operation_name(n.operation) << " \"" << n.name << "\"" << detail(n.operation) << " (";
    for (std::size_t i = 0; i < n.inputs.size(); ++i) out << (i == 0 ? "" : ", ") << typed(n.inputs[i]);
    out << ")\n";
  }
  for (const ValueId v : graph.outputs) out << "  output " << typed(v) << "\n";
  for (const Diagnostic& d : graph.diagnostics) out << "  note   " << d.node << ": " << d.message << "\n";
  return out.str();
}

}  // namespace millrace::compiler::graph
