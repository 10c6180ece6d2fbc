// The QDQ form: a float operator on dequantised integers becomes the same sum on the integers, followed by
// one dequantisation with the product of the scales. What this pass cannot take has no integer meaning: it is
// refused, all of it at once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/graph/window.hpp"
#include "compiler/passes/accumulate.hpp"
#include "compiler/passes/average.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;

/// A float value that is integers times a scale.
struct Integers {
  ValueId q = kNoValue;
  std::vector<float> scale;
  std::vector<std::int64_t> zero;
};

struct Job : Site {
  /// Nodes that others have become part of, by index in graph.nodes.
  std::vector<bool>& absorbed;

  const Node* producer(std::size_t i) const {
    const std::int64_t p = uses.producer[node.inputs[i]];
    return p < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(p)];
  }
};

/// An activation: dequantised by one scale.
std::optional<Integers> activation(const Job& job, std::size_t i, std::string& why) {
  const Node* n = job.producer(i);
  const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
  const bool pure = e != nullptr && e->chain.steps.size() == 1 &&
                    e->chain.steps[0].kind == Step::Kind::kDequantise && e->chain.channels() == 1;
  if (!pure) {
    why = "its input '" + job.in(i).name +
          "' is not quantised: put a QuantizeLinear/DequantizeLinear pair (one scale) there";
    return std::nullopt;
  }
  return Integers{n->inputs[0], e->chain.steps[0].floats, e->chain.steps[0].integers};
}

/// Weights: a constant dequantised by one scale, or by one an output channel (axis `channel_axis`).
std::optional<Integers> weights(const Job& job, std::size_t i, std::int64_t channel_axis, std::string& why) {
  const Node* n = job.producer(i);
  const graph::Constant* q =
      n != nullptr && is_onnx(*n, "DequantizeLinear") ? constant_input(job.graph, *n, 0) : nullptr;
  const graph::Constant* scale = q == nullptr ? nullptr : constant_input(job.graph, *n, 1);
  if (scale == nullptr) {
    why = "its weights '" + job.in(i).name + "' are not integers with a DequantizeLinear";
    return std::nullopt;
  }
  for (const float s : scale->floats)
    if (!(s > 0) || !std::isfinite(s)) why = "its weights' scale must be finite and above 0";
  Integers w{n->inputs[0], scale->floats, {0}};
  if (has_input(*n, 2)) {
    const graph::Constant* zero = constant_input(job.graph, *n, 2);
    if (zero == nullptr)
      why = "its weights' zero point must be constant";
    else
      w.zero = zero->integers;
  }
  const std::int64_t channels = job.in(i).shape[static_cast<std::size_t>(channel_axis)];
  const auto fits = [channels](std::size_t count) {
    return count == 1 || static_cast<std::int64_t>(count) == channels;
  };
  if (!fits(w.scale.size()) || !fits(w.zero.size()))
    why = "its weights have " + std::to_string(w.scale.size()) + " scales for " + std::to_string(channels) +
          " output channels";
  if (w.scale.size() > 1) {
    std::int64_t axis = onnx_of(*n)->integer("axis", 1);
    if (axis < 0) axis += static_cast<std::int64_t>(job.in(i).shape.size());
    if (axis != channel_axis)
      why = "its weights have scales along axis " + std::to_string(axis) + ", not along the output channels";
  }
  if (!why.empty()) return std::nullopt;
  return w;
}

std::vector<float> product(float sx, const std::vector<float>& sw) {
  std::vector<float> result;
  for (const float w : sw) result.push_back(sx * w);
  return result;
}

