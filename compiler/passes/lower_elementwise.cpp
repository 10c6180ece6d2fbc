// Everything that works on one element at a time, moves elements or takes a maximum leaves its ONNX form:
// quantisers, Relu, Clip, arithmetic with constants; Reshape, Transpose; MaxPool, Concat, Softmax. What
// computes sums stays for lower_qdq.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/graph/window.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;
using graph::Move;

struct Job : Site {
  std::string give(graph::Operation operation, ValueId x) {
    out.push_back(make_node(node.name, std::move(operation), {x}, node.outputs[0], node.sources));
    return {};
  }
  std::string give_step(Step step, std::int64_t axis = -1) {
    const Chain chain{{std::move(step)}};
    return give(Elementwise{chain, chain.channels() > 1 ? axis : -1}, node.inputs[0]);
  }
};

/// Weights and biases stay dequantised constants until the product that reads them is lowered.
bool is_of_constants(const Job& job) {
  return job.in(0).constant != nullptr;
}

std::string quantiser(Job& job, bool dequantise) {
  const graph::Constant* scale = constant_input(job.graph, job.node, 1);
  const graph::Constant* zero = constant_input(job.graph, job.node, 2);
  if (scale == nullptr || (job.has(2) && zero == nullptr))
    return "its scale and zero point must be constants";
  for (const float s : scale->floats)
    if (!(s > 0) || !std::isfinite(s)) return "its scale must be finite and above 0";
  const Type type = dequantise ? job.in(0).type : job.result().type;
  if (type.bits > 32) return "quantises to " + to_string(type);
  Step step = dequantise ? Step::dequantise(scale->floats, 0)
                         : Step::quantise(scale->floats, 0, type.lowest(), type.highest());
  if (zero != nullptr) step.integers = zero->integers;
  std::int64_t axis = job.op.integer("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(job.in(0).shape.size());
  const bool one_axis =
      scale->floats.size() == 1 ||
      (axis >= 0 && axis < static_cast<std::int64_t>(job.in(0).shape.size()) &&
       job.in(0).shape[static_cast<std::size_t>(axis)] == static_cast<std::int64_t>(scale->floats.size()));
  if (!one_axis) return "its scales do not run along its axis";
  if (type.bits <= 16)
    note_meaning(job.graph.value(dequantise ? job.node.inputs[0] : job.node.outputs[0]), step.floats,
                 step.integers);
  return job.give_step(std::move(step), axis);
}

std::string relu(Job& job) {
  if (job.in(0).type.is_float()) return job.give_step(Step::relu());
  return job.give_step(Step::clamp_integer(0, job.in(0).type.highest()));
}

/// A bound of Clip: an input, or an attribute in older operator sets.
std::optional<float> clip_bound(const Job& job, std::size_t input, const char* attribute, float otherwise) {
  if (job.has(input)) {
    const auto known = known_floats(job.graph, job.uses, job.node.inputs[input]);
    if (!known || known->size() != 1) return std::nullopt;
    return known->front();
  }
  return job.op.real(attribute, otherwise);
}

std::string clip(Job& job) {
  if (!job.in(0).type.is_float()) {
    const graph::Constant* low = constant_input(job.graph, job.node, 1);
    const graph::Constant* high = constant_input(job.graph, job.node, 2);
    if ((job.has(1) && low == nullptr) || (job.has(2) && high == nullptr))
      return "its bounds must be constants";
    return job.give_step(Step::clamp_integer(low == nullptr ? job.in(0).type.lowest() : low->integers[0],
                                             high == nullptr ? job.in(0).type.highest() : high->integers[0]));
  }
  const auto low = clip_bound(job, 1, "min", std::numeric_limits<float>::lowest());
  const auto high = clip_bound(job, 2, "max", std::numeric_limits<float>::max());
  if (!low || !high) return "its bounds must be constants";
  if (!(*low <= *high)) return "its lower bound is above its upper bound";
  return job.give_step(Step::clip(*low, *high));
}

std::string cast(Job& job) {
  const Type from = job.in(0).type, to = job.result().type;
  if (from.is_integer() && to == Type::float32()) return job.give_step(Step::to_float());
  const bool widens =
      from.is_integer() && to.is_integer() && to.lowest() <= from.lowest() && to.highest() >= from.highest();
  if (widens) return job.give_step(Step::add_integer({0}));
  return "casts " + to_string(from) + " to " + to_string(to) + ", which is not taken";
}

/// The operand that is known, as elements along one axis of the other; absent where neither or both are.
struct Known {
  std::size_t data = 0;  // the operand that is not
  AlongAxis constant;
};
std::optional<Known> known_operand(const Job& job, std::string& why) {
  for (const std::size_t side : {1U, 0U}) {
    const Value& v = job.in(side);
    Value known = v;
    if (v.constant == nullptr) {
      if (!v.type.is_float()) continue;
      const auto floats = known_floats(job.graph, job.uses, job.node.inputs[side]);
      if (!floats) continue;
      graph::Constant c;
      c.floats = *floats;
      known.constant = std::make_shared<const graph::Constant>(std::move(c));
    }
    const Shape& data = job.in(1 - side).shape;
    const auto along = along_axis(known, data);
    if (!along || data != job.result().shape) {
      why = "its constant operand of " + to_string(v.shape) + " does not run along one axis of " +
            to_string(data);
      return std::nullopt;
    }
    return Known{1 - side, *along};
  }
  return std::nullopt;
}

std::string arithmetic(Job& job, bool& taken) {
  std::string why;
  const auto known = known_operand(job, why);
  if (!known) {
    taken = !why.empty();
    return why;
  }
  const std::string& type = job.op.type;
  const bool swapped = known->data == 1;
  std::vector<float> floats = known->constant.floats;
  Chain chain;
  if (!job.in(known->data).type.is_float()) {
    if (job.in(known->data).type != Type::integer(32))
      return type + " of " + to_string(job.in(known->data).type) + " is not taken";
    std::vector<std::int64_t> integers = known->constant.integers;
    if (type == "Sub" && !swapped)
      for (std::int64_t& i : integers) i = -i;
    else if (type != "Add")
      return type + " of integers with a constant is not taken";
    chain.steps = {Step::add_integer(std::move(integers))};
  } else if (type == "Add") {
    chain.steps = {Step::add(std::move(floats))};
  } else if (type == "Mul") {
    chain.steps = {Step::multiply(std::move(floats))};
  } else if (type == "Sub" && !swapped) {
    for (float& f : floats) f = -f;
    chain.steps = {Step::add(std::move(floats))};
  } else if (type == "Sub") {
    chain.steps = {Step::multiply({-1.0F}), Step::add(std::move(floats))};
  } else if (!swapped) {
    chain.steps = {Step::divide(std::move(floats))};
  } else {
    return "divides a constant by data, which is not taken";
  }
  return job.give(Elementwise{chain, chain.channels() > 1 ? known->constant.axis : -1},
                  job.node.inputs[known->data]);
}

std::string function(Job& job, Step::Kind kind) {
  Step s;
  s.kind = kind;
  if (kind == Step::Kind::kLeakyRelu) s.low = job.op.real("alpha", 0.01F);
  if (kind == Step::Kind::kHardSigmoid)
    s.low = job.op.real("alpha", 0.2F), s.high = job.op.real("beta", 0.5F);
  return job.give_step(s);
}

std::string transpose(Job& job) {
  std::vector<std::int64_t> perm = job.op.integers("perm", {});
  if (perm.empty())
    for (std::size_t i = job.in(0).shape.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  return job.give(Move{std::move(perm)}, job.node.inputs[0]);
}

std::string max_pool(Job& job, bool global) {
  const Shape x = job.in(0).shape;
  if (x.size() != 3 && x.size() != 4) return "only one or two spatial axes are taken";
  if (x[0] != 1) return "its batch is " + std::to_string(x[0]) + ", not 1";
  graph::ResolvedWindow window;
  std::string why;
  if (global) {
    window.geometry = {x.size() == 4 ? x[2] : 1, x.back(), 1, 1, 1, 1, 0, 0, 0, 0};
    window.out_h = window.out_w = 1;
  } else {
    const auto resolved = graph::resolve_window(job.op, x, job.op.integers("kernel_shape", {}), why);
    if (!resolved) return why;
    window = *resolved;
  }
  const graph::Geometry& g = window.geometry;
  const auto blind = [](std::int64_t pad, std::int64_t kernel, std::int64_t dilation) {
    return pad > (kernel - 1) * dilation;
  };
  if (blind(std::max(g.pad_top, g.pad_bottom), g.kernel_h, g.dilation_h) ||
      blind(std::max(g.pad_left, g.pad_right), g.kernel_w, g.dilation_w))
    return "some of its windows lie wholly in the padding";
  if (x.size() == 4) return job.give(graph::MaxPool{window.geometry}, job.node.inputs[0]);
  const Value result = job.result();
  const ValueId plane = job.graph.add_value(result.name + ".plane", result.type, {1, x[1], 1, x[2]});
  const ValueId pooled =
      job.graph.add_value(result.name + ".pooled", result.type, {1, x[1], 1, window.out_w});
  job.out.push_back(
      make_node(job.node.name + ".plane", Move{}, {job.node.inputs[0]}, plane, job.node.sources));
  job.out.push_back(
      make_node(job.node.name, graph::MaxPool{window.geometry}, {plane}, pooled, job.node.sources));
  job.out.push_back(
      make_node(job.node.name + ".line", Move{}, {pooled}, job.node.outputs[0], job.node.sources));
  return {};
}

std::string concat(Job& job) {
  std::int64_t axis = job.op.integer("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(job.result().shape.size());
  for (const ValueId v : job.node.inputs)
    if (job.graph.value(v).constant != nullptr) return "joins a constant, which is not taken";
  job.out.push_back(
      make_node(job.node.name, graph::Concat{axis}, job.node.inputs, job.node.outputs[0], job.node.sources));
  return {};
}

/// Along the channels only, of a vector or of [1, C, H, W].
std::string softmax(Job& job) {
  const Shape& x = job.in(0).shape;
  const auto rank = static_cast<std::int64_t>(x.size());
  std::int64_t axis = job.op.integer("axis", job.op.opset < 13 ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return "its axis is outside its input";
  // Before opset 13 all axes from `axis` on are one.
  std::int64_t extent = x[static_cast<std::size_t>(axis)];
  if (job.op.opset < 13)
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < x.size(); ++i) extent *= x[i];
  const bool whole = extent == elements(x) && (rank != 4 || extent == x[1]);
  if (!whole && !(rank == 4 && axis == 1 && job.op.opset >= 13))
    return "softmax of " + to_string(x) + " along axis " + std::to_string(axis) + " is not taken";
  return job.give(graph::Softmax{}, job.node.inputs[0]);
}

/// Empty where the node was taken or is not this pass's; else why it is refused.
std::string lower(Job& job, bool& taken) {
  const std::string& type = job.op.type;
  using K = Step::Kind;
  static const std::map<std::string, K> kFunctions = {{"LeakyRelu", K::kLeakyRelu},
                                                      {"Sigmoid", K::kSigmoid},
                                                      {"Tanh", K::kTanh},
                                                      {"HardSigmoid", K::kHardSigmoid},
                                                      {"HardSwish", K::kHardSwish}};
  taken = true;
  if (type == "QuantizeLinear") return quantiser(job, false);
  if (type == "DequantizeLinear") {
    taken = !is_of_constants(job);
    return taken ? quantiser(job, true) : "";
  }
  if (type == "Relu") return relu(job);
  if (type == "Clip") return clip(job);
  if (type == "Cast") return cast(job);
  if (type == "Reshape" || type == "Flatten" || type == "Squeeze" || type == "Unsqueeze")
    return job.give(Move{}, job.node.inputs[0]);
  if (type == "Transpose") return transpose(job);
  if (type == "MaxPool") return max_pool(job, false);
  if (type == "GlobalMaxPool") return max_pool(job, true);
  if (type == "Concat") return concat(job);
  if (type == "Softmax") return softmax(job);
  if (type == "Add" || type == "Sub" || type == "Mul" || type == "Div") return arithmetic(job, taken);
  if (const auto f = kFunctions.find(type); f != kFunctions.end()) return function(job, f->second);
  taken = false;
  return {};
}

}  // namespace

Result<Graph> lower_elementwise(Graph graph) {
  const graph::Uses uses(graph);
  std::vector<Node> out;
  // The old nodes stay in the graph meanwhile: dequantised constants are looked up through them.
  for (Node& n : graph.nodes) {
    const OnnxOperator* op = n.refused ? nullptr : onnx_of(n);
    bool taken = false;
    if (op != nullptr) {
      const std::size_t before = out.size();
      Job job{{graph, uses, out, n, *op}};
      if (const std::string why = lower(job, taken); !why.empty()) {
        out.resize(before);
        refuse(graph, n, why);
      }
    }
    if (!taken || n.refused) out.push_back(n);
  }
  graph.nodes = std::move(out);
  return graph;
}

}  // namespace millrace::compiler::passes
