// Integer operations become blocks: channels innermost, no batch axis, requantisation proved. A Move becomes a
// Permute only if a later operation needs its elements in another order.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/passes/blocks.hpp"
#include "compiler/passes/layout.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;
using graph::Combine;
using graph::Elementwise;

/// The value of the new graph that holds a value of the old one, and the order of its elements: for each
/// position, the element (row-major in the ONNX shape) that is there.
struct Lowered {
  ValueId value = kNoValue;
  std::shared_ptr<const IndexMap> map;  // null: the dataflow's order
};

/// The fewest bits of an integer type whose elements take as many bytes as those of `type`.
int fewest_bits_stored_like(Type type) {
  return type.bits <= 8 ? 1 : type.bits <= 16 ? 9 : 17;
}

/// For each value: the fewest bits of its sums if its layer has no quantiser. A model output must have the bytes
/// of its type, and all parts of a Concat must have one type. For other values, 0.
std::vector<int> fewest_sum_bits(const Graph& graph) {
  std::vector<int> bits(graph.values.size(), 0);
  for (const ValueId v : graph.outputs) bits[v] = fewest_bits_stored_like(graph.value(v).type);
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (std::holds_alternative<graph::Move>(n->operation))
      bits[n->inputs[0]] = std::max(bits[n->inputs[0]], bits[n->outputs[0]]);
    if (std::holds_alternative<graph::Concat>(n->operation))
      for (const ValueId part : n->inputs) bits[part] = graph.value(part).type.bits;
  }
  return bits;
}

class Lowering {
 public:
  explicit Lowering(Graph graph)
      : old_(std::move(graph)), lowered_(old_.values.size()), sum_bits_(fewest_sum_bits(old_)) {
    new_.name = old_.name;
    new_.input_signatures = old_.input_signatures;
    new_.output_signatures = old_.output_signatures;
    new_.diagnostics = old_.diagnostics;
  }

  Result<Graph> run() {
    for (const ValueId v : old_.inputs) {
      const Value& input = old_value(v);
      if (input.type.is_float() ? input.type.bits != 32 : !input.type.is_integer() || input.type.bits > 32)
        return Error(ErrorCode::kUnsupported, "input '" + input.name + "' is " + to_string(input.type) +
                                                  "; float32 and integers up to 32 bits are supported");
      lower_input(v);
    }
    for (Node& n : old_.nodes) {
      // Skip nodes that depend on a refused node. Other nodes go on, so that all refusals are listed.
      const bool known = std::all_of(n.inputs.begin(), n.inputs.end(),
                                     [this](ValueId v) { return lowered_[v].value != kNoValue; });
      if (!known) continue;
      if (std::string why = std::visit([&](const auto& op) { return lower(n, op); }, n.operation);
          !why.empty())
        refuse(new_, n, why);
      if (internal_) return *internal_;
    }
    if (!new_.refusals.empty()) return refusal_error(new_);
    for (const ValueId v : old_.outputs) {
      MILLRACE_TRY(lower_output(v));
    }
    return std::move(new_);
  }

 private:
  const Value& old_value(ValueId v) const { return old_.value(v); }
  const Type& type_of(const Node& n) const { return old_value(n.outputs[0]).type; }

  /// Adds a value with the name and meaning of the old value `like`.
  ValueId add_new(const Value& like, Type type, Shape shape) {
    const ValueId id = new_.add_value(like.name, type, std::move(shape));
    new_.value(id).scale = like.scale;
    new_.value(id).zero_point = like.zero_point;
    return id;
  }

  /// Operations that do not change elements keep what the elements represent.
  void inherit_meaning(ValueId to, ValueId from) {
    if (new_.value(to).scale.empty()) copy_meaning(new_, from, to);
  }

  void add_block(const Node& from, kernels::Operation op, std::vector<ValueId> inputs, ValueId output) {
    new_.nodes.push_back(make_node(node_names_.unique(from.name), graph::Operation(std::move(op)),
                                   std::move(inputs), output, from.sources));
  }

