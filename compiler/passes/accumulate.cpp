#include "compiler/passes/accumulate.hpp"

#include "compiler/graph/window.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;
using graph::Elementwise;
using graph::Move;

std::string check(const Graph& graph, const Product& p, std::int64_t channels) {
  const Value& w = graph.value(p.weights);
  const Value& x = graph.value(p.x);
  if (x.constant != nullptr) return "its data input is a constant";
  if (!x.type.is_integer() || x.type.bits > 16)
    return "its input is " + to_string(x.type) + "; at most 16 bits are taken";
  if (!w.type.is_integer() || w.type.bits > 16)
    return "its weights are " + to_string(w.type) + "; at most 16 bits are taken";
  const auto one_or_all = [channels](std::size_t n) {
    return n == 1 || static_cast<std::int64_t>(n) == channels;
  };
  if (!one_or_all(p.weight_zero.size()))
    return "it has " + std::to_string(p.weight_zero.size()) + " weight zero points for " +
           std::to_string(channels) + " channels";
  if (!p.bias.empty() && static_cast<std::int64_t>(p.bias.size()) != channels)
    return "its bias has the wrong size";
  if (p.chain.channels() != 1 && static_cast<std::int64_t>(p.chain.channels()) != channels)
    return "it has " + std::to_string(p.chain.channels()) + " scales for " + std::to_string(channels) +
           " channels";
  return {};
}

/// Appends Accumulate -> Elementwise -> Move as far as each is needed; `shape` is the accumulator's.
void emit(Graph& graph, std::vector<Node>& out, const Node& from, Accumulate a, const Product& p, ValueId x,
          const Shape& shape, const Shape& back, std::vector<std::int64_t> perm_back) {
  const Value result = graph.value(p.result);
  const bool moves = !perm_back.empty() || back != shape;
  const Type accumulator = Type::integer(32);
  const ValueId acc =
      p.chain.steps.empty() && !moves ? p.result : graph.add_value(result.name + ".acc", accumulator, shape);
  out.push_back(make_node(from.name, std::move(a), {x}, acc, from.sources));
  ValueId last = acc;
  if (!p.chain.steps.empty()) {
    const ValueId next = moves ? graph.add_value(result.name + ".chain", result.type, shape) : p.result;
    out.push_back(make_node(from.name + ".chain", Elementwise{p.chain, p.chain.channels() > 1 ? 1 : -1},
                            {last}, next, from.sources));
    last = next;
  }
  if (!moves) return;
  out.push_back(make_node(from.name + ".move", Move{std::move(perm_back)}, {last}, p.result, from.sources));
}

ValueId add_move(Graph& graph, std::vector<Node>& out, const Node& from, ValueId x,
                 std::vector<std::int64_t> perm, Shape shape, const char* suffix) {
  const Value v = graph.value(x);
  const ValueId moved = graph.add_value(v.name + suffix, v.type, std::move(shape));
  out.push_back(make_node(from.name + suffix, Move{std::move(perm)}, {x}, moved, from.sources));
  return moved;
}

}  // namespace

std::int64_t convolution_channels(const Value& weights) {
  return weights.shape.empty() ? 0 : weights.shape[0];
}

std::int64_t matrix_channels(const Value& weights, bool transposed) {
  return weights.shape.size() < 2 ? 0 : weights.shape[weights.shape.size() - (transposed ? 2 : 1)];
}

std::string add_convolution(Graph& graph, std::vector<Node>& out, const Node& from, const OnnxOperator& op,
                            Product p) {
  const Value w = graph.value(p.weights);
  if (w.constant == nullptr) return "its weights are not constant";
  const std::int64_t channels = convolution_channels(w);
  if (std::string why = check(graph, p, channels); !why.empty()) return why;
  const Shape x_shape = graph.value(p.x).shape;
  const std::vector<std::int64_t> kernel(w.shape.begin() + 2, w.shape.end());
  std::string why;
  const auto window = graph::resolve_window(op, x_shape, kernel, why);
  if (!window) return why;
  if (x_shape[0] != 1) return "its batch is " + std::to_string(x_shape[0]) + ", not 1";

  Accumulate a;
  a.geometry = window->geometry;
  a.groups = op.integer("group", 1);
  a.out_channels = channels;
  a.weight_type = w.type;
  a.weights = w.constant;
  a.weight_zero = p.weight_zero;
  a.input_zero = p.input_zero;
  a.bias = p.bias;
  const Shape shape = {1, channels, window->out_h, window->out_w};
  ValueId x = p.x;
  if (x_shape.size() == 3) x = add_move(graph, out, from, p.x, {}, {1, x_shape[1], 1, x_shape[2]}, ".plane");
  emit(graph, out, from, std::move(a), p, x, shape, graph.value(p.result).shape, {});
  return {};
}

std::string add_matrix_product(Graph& graph, std::vector<Node>& out, const Node& from, bool transposed,
                               Product p) {
  const Value w = graph.value(p.weights);
  if (w.constant == nullptr) return "its weights are not constant";
  std::int64_t stacked = 1;
  for (std::size_t i = 0; i + 2 < w.shape.size(); ++i) stacked *= w.shape[i];
  if (w.shape.size() < 2 || stacked != 1) return "its weights are no matrix";
  const std::int64_t channels = matrix_channels(w, transposed);
  if (std::string why = check(graph, p, channels); !why.empty()) return why;
  const std::int64_t k = elements(w.shape) / channels;
  const Shape x_shape = graph.value(p.x).shape;
  const std::int64_t rows = elements(x_shape) / k;

  Accumulate a;
  a.dense = rows == 1;
  a.out_channels = channels;
  a.weight_type = w.type;
  a.weights = w.constant;
  if (!transposed) {
    graph::Constant turned;
    turned.integers.resize(w.constant->integers.size());
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t o = 0; o < channels; ++o)
        turned.integers[static_cast<std::size_t>(o * k + i)] =
            w.constant->integers[static_cast<std::size_t>(i * channels + o)];
    a.weights = std::make_shared<const graph::Constant>(std::move(turned));
  }
  a.weight_zero = p.weight_zero;
  a.input_zero = p.input_zero;
  a.bias = p.bias;
  const Shape back = graph.value(p.result).shape;
  if (a.dense) {
    ValueId x = p.x;
    if (x_shape.size() != 2) x = add_move(graph, out, from, p.x, {}, {1, k}, ".flat");
    emit(graph, out, from, std::move(a), p, x, {1, channels}, back, {});
    return {};
  }
  // Several rows: a window of 1 x 1 over them, channels first as everywhere.
  const ValueId flat = add_move(graph, out, from, p.x, {}, {rows, k}, ".rows");
  const ValueId turned = add_move(graph, out, from, flat, {1, 0}, {1, k, 1, rows}, ".turned");
  emit(graph, out, from, std::move(a), p, turned, {1, channels, 1, rows}, back, {0, 2, 3, 1});
  return {};
}

}  // namespace millrace::compiler::passes