/// The bias in units of the accumulator. One that has other units is rounded, and that is reported.
std::optional<std::vector<std::int64_t>> bias(Job& job, std::size_t i, const std::vector<float>& scale,
                                              std::int64_t channels, std::string& why) {
  if (!job.has(i)) return std::vector<std::int64_t>{};
  const auto known = known_floats(job.graph, job.uses, job.node.inputs[i]);
  if (!known) {
    why = "its bias is not constant";
    return std::nullopt;
  }
  const Shape& shape = job.in(i).shape;
  const bool along = !shape.empty() && shape.back() == channels && elements(shape) == channels;
  if (known->size() != 1 && !along) {
    why = "its bias of " + to_string(job.in(i).shape) + " does not run along the output channels";
    return std::nullopt;
  }
  // Integers dequantised by the accumulator's own scale are taken as they are, however float32 rounds their
  // product.
  const Node* n = job.producer(i);
  const graph::Constant* q =
      n != nullptr && is_onnx(*n, "DequantizeLinear") ? constant_input(job.graph, *n, 0) : nullptr;
  const graph::Constant* own = q == nullptr ? nullptr : constant_input(job.graph, *n, 1);
  const graph::Constant* zero = q == nullptr ? nullptr : constant_input(job.graph, *n, 2);
  const bool zero_free = zero == nullptr || std::all_of(zero->integers.begin(), zero->integers.end(),
                                                        [](std::int64_t z) { return z == 0; });
  std::vector<std::int64_t> result;
  double worst = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const auto pick = [c](const auto& values) { return values[values.size() == 1 ? 0 : c]; };
    const float unit = pick(scale);
    if (own != nullptr && zero_free && std::abs(pick(own->floats) - unit) <= 1e-5F * unit) {
      result.push_back(pick(q->integers));
      continue;
    }
    const double exact = static_cast<double>(pick(*known)) / static_cast<double>(unit);
    if (!(std::abs(exact) < 2147483647.0)) {
      why = "its bias is out of the accumulator's range";
      return std::nullopt;
    }
    result.push_back(static_cast<std::int64_t>(std::nearbyint(exact)));
    worst = std::max(worst, std::abs(exact - std::nearbyint(exact)));
  }
  if (worst > 1e-3)
    job.graph.diagnostics.push_back(
        {job.node.name, "its bias is no multiple of input scale times weight scale: rounded, by up to " +
                            std::to_string(worst) + " of an accumulator step"});
  return result;
}

Chain dequantised(std::vector<float> scale) {
  Step s = Step::dequantise(std::move(scale), 0);
  s.accumulator = true;
  return {{std::move(s)}};
}

/// The product of inputs 0 and 1, dequantised by `scale`; without the bias.
std::optional<Product> operands(Job& job, std::int64_t channel_axis, std::vector<float>& scale,
                                std::string& why) {
  const auto x = activation(job, 0, why);
  if (!x) return std::nullopt;
  const auto w = weights(job, 1, channel_axis, why);
  if (!w) return std::nullopt;
  Product p;
  p.x = x->q;
  p.input_zero = x->zero[0];
  p.weights = w->q;
  p.weight_zero = w->zero;
  p.result = job.node.outputs[0];
  scale = product(x->scale[0], w->scale);
  p.chain = dequantised(scale);
  return p;
}

std::string conv(Job& job) {
  std::string why;
  std::vector<float> scale;
  auto p = operands(job, 0, scale, why);
  if (!p) return why;
  const auto b = bias(job, 2, scale, convolution_channels(job.graph.value(p->weights)), why);
  if (!b) return why;
  p->bias = *b;
  return add_convolution(job.graph, job.out, job.node, job.op, std::move(*p));
}

std::string gemm(Job& job, bool is_gemm) {
  std::string why;
  const bool transposed = is_gemm && job.op.integer("transB", 0) != 0;
  if (is_gemm && job.op.integer("transA", 0) != 0) return "transA is not taken";
  if (is_gemm && (job.op.real("alpha", 1.0F) != 1.0F || (job.has(2) && job.op.real("beta", 1.0F) != 1.0F)))
    return "alpha and beta other than 1 are not taken";
  const auto rank = static_cast<std::int64_t>(job.in(1).shape.size());
  std::vector<float> scale;
  auto p = operands(job, transposed ? rank - 2 : rank - 1, scale, why);
  if (!p) return why;
  if (is_gemm) {
    const auto b = bias(job, 2, scale, matrix_channels(job.graph.value(p->weights), transposed), why);
    if (!b) return why;
    p->bias = *b;
  }
  return add_matrix_product(job.graph, job.out, job.node, transposed, std::move(*p));
}

/// The only node that reads `v`; null where there are others, or `v` is an output of the model.
const Node* only_reader(const Job& job, ValueId v) {
  const auto& readers = job.uses.readers[v];
  return readers.size() == 1 && !job.uses.is_output[v] ? &job.graph.nodes[readers[0]] : nullptr;
}

const Step* only_step(const Node* n, Step::Kind kind) {
  const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
  const bool is = e != nullptr && e->chain.steps.size() == 1 && e->chain.steps[0].kind == kind &&
                  e->chain.channels() == 1;
  return is ? &e->chain.steps[0] : nullptr;
}

bool moves_only(const Node* n) {
  return n != nullptr && (std::holds_alternative<graph::Move>(n->operation) ||
                          std::holds_alternative<graph::MaxPool>(n->operation));
}

