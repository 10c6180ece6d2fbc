// The QOperator and integer forms (QLinearConv, MatMulInteger, com.microsoft QLinear…) become integer
// arithmetic with the float32 chain that ONNX Runtime's kernel evaluates.
#include <cmath>
#include <map>

#include "compiler/graph/window.hpp"
#include "compiler/passes/accumulate.hpp"
#include "compiler/passes/average.hpp"
#include "compiler/passes/qlinear_kernels.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Combine;
using graph::Elementwise;
using graph::SumPool;

/// Reads one node's constants; the first that is not as it must be is remembered.
class Reader {
 public:
  Reader(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  float scale(std::size_t i) {
    const std::vector<float> all = scales(i);
    if (all.size() != 1) fail("its scale (input " + std::to_string(i + 1) + ") must be one number");
    return all.size() == 1 ? all[0] : 1;
  }
  std::vector<float> scales(std::size_t i) {
    const graph::Constant* c = constant_input(graph_, node_, i);
    if (c == nullptr || c->floats.empty())
      return fail("its scale (input " + std::to_string(i + 1) + ") is not constant"), std::vector<float>{1};
    for (const float f : c->floats)
      if (!(f > 0) || !std::isfinite(f))
        fail("its scale (input " + std::to_string(i + 1) + ") must be finite and above 0");
    return c->floats;
  }
  /// 0 where the input is left out.
  std::int64_t zero(std::size_t i) {
    const std::vector<std::int64_t> all = zeros(i);
    if (all.size() != 1) fail("its zero point (input " + std::to_string(i + 1) + ") must be one number");
    return all[0];
  }
  std::vector<std::int64_t> zeros(std::size_t i) {
    if (!has_input(node_, i)) return {0};
    const graph::Constant* c = constant_input(graph_, node_, i);
    if (c == nullptr || c->integers.empty())
      return fail("its zero point (input " + std::to_string(i + 1) + ") is not constant"),
             std::vector<std::int64_t>{0};
    return c->integers;
  }
  std::vector<std::int64_t> bias(std::size_t i) {
    if (!has_input(node_, i)) return {};
    const graph::Constant* c = constant_input(graph_, node_, i);
    if (c == nullptr || c->integers.empty())
      return fail("its bias is not constant"), std::vector<std::int64_t>{};
    if (graph_.value(node_.inputs[i]).type != Type::integer(32)) fail("its bias is not int32");
    return c->integers;
  }
  void fail(const std::string& why) {
    if (why_.empty()) why_ = why;
  }
  const std::string& why() const { return why_; }

 private:
  const Graph& graph_;
  const Node& node_;
  std::string why_;
};

/// What a rule works on. It appends to `out`, or says why it cannot.
struct Job {
  Graph& graph;
  std::vector<Node>& out;
  const Node& node;
  const OnnxOperator& op;
  Reader read;
  const Value& result() const { return graph.value(node.outputs[0]); }
  Type type() const { return result().type; }
};

Step to_output(const Job& job, float scale, std::int64_t zero) {
  return Step::quantise({scale}, zero, job.type().lowest(), job.type().highest());
}

/// rne(float32(acc) * ((sx * sw) / sy)) + zy, the product and quotient in float32 in this order.
Chain qlinear_chain(const Job& job, float sx, const std::vector<float>& sw, float sy, std::int64_t zy) {
  std::vector<float> factor;
  for (const float w : sw) factor.push_back(sx * w / sy);
  return {{Step::to_float(), Step::multiply(std::move(factor)), to_output(job, 1.0F, zy)}};
}

/// A product's operands and their zero points, at these inputs of the node.
Product operands(Job& job, std::size_t weights, std::size_t input_zero, std::size_t weight_zero) {
  Product p;
  p.x = job.node.inputs[0];
  p.weights = job.node.inputs[weights];
  p.result = job.node.outputs[0];
  p.input_zero = job.read.zero(input_zero);
  p.weight_zero = job.read.zeros(weight_zero);
  return p;
}

Product qlinear_operands(Job& job) {
  Product p = operands(job, 3, 2, 5);
  p.chain = qlinear_chain(job, job.read.scale(1), job.read.scales(4), job.read.scale(6), job.read.zero(7));
  return p;
}

std::string give_convolution(Job& job, Product p) {
  if (!job.read.why().empty()) return job.read.why();
  return add_convolution(job.graph, job.out, job.node, job.op, std::move(p));
}

std::string give_matrix_product(Job& job, bool transposed, Product p) {
  if (!job.read.why().empty()) return job.read.why();
  return add_matrix_product(job.graph, job.out, job.node, transposed, std::move(p));
}

std::string qlinear_conv(Job& job) {
  Product p = qlinear_operands(job);
  p.bias = job.read.bias(8);
  return give_convolution(job, std::move(p));
}

std::string qlinear_matmul(Job& job) {
  return give_matrix_product(job, false, qlinear_operands(job));
}

std::string conv_integer(Job& job) {
  return give_convolution(job, operands(job, 1, 2, 3));
}

std::string matmul_integer(Job& job) {
  return give_matrix_product(job, false, operands(job, 1, 2, 3));
}

/// alpha * sa * sb is one product in float32; without an output scale the result stays float.
std::string qgemm(Job& job) {
  Product p = operands(job, 3, 2, 5);
  p.bias = job.read.bias(6);
  if (job.op.integer("transA", 0) != 0) return "transA is not taken";
  const bool transposed = job.op.integer("transB", 0) != 0;
  const auto channels = static_cast<std::size_t>(matrix_channels(job.graph.value(p.weights), transposed));
  if (p.bias.size() == 1) p.bias.assign(channels, p.bias[0]);
  const float alpha = job.op.real("alpha", 1.0F) * job.read.scale(1);
  if (!(alpha > 0)) return "its alpha must be above 0";
  std::vector<float> scale = job.read.scales(4);
  for (float& s : scale) s = alpha * s;
  if (has_input(job.node, 7)) {
    const float sy = job.read.scale(7);
    for (float& s : scale) s = s / sy;
    p.chain = {{Step::to_float(), Step::multiply(scale), to_output(job, 1.0F, job.read.zero(8))}};
  } else {
    p.chain = {{Step::dequantise(scale, 0)}};
  }
  return give_matrix_product(job, transposed, std::move(p));
}

std::string qlinear_add(Job& job) {
  Combine c;
  c.arithmetic = Combine::Arithmetic::kQLinear;
  c.a = {{Step::dequantise({job.read.scale(1)}, job.read.zero(2))}};
  c.b = {{Step::dequantise({job.read.scale(4)}, job.read.zero(5))}};
  c.tail = {{to_output(job, job.read.scale(6), job.read.zero(7))}};
  if (!job.read.why().empty()) return job.read.why();
  for (const std::size_t side : {0U, 3U}) {
    const Value& known = job.graph.value(job.node.inputs[side]);
    const ValueId x = job.node.inputs[3 - side];
    if (known.constant == nullptr) continue;
    const auto along = along_axis(known, job.graph.value(x).shape);
    if (!along || job.graph.value(x).shape != job.result().shape)
      return "its constant operand does not run along one axis";
    const auto affine = [](const Chain& chain) {
      return Affine{chain.steps[0].floats[0], chain.steps[0].integers[0]};
    };
    const Chain chain = add_constants(affine(side == 0 ? c.b : c.a), affine(side == 0 ? c.a : c.b),
                                      along->integers, c.tail.steps[0]);
    job.out.push_back(make_node(job.node.name, Elementwise{chain, along->axis}, {x}, job.node.outputs[0],
                                job.node.sources));
    return {};
  }
  if (job.graph.value(job.node.inputs[0]).shape != job.graph.value(job.node.inputs[3]).shape)
    return "its operands have different shapes";
  job.out.push_back(make_node(job.node.name, std::move(c), {job.node.inputs[0], job.node.inputs[3]},
                              job.node.outputs[0], job.node.sources));
  return {};
}

std::string qlinear_pool(Job& job, bool global) {
  const Shape x = job.graph.value(job.node.inputs[0]).shape;
  if (x.size() != 4) return "only [1, C, H, W] is taken";
  SumPool s;
  s.zero = job.read.zero(2);
  const float sx = job.read.scale(1), sy = job.read.scale(3);
  if (global) {
    s.geometry = {x[2], x[3], 1, 1, 1, 1, 0, 0, 0, 0};
  } else {
    std::string why;
    const auto window = graph::resolve_window(job.op, x, job.op.integers("kernel_shape", {}), why);
    if (!window) return why;
    if (window->padded && job.op.integer("count_include_pad", 0) == 0)
      return "padding that is not counted is not taken; set count_include_pad to 1, or pads to 0";
    s.geometry = window->geometry;
    global = covers(s.geometry, x);
  }
  s.chain =
      average_chain(job.graph, job.node, s.geometry, global, sx, to_output(job, sy, job.read.zero(4)), false);
  if (!job.read.why().empty()) return job.read.why();
  job.out.push_back(
      make_node(job.node.name, std::move(s), {job.node.inputs[0]}, job.node.outputs[0], job.node.sources));
  return {};
}

std::string qlinear_concat(Job& job) {
  const float sy = job.read.scale(0);
  const std::int64_t zy = job.read.zero(1);
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i + 2 < job.node.inputs.size(); i += 3) {
    const Chain chain{
        {Step::dequantise({job.read.scale(i + 1)}, job.read.zero(i + 2)), to_output(job, sy, zy)}};
    const ValueId part = job.graph.add_value(job.result().name + ".part", job.type(),
                                             job.graph.value(job.node.inputs[i]).shape);
    job.out.push_back(make_node(job.node.name + ".part" + std::to_string(parts.size()),
                                Elementwise{chain, -1}, {job.node.inputs[i]}, part, job.node.sources));
    parts.push_back(part);
  }
  if (!job.read.why().empty()) return job.read.why();
  note_meaning(job.graph.value(job.node.outputs[0]), {sy}, {zy});
  std::int64_t axis = job.op.integer("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(job.result().shape.size());
  job.out.push_back(
      make_node(job.node.name, graph::Concat{axis}, parts, job.node.outputs[0], job.node.sources));
  return {};
}

std::string qlinear_function(Job& job, Step function) {
  const Chain chain{{Step::dequantise({job.read.scale(1)}, job.read.zero(2)), std::move(function),
                     to_output(job, job.read.scale(3), job.read.zero(4))}};
  if (!job.read.why().empty()) return job.read.why();
  job.out.push_back(make_node(job.node.name, Elementwise{chain, -1}, {job.node.inputs[0]},
                              job.node.outputs[0], job.node.sources));
  return {};
}

std::string qlinear_sigmoid(Job& job) {
  Step s;
  s.kind = Step::Kind::kSigmoid;
  return qlinear_function(job, s);
}

std::string qlinear_leaky_relu(Job& job) {
  Step s;
  s.kind = Step::Kind::kLeakyRelu;
  s.low = job.op.real("alpha", 0.01F);
  return qlinear_function(job, s);
}

struct Rule {
  std::string (*lower)(Job&);
  std::size_t scale;  // the input that holds the result's scale; its zero point is the next; 0: there is none
};

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> kRules = {
      {"QLinearConv", {qlinear_conv, 6}},
      {"QLinearMatMul", {qlinear_matmul, 6}},
      {"ConvInteger", {conv_integer, 0}},
      {"MatMulInteger", {matmul_integer, 0}},
      {"QGemm", {qgemm, 7}},
      {"QLinearAdd", {qlinear_add, 6}},
      {"QLinearConcat", {qlinear_concat, 0}},
      {"QLinearAveragePool", {[](Job& job) { return qlinear_pool(job, false); }, 3}},
      {"QLinearGlobalAveragePool", {[](Job& job) { return qlinear_pool(job, true); }, 3}},
      {"QLinearSigmoid", {qlinear_sigmoid, 3}},
      {"QLinearLeakyRelu", {qlinear_leaky_relu, 3}}};
  return kRules;
}

}  // namespace

Result<Graph> lower_qoperators(Graph graph) {
  rewrite_nodes(graph, [&](Node& n, std::vector<Node>& out) {
    const OnnxOperator* op = onnx_of(n);
    const auto rule = op == nullptr ? rules().end() : rules().find(op->type);
    if (rule == rules().end()) return false;
    Job job{graph, out, n, *op, Reader(graph, n)};
    const std::size_t before = out.size();
    const std::string why = rule->second.lower(job);
    if (why.empty()) {
      if (const std::size_t i = rule->second.scale; i > 0 && has_input(n, i))
        note_meaning(graph.value(n.outputs[0]), job.read.scales(i), job.read.zeros(i + 1));
      return true;
    }
    out.resize(before);
    refuse(graph, n, why);
    return false;
  });
  return graph;
}

}  // namespace millrace::compiler::passes