  /// Inputs keep the model's order without the batch axis. If that is the dataflow's order, they have its shape.
  void lower_input(ValueId v) {
    const Value& value = old_value(v);
    auto map = std::make_shared<const IndexMap>(dataflow_map(value.shape));
    if (is_identity_map(*map)) {
      lowered_[v] = {add_new(value, value.type, dataflow_shape(value.shape)), nullptr};
    } else {
      auto flat = std::make_shared<const IndexMap>(identity_map(elements(value.shape)));
      lowered_[v] = {add_new(value, value.type, Shape(value.shape.begin() + 1, value.shape.end())), flat};
    }
    new_.inputs.push_back(lowered_[v].value);
  }

  Status lower_output(ValueId v) {
    const Value& value = old_value(v);
    Lowered& place = lowered_[v];
    const IndexMap have = place.map != nullptr ? *place.map : dataflow_map(value.shape);
    if (!is_identity_map(have)) {
      if (value.shape[0] != 1)
        return Error(ErrorCode::kUnsupported, "output '" + value.name + "' is " + to_string(value.shape) +
                                                  "; its first axis must be the batch, and 1");
      std::string why =
          move_to(v, identity_map(elements(value.shape)), Shape(value.shape.begin() + 1, value.shape.end()));
      if (!why.empty()) return Error(ErrorCode::kUnsupported, "output '" + value.name + "': " + why);
    }
    new_.outputs.push_back(lowered_[v].value);
    return {};
  }

  /// Emits a Permute that gives `v` the order `wanted` and the shape. Returns why that is impossible, if it is.
  std::string move_to(ValueId v, const IndexMap& wanted, const Shape& shape) {
    const Value& value = old_value(v);
    Lowered& place = lowered_[v];
    const IndexMap have = place.map != nullptr ? *place.map : dataflow_map(value.shape);
    std::vector<std::uint32_t> position(have.size());
    for (std::size_t p = 0; p < have.size(); ++p) position[have[p]] = static_cast<std::uint32_t>(p);
    IndexMap source(have.size());
    for (std::size_t p = 0; p < wanted.size(); ++p) source[p] = position[wanted[p]];
    kernels::Permute permute;
    if (!is_identity_map(source)) {
      const auto found = find_permutation(source);
      if (!found)
        return "its elements would have to move in a way that is no transposition; simplify the Reshape and "
               "Transpose nodes before it";
      permute.dims = found->dims;
      permute.perm = found->perm;
    }
    const Value& from = new_.value(place.value);
    const ValueId moved = add_new(value, from.type, shape);
    inherit_meaning(moved, place.value);
    const Node name{value.name + ".permute", Elementwise{}, {}, {}, {}};
    add_block(name, std::move(permute), {place.value}, moved);
    place = {moved, std::make_shared<const IndexMap>(wanted)};
    if (wanted == dataflow_map(value.shape)) place.map = nullptr;
    return {};
  }

  /// The new value that holds `v` in the dataflow's order. kNoValue if that fails; then `why` says why.
  ValueId in_dataflow(ValueId v, std::string& why) {
    const Value& value = old_value(v);
    const Shape shape = dataflow_shape(value.shape);
    const Lowered& place = lowered_[v];
    if (place.map == nullptr && new_.value(place.value).shape == shape) return place.value;
    why = move_to(v, dataflow_map(value.shape), shape);
    return why.empty() ? lowered_[v].value : kNoValue;
  }

  /// Adds a block that computes the node's output.
  void give(const Node& n, kernels::Operation op, std::vector<ValueId> inputs, Type type) {
    const Value& value = old_value(n.outputs[0]);
    const ValueId id = add_new(value, type, dataflow_shape(value.shape));
    add_block(n, std::move(op), std::move(inputs), id);
    lowered_[n.outputs[0]] = {id, nullptr};
  }

  std::string failed(const Error& error) {
    if (error.code() == ErrorCode::kInternal) internal_ = error;
    return error.message();
  }

  std::string lower(const Node& n, const Accumulate& a) {
    std::string why;
    const ValueId x = in_dataflow(n.inputs[0], why);
    if (!why.empty()) return why;
    auto c = make_convolution(a, new_.value(x).type, type_of(n));
    if (!c.ok()) return failed(c.error());
    if (!c->requantise)
      c->accumulator.bits = std::max(c->accumulator.bits, static_cast<std::uint8_t>(sum_bits_[n.outputs[0]]));
    const Type type = c->requantise ? type_of(n) : Type::integer(c->accumulator.bits);
    give(n, std::move(*c), {x}, type);
    return {};
  }