/// Whether these integers come from a quantiser and are read by one dequantiser for one reader: ONNX Runtime
/// makes int8 tensors between such a pair uint8, for its kernels on x86 are made for those.
bool between_a_pair(const Job& job, ValueId q) {
  ValueId up = q;
  const auto producer = [&job](ValueId v) {
    const std::int64_t p = job.uses.producer[v];
    return p < 0 ? nullptr : &job.graph.nodes[static_cast<std::size_t>(p)];
  };
  while (moves_only(producer(up)) && only_reader(job, up) != nullptr) up = producer(up)->inputs[0];
  const Node* reader = only_reader(job, q);
  while (moves_only(reader)) reader = only_reader(job, reader->outputs[0]);
  return only_reader(job, up) != nullptr && only_step(producer(up), Step::Kind::kQuantise) != nullptr &&
         only_step(reader, Step::Kind::kDequantise) != nullptr &&
         job.uses.readers[reader->outputs[0]].size() <= 1;
}

/// The quantiser behind the node at work that ONNX Runtime fuses with it, into the kernel of a QLinear
/// operator.
struct FusedQuantiser {
  ValueId result = kNoValue;  // the integers it gives
  Step quantise;
  bool made_unsigned = false;         // int8 tensors that ONNX Runtime has made uint8
  std::vector<std::size_t> absorbed;  // it, and the Relu and Clip before it that do nothing
};

std::optional<FusedQuantiser> fused_quantiser(const Job& job, const std::vector<ValueId>& operands) {
  FusedQuantiser found;
  std::vector<Step> clamps;
  ValueId v = job.node.outputs[0];
  const Step* quantise = nullptr;
  while (quantise == nullptr) {
    const Node* reader = only_reader(job, v);
    quantise = only_step(reader, Step::Kind::kQuantise);
    const Step* clamp = only_step(reader, Step::Kind::kRelu);
    if (clamp == nullptr) clamp = only_step(reader, Step::Kind::kClip);
    if (quantise == nullptr && clamp == nullptr) return std::nullopt;
    if (clamp != nullptr) clamps.push_back(*clamp);
    found.absorbed.push_back(job.uses.readers[v][0]);
    v = reader->outputs[0];
  }
  found.result = v;
  found.quantise = *quantise;
  // A clamp that changes nothing after quantising is left out, there as here.
  constexpr float kFar = std::numeric_limits<float>::max();
  for (const Step& clamp : clamps)
    for (const float end : {-kFar, kFar}) {
      const Chain with{{clamp, *quantise}}, without{{*quantise}};
      if (with.evaluate(graph::Number{true, 0, end}, 0).integer !=
          without.evaluate(graph::Number{true, 0, end}, 0).integer)
        return std::nullopt;
    }
  const Type type = job.graph.value(v).type;
  for (const ValueId x : operands)
    if (job.graph.value(x).type != type) return std::nullopt;
  if (type == Type::natural(8)) return found;
  found.made_unsigned =
      type == Type::integer(8) && between_a_pair(job, v) &&
      std::all_of(operands.begin(), operands.end(), [&job](ValueId x) { return between_a_pair(job, x); });
  if (!found.made_unsigned) return std::nullopt;
  return found;
}

void absorb(Job& job, const FusedQuantiser& quantiser) {
  for (const std::size_t i : quantiser.absorbed) job.absorbed[i] = true;
}

std::string average_pool(Job& job, bool global) {
  std::string why;
  const auto x = activation(job, 0, why);
  if (!x) return why;
  const Shape shape = job.in(0).shape;
  if (shape.size() != 4 || shape[0] != 1) return "only [1, C, H, W] is taken";
  graph::SumPool s;
  s.zero = x->zero[0];
  if (global) {
    s.geometry = {shape[2], shape[3], 1, 1, 1, 1, 0, 0, 0, 0};
  } else {
    const auto window = graph::resolve_window(job.op, shape, job.op.integers("kernel_shape", {}), why);
    if (!window) return why;
    if (window->padded && job.op.integer("count_include_pad", 0) == 0)
      return "padding that is not counted is not taken; set count_include_pad to 1, or pads to 0";
    s.geometry = window->geometry;
    global = covers(s.geometry, shape);
  }
  if (const auto quantiser = fused_quantiser(job, {x->q})) {
    s.chain = average_chain(job.graph, job.node, s.geometry, global, x->scale[0], quantiser->quantise,
                            quantiser->made_unsigned);
    absorb(job, *quantiser);
    job.out.push_back(make_node(job.node.name, std::move(s), {x->q}, quantiser->result, job.node.sources));
    return {};
  }
  const auto count = static_cast<float>(s.geometry.kernel_h * s.geometry.kernel_w);
  const Value result = job.result();
  const ValueId sum = job.graph.add_value(result.name + ".acc", Type::integer(32), result.shape);
  const Chain chain{{Step::dequantise(x->scale, 0), Step::divide({count})}};
  job.out.push_back(make_node(job.node.name, std::move(s), {x->q}, sum, job.node.sources));
  job.out.push_back(make_node(job.node.name + ".chain", Elementwise{chain, -1}, {sum}, job.node.outputs[0],
                              job.node.sources));
  note_inexact_average(job.graph, job.node, x->scale[0]);
  return {};
}

