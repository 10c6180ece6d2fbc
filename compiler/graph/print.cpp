#include "compiler/graph/print.hpp"

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

std::string window_text(std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride_h,
                        std::int64_t stride_w) {
  return " window " + std::to_string(kernel_h) + "x" + std::to_string(kernel_w) + "/" +
         std::to_string(stride_h) + "," + std::to_string(stride_w);
}

std::string geometry_text(const Geometry& g) {
  std::string text = window_text(g.kernel_h, g.kernel_w, g.stride_h, g.stride_w);
  if (g.pad_top + g.pad_left + g.pad_bottom + g.pad_right != 0)
    text += " pads " + std::to_string(g.pad_top) + "," + std::to_string(g.pad_left) + "," +
            std::to_string(g.pad_bottom) + "," + std::to_string(g.pad_right);
  return text;
}

std::string chain_text(const Chain& chain) {
  return chain.steps.empty() ? "" : " {" + to_string(chain) + "}";
}

std::string requantise_text(const kernels::Requantise& r) {
  std::ostringstream out;
  if (r.form == kernels::Requantise::Form::kThresholds)
    out << " thresholds[" << r.thresholds.size() << "]";
  else
    out << " multiplier[" << r.multiplier.size() << "] shift " << (r.shift.empty() ? 0 : +r.shift[0]);
  if (r.form == kernels::Requantise::Form::kMultiplyShiftHalfEven)
    out << " half to even, zero point " << r.zero_point;
  out << " to " << r.lowest << ".." << r.highest;
  return out.str();
}

std::string kernel_text(const kernels::Operation& operation) {
  if (const auto* c = std::get_if<kernels::Convolution>(&operation)) {
    return window_text(c->window.kernel_h, c->window.kernel_w, c->window.stride_h, c->window.stride_w) +
           " groups " + std::to_string(c->groups) + " accumulator " + kernels::to_string(c->accumulator) +
           (c->requantise ? requantise_text(*c->requantise) : "");
  }
  if (const auto* m = std::get_if<kernels::MaxPool>(&operation))
    return window_text(m->window.kernel_h, m->window.kernel_w, m->window.stride_h, m->window.stride_w);
  if (const auto* p = std::get_if<kernels::SumPool>(&operation))
    return window_text(p->window.kernel_h, p->window.kernel_w, p->window.stride_h, p->window.stride_w) +
           requantise_text(p->requantise);
  if (const auto* r = std::get_if<kernels::Rescale>(&operation)) return requantise_text(r->requantise);
  if (const auto* a = std::get_if<kernels::Add>(&operation)) return a->table.empty() ? "" : " table";
  return {};
}

std::string detail(const Operation& operation) {
  if (const auto* o = std::get_if<OnnxOperator>(&operation)) {
    std::string text;
    for (const auto& [name, value] : o->attributes) text += " " + name + "=" + attribute_text(value);
    return text;
  }
  if (const auto* a = std::get_if<Accumulate>(&operation))
    return (a->dense ? " dense" : geometry_text(a->geometry) + " groups " + std::to_string(a->groups)) +
           " weights " + to_string(a->weight_type) + (a->bias.empty() ? "" : " bias") + chain_text(a->chain);
  if (const auto* e = std::get_if<Elementwise>(&operation)) return chain_text(e->chain);
  if (const auto* m = std::get_if<MaxPool>(&operation)) return geometry_text(m->geometry);
  if (const auto* s = std::get_if<SumPool>(&operation))
    return geometry_text(s->geometry) + chain_text(s->chain);
  if (const auto* c = std::get_if<Combine>(&operation))
    return std::string(c->kind == Combine::Kind::kAdd ? " add" : " multiply") + " a" + chain_text(c->a) +
           " b" + chain_text(c->b) + " tail" + chain_text(c->tail);
  if (const auto* m = std::get_if<Move>(&operation))
    return m->perm.empty() ? "" : " perm " + attribute_text(m->perm);
  if (const auto* c = std::get_if<Concat>(&operation)) return " axis " + std::to_string(c->axis);
  if (const auto* k = std::get_if<kernels::Operation>(&operation)) return kernel_text(*k);
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