  std::string lower(const Node& n, const graph::MaxPool& m) {
    std::string why;
    const ValueId x = in_dataflow(n.inputs[0], why);
    if (!why.empty()) return why;
    if (!new_.value(x).type.is_integer()) return "works on floats: put a quantiser before it";
    give(n, kernels::MaxPool{make_window(m.geometry, 0)}, {x}, new_.value(x).type);
    inherit_meaning(lowered_[n.outputs[0]].value, x);
    return {};
  }

  std::string lower(const Node& n, const graph::SumPool& s) {
    std::string why;
    const ValueId x = in_dataflow(n.inputs[0], why);
    if (!why.empty()) return why;
    auto p = make_sum_pool(s, new_.value(x).type, type_of(n));
    if (!p.ok()) return failed(p.error());
    give(n, std::move(*p), {x}, type_of(n));
    return {};
  }

  std::string lower(const Node& n, const Combine& c) {
    std::string why;
    const ValueId a = in_dataflow(n.inputs[0], why);
    const ValueId b = why.empty() ? in_dataflow(n.inputs[1], why) : kNoValue;
    if (!why.empty()) return why;
    auto add = make_add(c, new_.value(a).type, new_.value(b).type, type_of(n));
    if (!add.ok()) return failed(add.error());
    give(n, std::move(*add), {a, b}, type_of(n));
    return {};
  }

  std::string lower(const Node& n, const graph::Concat& c) {
    const Shape& shape = old_value(n.outputs[0]).shape;
    std::int64_t before = 1;
    for (std::int64_t i = 0; i < c.axis; ++i) before *= shape[static_cast<std::size_t>(i)];
    if (is_plane(shape) ? c.axis != 1 : before != 1)
      return "joins " + to_string(shape) + " along axis " + std::to_string(c.axis) +
             "; only channels are joined";
    std::vector<ValueId> parts;
    std::string why;
    for (const ValueId v : n.inputs) {
      parts.push_back(in_dataflow(v, why));
      if (!why.empty()) return why;
    }
    give(n, kernels::Concat{}, parts, new_.value(parts[0]).type);
    return new_.value(parts[0]).type.is_float() ? "joins floats: put a quantiser behind it" : "";
  }

  std::string lower(const Node& n, const graph::Softmax&) {
    std::string why;
    const ValueId x = in_dataflow(n.inputs[0], why);
    if (!why.empty()) return why;
    give(n, kernels::Softmax{}, {x}, Type::float32());
    return {};
  }

  /// Adds no block: only the order of the elements is another.
  std::string lower(const Node& n, const graph::Move& m) {
    const Value& from = old_value(n.inputs[0]);
    const Value& to = old_value(n.outputs[0]);
    const Lowered& place = lowered_[n.inputs[0]];
    const IndexMap step = move_map(m, from.shape);
    std::vector<std::uint32_t> becomes(step.size());
    for (std::size_t i = 0; i < step.size(); ++i) becomes[step[i]] = static_cast<std::uint32_t>(i);
    IndexMap map = place.map != nullptr ? *place.map : dataflow_map(from.shape);
    for (std::uint32_t& i : map) i = becomes[i];
    const bool plain = map == dataflow_map(to.shape);
    lowered_[n.outputs[0]] = {place.value,
                              plain ? nullptr : std::make_shared<const IndexMap>(std::move(map))};
    return {};
  }

  std::string lower(const Node& n, const Elementwise& e) {
    const Value& to = old_value(n.outputs[0]);
    std::string why;
    const Chain chain = spread(e, old_value(n.inputs[0]).shape, why);
    if (!why.empty()) return why;
    ValueId x = lowered_[n.inputs[0]].value;
    if (chain.channels() > 1) x = in_dataflow(n.inputs[0], why);
    if (!why.empty()) return why;
    const Type from = new_.value(x).type;
    Result<kernels::Operation> op = from.is_float()      ? quantise(chain)
                                    : to.type.is_float() ? dequantise(chain)
                                                         : make_rescale(chain, from, to.type);
    if (!op.ok()) return failed(op.error());
    const ValueId id = add_new(to, to.type, new_.value(x).shape);
    add_block(n, std::move(*op), {x}, id);
    lowered_[n.outputs[0]] = {id, lowered_[n.inputs[0]].map};
    return {};
  }