/// Two tensors added or multiplied: the operands' chains are read where they are, whatever follows their
/// dequantisation.
std::string combine(Job& job, graph::Combine::Kind kind) {
  graph::Combine c;
  c.kind = kind;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node* n = job.producer(i);
    const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
    if (e == nullptr || !job.graph.value(n->inputs[0]).type.is_integer() || e->chain.channels() != 1)
      return "its input '" + job.in(i).name +
             "' is not quantised: put a QuantizeLinear/DequantizeLinear pair (one scale) there";
    (i == 0 ? c.a : c.b) = e->chain;
    operands.push_back(n->inputs[0]);
  }
  if (job.in(0).shape != job.in(1).shape)
    return "its operands have different shapes, " + to_string(job.in(0).shape) + " and " +
           to_string(job.in(1).shape) + "; both must have one shape, or one be a constant";
  ValueId result = job.node.outputs[0];
  const bool dequantised = only_step(job.producer(0), Step::Kind::kDequantise) != nullptr &&
                           only_step(job.producer(1), Step::Kind::kDequantise) != nullptr;
  if (const auto quantiser = dequantised ? fused_quantiser(job, operands) : std::nullopt) {
    c.arithmetic = quantiser->made_unsigned ? graph::Combine::Arithmetic::kQLinearUnsigned
                                            : graph::Combine::Arithmetic::kQLinear;
    c.tail = {{quantiser->quantise}};
    result = quantiser->result;
    absorb(job, *quantiser);
  }
  job.out.push_back(make_node(job.node.name, std::move(c), operands, result, job.node.sources));
  return {};
}

std::string lower(Job& job) {
  const std::string& type = job.op.type;
  if (type == "Conv") return conv(job);
  if (type == "Gemm") return gemm(job, true);
  if (type == "MatMul") return gemm(job, false);
  if (type == "AveragePool") return average_pool(job, false);
  if (type == "GlobalAveragePool") return average_pool(job, true);
  if (type == "Add") return combine(job, graph::Combine::Kind::kAdd);
  if (type == "Mul") return combine(job, graph::Combine::Kind::kMultiply);
  return "computes with data of the frame; it is taken with constants only, as in computing a shape";
}

/// Weights and biases, read by their layers where they are.
bool is_dequantised_constant(const Graph& graph, const Node& n) {
  return is_onnx(n, "DequantizeLinear") && graph.value(n.inputs[0]).constant != nullptr;
}

/// What refused nodes make, and what is computed from it: its own faults, if any, show once those are mended.
std::vector<bool> after_refused(const Graph& graph) {
  std::vector<bool> in_doubt(graph.values.size(), false);
  for (const Node& n : graph.nodes) {
    bool doubt = n.refused;
    for (const ValueId v : n.inputs) doubt = doubt || (v != kNoValue && in_doubt[v]);
    for (const ValueId v : n.outputs) in_doubt[v] = doubt;
  }
  return in_doubt;
}

}  // namespace

Result<Graph> lower_qdq(Graph graph) {
  const graph::Uses uses(graph);
  const std::vector<bool> in_doubt = after_refused(graph);
  std::vector<Node> out;
  std::vector<bool> absorbed(graph.nodes.size(), false);
  // The old nodes stay in the graph meanwhile: producers are looked up there.
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    const OnnxOperator* op = onnx_of(n);
    if (op == nullptr || is_dequantised_constant(graph, n)) {
      if (!absorbed[i]) out.push_back(n);
      continue;
    }
    if (in_doubt[n.outputs[0]]) continue;
    Job job{{graph, uses, out, n, *op}, absorbed};
    if (std::string why = lower(job); !why.empty()) refuse(graph, n, why);
  }
  if (!graph.refusals.empty()) return refusal_error(graph);
  graph.nodes = std::move(out);
  MILLRACE_ASSIGN(graph, remove_dead(std::move(graph)));
  for (Node& n : graph.nodes)
    if (onnx_of(n) != nullptr)
      refuse(graph, n, "dequantises a constant that no layer takes as weights or bias");
  if (!graph.refusals.empty()) return refusal_error(graph);
  return graph;
}

}  // namespace millrace::compiler::passes