  /// The chain with constants along the last axis of the dataflow's shape: the channels of an image, or all
  /// elements of a flat value.
  static Chain spread(const Elementwise& e, const Shape& shape, std::string& why) {
    if (e.chain.channels() == 1) return e.chain;
    if (is_plane(shape)) {
      if (e.axis != 1)
        why = "has constants along axis " + std::to_string(e.axis) + "; only channels are supported";
      return e.chain;
    }
    const graph::AlongAxis along(shape, static_cast<std::size_t>(e.axis));
    Chain chain = e.chain;
    const auto repeat = [&](auto& values) {
      if (values.size() <= 1) return;
      const auto few = std::exchange(values, {});
      for (std::size_t i = 0; i < static_cast<std::size_t>(elements(shape)); ++i)
        values.push_back(few[along.index(i)]);
    };
    for (Step& s : chain.steps) {
      repeat(s.floats);
      repeat(s.integers);
    }
    return chain;
  }

  static Result<kernels::Operation> quantise(const Chain& chain) {
    const bool plain = chain.steps.size() == 1 && chain.steps[0].kind == Step::Kind::kQuantise &&
                       chain.steps[0].integers.size() == 1;
    if (!plain)
      return Error(ErrorCode::kUnsupported,
                   "computes in float32 before the first quantiser (" + to_string(chain) +
                       "): leave it to preprocessing (scale and mean in millrace.yaml)");
    return kernels::Operation(
        kernels::Quantise{chain.steps[0].floats, static_cast<std::int32_t>(chain.steps[0].integers[0])});
  }

  static Result<kernels::Operation> dequantise(const Chain& chain) {
    auto op = scale_of(chain);
    if (!op.ok()) return op;
    for (const float s : std::get<kernels::Dequantise>(*op).scale)
      if (!(s > 0) || !std::isfinite(s))
        return Error(ErrorCode::kUnsupported, "its factor towards float must be finite and above 0");
    return op;
  }

  static Result<kernels::Operation> scale_of(const Chain& chain) {
    using K = Step::Kind;
    const auto& s = chain.steps;
    if (s.size() == 1 && s[0].kind == K::kToFloat) return kernels::Operation(kernels::Dequantise{{1.0F}, 0});
    if (s.size() == 1 && s[0].kind == K::kDequantise && s[0].integers.size() == 1)
      return kernels::Operation(
          kernels::Dequantise{s[0].floats, static_cast<std::int32_t>(s[0].integers[0])});
    if (s.size() == 2 && s[0].kind == K::kToFloat && s[1].kind == K::kMultiply)
      return kernels::Operation(kernels::Dequantise{s[1].floats, 0});
    // A mean becomes sum * (scale / count).
    if (s.size() == 2 && s[0].kind == K::kDequantise && s[0].integers.size() == 1 &&
        s[1].kind == K::kDivide && s[0].floats.size() == 1 && s[1].floats.size() == 1)
      return kernels::Operation(kernels::Dequantise{{s[0].floats[0] / s[1].floats[0]},
                                                    static_cast<std::int32_t>(s[0].integers[0])});
    return Error(ErrorCode::kUnsupported,
                 "computes in float32 (" + to_string(chain) +
                     ") without a quantiser behind it; put a QuantizeLinear/DequantizeLinear pair behind it");
  }

  std::string lower(const Node&, const OnnxOperator&) { return "is an ONNX operator"; }
  std::string lower(const Node&, const kernels::Operation&) { return "is a block already"; }

  Graph old_, new_;
  graph::Names node_names_;
  std::vector<Lowered> lowered_;  // of the old values
  std::vector<int> sum_bits_;     // of the old values
  std::optional<Error> internal_;
};

}  // namespace

Result<Graph> lower_blocks(Graph graph) {
  return Lowering(std::move(graph)).run();
}

}  // namespace millrace::compiler::passes
