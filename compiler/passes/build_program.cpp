// Converts integer operations to the blocks of a program. Tensors have channels innermost and no batch axis, and
// requantisation is proved. A Move becomes a Rearrange only if a later operation needs the elements in another order.
// Operations that no hardware block can compute become blocks for the host. The file has more than 500 lines because
// one class keeps track of where each value is stored.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "compiler/passes/blocks.hpp"
#include "compiler/passes/rewrite.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;
using graph::Combine;
using graph::Elementwise;
using kernels::TensorIndex;

constexpr TensorIndex kNoTensor = 0xFFFFFFFFU;
constexpr std::size_t kLongestName = 100;

/// The tensor that contains a value of the graph, and the order of its elements.
struct Stored {
  TensorIndex tensor = kNoTensor;
  /// The order in which the elements are stored: map[i] is the row-major index, in the ONNX shape, of the element at
  /// position i. Null if the elements are in the dataflow's order.
  std::shared_ptr<const IndexMap> map;
  bool is_input = false;      // a model input, or computed element by element from a model input
  std::size_t last_move = 0;  // number of the last Move of the elements since the tensor was written; 0: none
};

/// A Move (an operation that only reorders elements) that got no block. Each Move refers to the one before it, because
/// lists of all Moves would need memory that grows with the square of their number.
struct Moved {
  std::size_t before = 0;  // number of the Move before this one; 0: none
  std::vector<std::string> sources;
};

Error unsupported(std::string why) {
  return Error(ErrorCode::kUnsupported, std::move(why));
}

/// Returns for each value how many bits its sums must at least have if its layer has no quantiser; 0 if any number will
/// do. A model output must have as many bytes as its type, and all parts of a Concat must have the same type.
std::vector<int> fewest_sum_bits(const Graph& graph) {
  std::vector<int> bits(graph.values.size(), 0);
  for (const ValueId v : graph.outputs) {
    const int own = graph.value(v).type.bits;
    bits[v] = own <= 8 ? 1 : own <= 16 ? 9 : 17;
  }
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (std::holds_alternative<graph::Move>(n->operation) ||
        std::holds_alternative<graph::Select>(n->operation))
      bits[n->inputs[0]] = std::max(bits[n->inputs[0]], bits[n->outputs[0]]);
    if (std::holds_alternative<graph::Concat>(n->operation) ||
        std::holds_alternative<graph::PluginOperator>(n->operation))
      for (const ValueId part : n->inputs) bits[part] = graph.value(part).type.bits;
  }
  return bits;
}

/// Returns the block name for an ONNX node. A block name must be a valid file name, but a node name can be any text.
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    if (plain)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && (name.front() == '.' || name.front() == '-')) name.erase(0, 1);
  if (name.size() > kLongestName) name.resize(kLongestName);
  return name.empty() ? "block" : name;
}

/// Returns the chain (of element-wise functions) with its constants along the last axis of the dataflow's shape. This
/// axis is the channels of a [1, C, H, W] value, or all elements of a flat value.
Result<Chain> spread(const Elementwise& e, const Shape& shape) {
  if (e.chain.channels() == 1) return e.chain;
  if (is_plane(shape) && e.axis != 1)
    return unsupported("has constants along axis " + std::to_string(e.axis) +
                       "; only channels are supported");
  if (is_plane(shape)) return e.chain;
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
    repeat(s.thresholds);
  }
  return chain;
}

/// Makes a quantiser of a chain that reads floats: those of a model input if `reads_input`, otherwise results of the host.
Result<kernels::Operation> make_quantise(const Chain& chain, bool reads_input) {
  const Step* s = chain.steps.size() == 1 ? &chain.steps[0] : nullptr;
  const bool quantises = s != nullptr && s->kind == Step::Kind::kQuantise && s->integers.size() == 1;
  if (!quantises && reads_input)
    return unsupported("computes in float32 before the first quantiser (" + to_string(chain) +
                       "): leave this step to preprocessing (scale and mean in millrace.yaml)");
  if (!quantises)
    return unsupported("computes in float32 on a value that the host computed (" + to_string(chain) +
                       "); put a QuantizeLinear/DequantizeLinear pair before the node");
  return kernels::Operation(kernels::Quantise{s->floats, static_cast<std::int32_t>(s->integers[0])});
}

Result<kernels::Operation> make_dequantise(const Chain& chain) {
  using K = Step::Kind;
  const auto& s = chain.steps;
  const bool converts = s[0].kind == K::kToFloat, dequantises = s[0].kind == K::kDequantise;
  kernels::Dequantise d{{1.0F}, 0};
  if (dequantises) d = {s[0].floats, static_cast<std::int32_t>(s[0].integers[0])};
  bool plain = converts || (dequantises && s[0].integers.size() == 1);
  const bool by_one = converts || (plain && d.scale == std::vector<float>{1.0F});
  if (s.size() == 2 && by_one && s[1].kind == K::kMultiply)
    d.scale = s[1].floats;
  else if (s.size() == 2 && dequantises && s[1].kind == K::kDivide && d.scale.size() == 1 &&
           s[1].floats.size() == 1)
    d.scale[0] /= s[1].floats[0];  // (sum * scale) / count becomes sum * (scale / count)
  else
    plain = plain && s.size() == 1;
  if (!plain)
    return unsupported("computes in float32 (" + to_string(chain) +
                       "), and no quantiser follows; "
                       "put a QuantizeLinear/DequantizeLinear pair after the node");
  for (const float scale : d.scale)
    if (!(scale > 0) || !std::isfinite(scale))
      return unsupported("the scale that converts its integers to float must be finite and above 0");
  return kernels::Operation(std::move(d));
}

/// The type of the integers that a quantiser gives.
Type type_of(const Step& quantise) {
  if (quantise.lowest < 0) return Type::holding(quantise.lowest, quantise.highest);
  return Type::natural(Type::holding(0, quantise.highest).bits - 1);
}

/// The chain of functions applied to a layer's sum, split into two parts at a quantiser. A chain that neither only
/// rises nor only falls cannot be a step function, so its second part becomes a table.
struct Split {
  Chain chain;  // becomes part of the sum
  Chain rest;   // becomes a table of the sum's result
  Type type;    // of the integers between the two
};

/// Returns `whole` with its chain (of element-wise functions) cut after the last quantiser that is not the chain's
/// final step. The steps after the cut become the first steps of the result's `rest`. Returns nothing if the chain has
/// no such quantiser.
std::optional<Split> split(const Split& whole) {
  const std::vector<Step>& steps = whole.chain.steps;
  for (std::size_t i = steps.size(); i-- > 1;) {
    const Step& s = steps[i - 1];
    if (s.kind != Step::Kind::kQuantise || s.highest - s.lowest > 255) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    return Split{{{steps.begin(), steps.begin() + at}},
                 Chain{{steps.begin() + at, steps.end()}}.then(whole.rest),
                 type_of(s)};
  }
  return std::nullopt;
}

class ProgramBuilder {
 public:
  ProgramBuilder(Graph graph, std::vector<graph::Diagnostic>* notes, std::vector<graph::Refusal>* refusals)
      : graph_(std::move(graph)),
        notes_(notes),
        refusals_(refusals),
        stored_(graph_.values.size()),
        sum_bits_(fewest_sum_bits(graph_)) {}

  Result<kernels::Program> run() {
    program_.name = graph_.name;
    // The program's inputs and outputs keep the names of the model's, so no other tensor may get one of these
    // names.
    for (const auto* signatures : {&graph_.input_signatures, &graph_.output_signatures})
      for (const graph::Signature& s : *signatures) tensor_names_.take(s.name);
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      MILLRACE_TRY(add_input(graph_.inputs[i], graph_.input_signatures[i].name));
    }
    for (Node& n : graph_.nodes) {
      // Skip nodes that depend on a refused node, which the compiler does not support. Lower all other nodes, so that
      // the error lists all refusals.
      const auto absent = std::find_if(n.inputs.begin(), n.inputs.end(),
                                       [this](ValueId v) { return stored_[v].tensor == kNoTensor; });
      if (absent != n.inputs.end()) {
        if (graph_.value(*absent).constant != nullptr)
          refuse(graph_, n,
                 "its operand '" + graph_.value(*absent).name +
                     "' is constant. "
                     "Compute this node when the model is exported, and store the result in the model");
        continue;
      }
      const Status status = std::visit([&](const auto& op) { return lower(n, op); }, n.operation);
      if (status.ok()) continue;
      if (status.error().code() == ErrorCode::kInternal) return status.error();
      refuse(graph_, n, status.error().message());
    }
    if (refusals_ != nullptr) *refusals_ = graph_.refusals;
    if (!graph_.refusals.empty()) return refusal_error(graph_);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::string& name = graph_.output_signatures[i].name;
      const Status added = add_output(graph_.outputs[i], name);
      if (added.ok()) continue;
      if (refusals_ == nullptr || added.error().code() == ErrorCode::kInternal) return added.error();
      refusals_->push_back({"output '" + name + "'", {}, added.error().message()});
    }
    if (program_.outputs.empty() && refusals_ != nullptr) return std::move(program_);
    if (const std::string why = kernels::validate(program_); !why.empty())
      return Error(ErrorCode::kInternal, "the program that was built is invalid: " + why);
    return std::move(program_);
  }

 private:
  const Shape& shape_of(ValueId v) const { return graph_.value(v).shape; }
  const Type& type_of(const Node& n) const { return graph_.value(n.outputs[0]).type; }
  kernels::ElementType stored_type(TensorIndex t) const { return program_.tensors[t].type; }

  /// Returns the order in which the elements of `v` are stored, in the form of Stored::map.
  IndexMap order_of(ValueId v) const {
    return stored_[v].map != nullptr ? *stored_[v].map : dataflow_map(shape_of(v));
  }

  /// Adds a tensor with the name, scale and zero point of the value `like`.
  TensorIndex add_tensor(const Value& like, kernels::ElementType type,
                         const std::vector<std::uint32_t>& shape) {
    const bool is_integer = type.is_integer();
    const bool has_scale = is_integer && (like.scale.size() <= 1 || like.scale.size() == shape.back());
    kernels::Tensor t{tensor_names_.unique(like.name), type, shape,
                      has_scale ? like.scale : std::vector<float>{}, is_integer ? like.zero_point : 0};
    program_.tensors.push_back(std::move(t));
    return static_cast<TensorIndex>(program_.tensors.size() - 1);
  }

  /// Copies scale and zero point of `from` to `to`, which contains the same elements. Copies nothing if `to` already
  /// has a scale, or if the scales of `from` vary along an axis that is not the last axis of `to`.
  void inherit_meaning(TensorIndex to, TensorIndex from) {
    const std::vector<float>& scale = program_.tensors[from].scale;
    if (!program_.tensors[to].scale.empty()) return;
    if (scale.size() > 1 && program_.tensors[to].shape.back() != scale.size()) return;
    program_.tensors[to].scale = scale;
    program_.tensors[to].zero_point = program_.tensors[from].zero_point;
  }

  void add_block(const std::string& name, std::vector<std::string> nodes, kernels::Operation op,
                 std::vector<TensorIndex> inputs, TensorIndex output) {
    program_.blocks.push_back(
        {block_names_.unique(file_name(name)), std::move(nodes), std::move(inputs), {output}, std::move(op)});
  }

  static std::vector<std::uint32_t> narrow(const Shape& shape) { return {shape.begin(), shape.end()}; }

  /// Returns the shape of a model input or output without the batch axis.
  static std::vector<std::uint32_t> without_batch(const Shape& shape) {
    return shape.size() == 1 ? std::vector<std::uint32_t>{1} : narrow({shape.begin() + 1, shape.end()});
  }

  /// Adds a model input, in the model's order of elements. If the dataflow uses this order, also uses its shape.
  Status add_input(ValueId v, const std::string& name) {
    const Value& value = graph_.value(v);
    if (value.type.is_float() ? value.type.bits != 32 : !value.type.is_integer() || value.type.bits > 32)
      return unsupported("input '" + value.name + "' is " + to_string(value.type) +
                         "; float32 and integers up to 32 bits are supported");
    const bool is_dataflow = is_identity_map(dataflow_map(value.shape));
    Stored& s = stored_[v];
    s.is_input = true;
    s.tensor = add_tensor(value, element_type(value.type),
                          is_dataflow ? narrow(dataflow_shape(value.shape)) : without_batch(value.shape));
    if (!is_dataflow) s.map = std::make_shared<const IndexMap>(identity_map(elements(value.shape)));
    program_.tensors[s.tensor].name = name;
    program_.inputs.push_back(s.tensor);
    return {};
  }

  Status add_output(ValueId v, const std::string& name) {
    const Shape& shape = shape_of(v);
    if (!is_identity_map(order_of(v))) {
      if (shape[0] != 1)
        return unsupported("output '" + graph_.value(v).name + "' is " + to_string(shape) +
                           "; its first axis must be the batch axis, of extent 1");
      if (const Status moved = rearrange(v, identity_map(elements(shape)), without_batch(shape)); !moved.ok())
        return moved.error().within("output '" + graph_.value(v).name + "'");
    }
    const TensorIndex t = stored_[v].tensor;
    for (const auto* list : {&program_.inputs, &program_.outputs})
      if (std::find(list->begin(), list->end(), t) != list->end())
        return unsupported("output '" + name +
                           "' is the same tensor as another input or output: "
                           "remove one of the two");
    program_.tensors[t].name = name;
    program_.outputs.push_back(t);
    return {};
  }

  /// Adds a Rearrange that stores `v` in the order `wanted`, with this shape.
  Status rearrange(ValueId v, const IndexMap& wanted, const std::vector<std::uint32_t>& shape) {
    const Value& value = graph_.value(v);
    Stored& s = stored_[v];
    const IndexMap position = inverse(order_of(v));
    IndexMap source;
    for (const std::uint32_t element : wanted) source.push_back(position[element]);
    kernels::Rearrange order;
    if (!is_identity_map(source)) {
      auto found = kernels::find_loops(source);
      if (!found)
        return unsupported(
            "its elements would have to be reordered in a way that nested loops cannot express; "
            "simplify the Reshape and Transpose nodes before it");
      order = std::move(*found);
    }
    const TensorIndex moved = add_tensor(value, stored_type(s.tensor), shape);
    inherit_meaning(moved, s.tensor);
    add_block(value.name + ".permute", {}, std::move(order), {s.tensor}, moved);
    s.tensor = moved;
    s.map = wanted == dataflow_map(value.shape) ? nullptr : std::make_shared<const IndexMap>(wanted);
    return {};
  }

  /// Returns a tensor with `v` in the dataflow's order and shape. Adds a Rearrange if necessary.
  Result<TensorIndex> in_dataflow(ValueId v) {
    const auto shape = narrow(dataflow_shape(shape_of(v)));
    if (stored_[v].map != nullptr || program_.tensors[stored_[v].tensor].shape != shape) {
      MILLRACE_TRY(rearrange(v, dataflow_map(shape_of(v)), shape));
    }
    return stored_[v].tensor;
  }

  /// Returns a tensor with `v` in the order of the ONNX file.
  Result<TensorIndex> in_model_order(ValueId v) {
    if (!is_identity_map(order_of(v))) {
      MILLRACE_TRY(rearrange(v, identity_map(elements(shape_of(v))), model_shape(shape_of(v))));
    }
    return stored_[v].tensor;
  }

  /// Returns the shape for a tensor whose elements are in the order of the ONNX file. If the dataflow has the same
  /// order, returns the dataflow's shape.
  static std::vector<std::uint32_t> model_shape(const Shape& shape) {
    if (is_identity_map(dataflow_map(shape))) return narrow(dataflow_shape(shape));
    return shape[0] == 1 ? without_batch(shape) : narrow(shape);
  }

  /// Records that `tensor` contains `v`, with the elements in the order of the ONNX file. The tensor counts like a
  /// model input: no card produces it.
  void store_in_model_order(ValueId v, TensorIndex tensor) {
    const IndexMap order = identity_map(elements(shape_of(v)));
    const bool is_dataflow = order == dataflow_map(shape_of(v));
    stored_[v] = {tensor, is_dataflow ? nullptr : std::make_shared<const IndexMap>(order), true, {}};
  }

  /// Adds a note that the host computes a part of the node, and why.
  void note_host(const Node& n, const std::string& why) {
    if (notes_ != nullptr) notes_->push_back({n.name, "runs on the host: " + why, n.sources});
  }

  /// Adds an operator of the host that computes the node's output from floats in the order of the ONNX file.
  Status add_host(const Node& n, const std::vector<ValueId>& inputs, kernels::FloatOperator op) {
    std::vector<TensorIndex> tensors;
    for (const ValueId v : inputs) {
      MILLRACE_ASSIGN(const TensorIndex t, in_model_order(v));
      tensors.push_back(t);
    }
    const ValueId v = n.outputs[0];
    const TensorIndex t =
        add_tensor(graph_.value(v), element_type(Type::float32()), model_shape(shape_of(v)));
    add_block(n.name, n.sources, std::move(op), std::move(tensors), t);
    store_in_model_order(v, t);
    return {};
  }

  /// Adds the chain of element-wise functions of node `n` as blocks for the host. `v` is the chain's input, and `from`
  /// where it is stored. The last block's tensor contains the value `to`, and its name is the node's with `suffix`.
  Result<Stored> add_chain(const Node& n, const Elementwise& e, ValueId v, const Value& to,
                           const std::string& suffix = {}) {
    auto spread_chain = spread(e, shape_of(v));
    const bool along_channels = spread_chain.ok();
    const Chain& chain = along_channels ? *spread_chain : e.chain;
    if (!along_channels) {
      MILLRACE_TRY(in_model_order(v));
    } else if (chain.channels() > 1) {
      MILLRACE_TRY(in_dataflow(v));
    }
    Stored stored = stored_[v];
    const std::vector<std::uint32_t> shape = program_.tensors[stored.tensor].shape;
    const Shape seen = along_channels ? Shape(shape.begin(), shape.end()) : shape_of(v);
    MILLRACE_ASSIGN(auto blocks, make_host_blocks(chain, seen, e.axis, along_channels,
                                                  stored_type(stored.tensor), to.type));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const bool last = i + 1 == blocks.size();
      Value like = to;
      if (!last) like = Value{to.name + "." + blocks[i].suffix, {}, {}, nullptr, {}, 0};
      const TensorIndex t = add_tensor(like, blocks[i].type, shape);
      add_block(n.name + suffix + (last ? "" : std::string(".") + blocks[i].suffix), n.sources,
                std::move(blocks[i].operation), {stored.tensor}, t);
      stored.tensor = t;
    }
    stored.is_input = true;
    stored.last_move = 0;
    return stored;
  }

  /// Returns the ONNX nodes that moved the elements of `v` since its tensor was written, followed by the ONNX nodes of
  /// `n`.
  std::vector<std::string> sources_since_written(ValueId v, const Node& n) const {
    std::vector<const std::vector<std::string>*> lists = {&n.sources};
    for (std::size_t move = stored_[v].last_move; move != 0; move = moved_[move - 1].before)
      lists.push_back(&moved_[move - 1].sources);
    std::vector<std::string> sources;
    std::unordered_set<std::string> known;
    for (auto list = lists.rbegin(); list != lists.rend(); ++list)
      for (const std::string& source : **list)
        if (known.insert(source).second) sources.push_back(source);
    return sources;
  }

  /// Adds the block that computes the node's output.
  TensorIndex add_result(const Node& n, std::vector<std::string> sources, kernels::Operation op,
                         std::vector<TensorIndex> inputs, kernels::ElementType type) {
    const Value& value = graph_.value(n.outputs[0]);
    const TensorIndex t = add_tensor(value, type, narrow(dataflow_shape(value.shape)));
    add_block(n.name, std::move(sources), std::move(op), std::move(inputs), t);
    stored_[n.outputs[0]].tensor = t;
    return t;
  }

  Status lower(const Node& n, const graph::HostOperator& h) { return add_host(n, n.inputs, h.op); }

  /// Makes a convolution. If no hardware can compute the chain of functions that follows the sums, the host computes
  /// the chain.
  Status lower(const Node& n, const Accumulate& a) {
    Accumulate without = a;
    without.chain = {};
    return lower_whole_or_sums(n, a, without, a.chain);
  }

  Status lower(const Node& n, const graph::SumPool& s) {
    graph::SumPool without = s;
    without.chain = {};
    return lower_whole_or_sums(n, s, without, s.chain);
  }

  /// Lowers an operation with its chain (the element-wise functions behind its sums) to one block. If no block can
  /// compute the chain, hardware computes only the sums, and the host computes the chain from the sums.
  template <class Op>
  Status lower_whole_or_sums(const Node& n, const Op& whole, const Op& without, const Chain& chain) {
    const Status one_block = lower_sums(n, whole);
    if (one_block.ok() || chain.steps.empty() || one_block.error().code() == ErrorCode::kInternal)
      return one_block;
    const Value result = graph_.value(n.outputs[0]);
    Node sums = n;
    sums.name = n.name + ".sums";
    Value sum = result;
    sum.name += ".sums";
    sum.type = Type::integer(32);
    sums.outputs = {new_value(sum, {})};
    if (!lower_sums(sums, without).ok()) return one_block;
    const auto host = add_chain(n, Elementwise{chain, 1}, sums.outputs[0], result);
    if (!host.ok()) return one_block;
    stored_[n.outputs[0]] = *host;
    note_host(n, one_block.error().message());
    return {};
  }

  /// Makes a convolution. A fully connected layer becomes a convolution with a window as large as its input. Its
  /// weights get the order in which the input is stored, so the input needs no Rearrange.
  Status lower_sums(const Node& n, const Accumulate& a) {
    const ValueId v = n.inputs[0];
    const bool whole = a.dense && !stored_[v].is_input;
    if (!whole) {
      MILLRACE_TRY(in_dataflow(v));
    }
    const TensorIndex x = stored_[v].tensor;
    kernels::Window window = a.window;
    if (whole) {
      window.kernel_h = program_.tensors[x].shape[0];
      window.kernel_w = program_.tensors[x].shape[1];
    }
    const IndexMap order =
        a.dense ? order_of(v)
                : dataflow_map({1, shape_of(v)[1] / a.groups, window.kernel_h, window.kernel_w});
    Split parts{a.chain, {}, type_of(n)};
    const auto make = [&](const Split& s) {
      Accumulate sum = a;
      sum.chain = s.chain;
      return make_convolution(sum, window, order, stored_type(x), s.type);
    };
    MILLRACE_ASSIGN(auto c, make_split(parts, make));
    if (!c.requantise)
      c.accumulator.bits = std::max(c.accumulator.bits, static_cast<std::uint8_t>(sum_bits_[n.outputs[0]]));
    const auto type = c.requantise ? element_type(parts.type) : c.accumulator;
    return add_split(n, whole ? sources_since_written(v, n) : n.sources, std::move(c), x, type, parts.rest);
  }

  /// Calls `make` with the whole chain (of element-wise functions). As long as `make` refuses the chain, calls it with
  /// ever shorter first parts of the chain. Sets `parts` to the accepted split. Returns the first refusal if all parts
  /// are refused.
  template <class Make>
  static auto make_split(Split& parts, const Make& make) -> decltype(make(parts)) {
    auto made = make(parts);
    for (auto shorter = split(parts); !made.ok() && shorter; shorter = split(*shorter)) {
      if (made.error().code() != ErrorCode::kUnsupported) break;
      auto part = make(*shorter);
      if (!part.ok()) continue;
      parts = *shorter;
      return part;
    }
    return made;
  }

  /// Adds the block of a sum and, unless `rest` is empty, the block that computes the rest of the functions behind the
  /// sum.
  Status add_split(const Node& n, std::vector<std::string> sources, kernels::Operation op, TensorIndex x,
                   kernels::ElementType type, const Chain& rest) {
    if (rest.steps.empty()) {
      add_result(n, std::move(sources), std::move(op), {x}, type);
      return {};
    }
    const Value& result = graph_.value(n.outputs[0]);
    Value between = result;
    between.name += ".sum";
    between.scale.clear();
    const TensorIndex t = add_tensor(between, type, narrow(dataflow_shape(result.shape)));
    MILLRACE_ASSIGN(auto function, make_rescale(rest, type, result.type));
    add_block(n.name + ".sum", sources, std::move(op), {x}, t);
    add_result(n, std::move(sources), std::move(function), {t}, element_type(result.type));
    return {};
  }

  Status lower(const Node& n, const graph::MaxPool& m) {
    const ValueId v = n.inputs[0];
    if (!stored_type(stored_[v].tensor).is_integer()) {
      note_host(n, "takes the maximum of floats; put a quantiser before the node");
      return add_host(n, n.inputs, make_host_max_pool(m.window, shape_of(v), shape_of(n.outputs[0])));
    }
    MILLRACE_ASSIGN(const TensorIndex x, in_dataflow(v));
    inherit_meaning(add_result(n, n.sources, kernels::MaxPool{m.window}, {x}, stored_type(x)), x);
    return {};
  }

  Status lower_sums(const Node& n, const graph::SumPool& s) {
    MILLRACE_ASSIGN(const TensorIndex x, in_dataflow(n.inputs[0]));
    Split parts{s.chain, {}, type_of(n)};
    const auto make = [&](const Split& part) {
      graph::SumPool sum = s;
      sum.chain = part.chain;
      return make_sum_pool(sum, stored_type(x), part.type);
    };
    MILLRACE_ASSIGN(auto p, make_split(parts, make));
    return add_split(n, n.sources, std::move(p), x, element_type(parts.type), parts.rest);
  }

  Status lower(const Node& n, const Combine& c) {
    MILLRACE_ASSIGN(const TensorIndex a, in_dataflow(n.inputs[0]));
    MILLRACE_ASSIGN(const TensorIndex b, in_dataflow(n.inputs[1]));
    auto add = make_add(c, stored_type(a), stored_type(b), type_of(n));
    if (!add.ok() && add.error().code() != ErrorCode::kInternal) return combine_on_host(n, c, add.error());
    if (!add.ok()) return add.error();
    add_result(n, n.sources, std::move(*add), {a, b}, element_type(type_of(n)));
    return {};
  }

  /// Combines two tensors in float32 on the host. `why` is the error that says why no hardware block can compute the
  /// result.
  Status combine_on_host(const Node& n, const Combine& c, const Error& why) {
    const Value result = graph_.value(n.outputs[0]);
    std::vector<ValueId> operands;
    for (const bool first : {true, false}) {
      const ValueId v = n.inputs[first ? 0 : 1];
      const std::string suffix = first ? ".a" : ".b";
      const Value real{graph_.value(v).name + suffix, Type::float32(), result.shape, nullptr, {}, 0};
      const auto chain = add_chain(n, Elementwise{first ? c.a : c.b, -1}, v, real, suffix);
      if (!chain.ok()) return why;
      operands.push_back(new_value(real, *chain));
    }
    Node both = n;
    both.name = n.name + ".combined";
    const Value real{result.name + ".combined", Type::float32(), result.shape, nullptr, {}, 0};
    both.outputs = {new_value(real, {})};
    // In the order of Combine::Kind.
    static constexpr const char* kTypes[] = {"Add", "Sub", "Mul", "Div", "Min", "Max"};
    const char* type = kTypes[static_cast<std::size_t>(c.kind)];
    MILLRACE_TRY(
        add_host(both, operands, make_host_operator(type, {result.shape, result.shape}, result.shape)));
    stored_[n.outputs[0]] = stored_[both.outputs[0]];
    if (!c.tail.steps.empty()) {
      const auto tail = add_chain(n, Elementwise{c.tail, -1}, both.outputs[0], result);
      if (!tail.ok()) return why;
      stored_[n.outputs[0]] = *tail;
    }
    note_host(n, why.message());
    return {};
  }

  /// Adds a value with the name, type and shape of `like`, which is stored in the place `stored`. Returns the value's
  /// id.
  ValueId new_value(const Value& like, Stored stored) {
    const ValueId v = graph_.add_value(like.name, like.type, like.shape);
    stored_.resize(graph_.values.size());
    sum_bits_.resize(graph_.values.size(), 0);
    stored_[v] = std::move(stored);
    return v;
  }

  Status lower(const Node& n, const graph::Concat& c) {
    const Shape& shape = shape_of(n.outputs[0]);
    if (!stored_type(stored_[n.inputs[0]].tensor).is_integer()) {
      std::vector<Shape> parts;
      for (const ValueId v : n.inputs) parts.push_back(shape_of(v));
      kernels::FloatOperator op = make_host_operator("Concat", parts, shape);
      op.attributes.push_back({"axis", {c.axis}, {}, {}});
      note_host(n, "joins floats; put a quantiser after the node");
      return add_host(n, n.inputs, std::move(op));
    }
    if (is_plane(shape) ? c.axis != 1 : elements({shape.begin(), shape.begin() + c.axis}) != 1)
      return join_off_channels(n, c);
    return join_channels(n);
  }

  Status join_channels(const Node& n) {
    std::vector<TensorIndex> parts;
    for (const ValueId v : n.inputs) {
      MILLRACE_ASSIGN(const TensorIndex part, in_dataflow(v));
      parts.push_back(part);
    }
    const auto type = stored_type(parts[0]);
    add_result(n, n.sources, kernels::Concat{}, std::move(parts), type);
    return {};
  }

  Status lower(const Node& n, const graph::PluginOperator& p) {
    kernels::Block block;
    for (const ValueId v : n.inputs) {
      MILLRACE_ASSIGN(TensorIndex t, in_dataflow(v));
      const auto wanted = element_type(graph_.value(v).type);
      if (stored_type(t) != wanted) t = widened(v, t, wanted);
      block.inputs.push_back(t);
    }
    for (const ValueId v : n.outputs) {
      const Value& value = graph_.value(v);
      stored_[v].tensor = add_tensor(value, element_type(value.type), narrow(dataflow_shape(value.shape)));
      block.outputs.push_back(stored_[v].tensor);
    }
    block.name = block_names_.unique(file_name(n.name));
    block.nodes = n.sources;
    block.operation = p.op;
    program_.blocks.push_back(std::move(block));
    return {};
  }

  /// Returns a tensor of type `wanted` with the elements of `t`, which contains the value `v` in a narrower type.
  TensorIndex widened(ValueId v, TensorIndex t, kernels::ElementType wanted) {
    const Value& value = graph_.value(v);
    kernels::Requantise same;
    same.multiplier = {1};
    same.offset = {0};
    same.shift = {0};
    same.lowest = static_cast<std::int32_t>(wanted.lowest());
    same.highest = static_cast<std::int32_t>(wanted.highest());
    const TensorIndex wide = add_tensor(value, wanted, program_.tensors[t].shape);
    add_block(value.name + ".widened", {}, kernels::Rescale{same}, {t}, wide);
    return wide;
  }

  /// Joins tensors along an axis other than the channels. All axes from that axis on, in the order of the dataflow, are seen
  /// as channels, so that the elements need not be moved.
  Status join_off_channels(const Node& n, const graph::Concat& c) {
    const Shape shape = shape_of(n.outputs[0]);
    // The axes in the order of the dataflow: H, W, C of a plane.
    std::vector<std::int64_t> order = {0, 2, 3, 1};
    if (!is_plane(shape)) {
      order.resize(shape.size());
      std::iota(order.begin(), order.end(), 0);
    }
    const auto axis = std::find(order.begin(), order.end(), c.axis);
    std::vector<std::int64_t> perm(axis, order.end());  // the joined axes first, then those before them
    perm.insert(perm.end(), order.begin(), axis);
    const auto joined = static_cast<std::size_t>(order.end() - axis);
    const auto turned = [&perm](const Shape& s) {
      Shape result;
      for (const std::int64_t a : perm) result.push_back(s[static_cast<std::size_t>(a)]);
      return result;
    };
    const auto flat = [joined](const Shape& s) {
      const auto split = s.begin() + static_cast<std::ptrdiff_t>(joined);
      return Shape{1, elements({s.begin(), split}), elements({split, s.end()}), 1};
    };
    Node join = n;
    for (ValueId& v : join.inputs) {
      const Value from = graph_.value(v);
      MILLRACE_ASSIGN(v, moved(n, v, graph::Move{perm}, flat(turned(from.shape)), ".line"));
    }
    const Value result = graph_.value(n.outputs[0]);
    join.outputs = {
        new_value(Value{result.name + ".joined", result.type, flat(turned(shape)), nullptr, {}, 0}, {})};
    MILLRACE_TRY(join_channels(join));
    MILLRACE_ASSIGN(const ValueId apart, moved(n, join.outputs[0], graph::Move{}, turned(shape), ".apart"));
    std::vector<std::int64_t> back(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i)
      back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
    Node last = n;
    last.inputs = {apart};
    return lower(last, graph::Move{std::move(back)});
  }

  /// Returns a new value of this shape that contains the moved elements of `v`.
  Result<ValueId> moved(const Node& n, ValueId v, const graph::Move& move, Shape shape,
                        const std::string& suffix) {
    const Value from = graph_.value(v);
    const ValueId to = new_value(Value{from.name + suffix, from.type, std::move(shape), nullptr, {}, 0}, {});
    copy_meaning(graph_, v, to);
    Node step = n;
    step.inputs = {v};
    step.outputs = {to};
    MILLRACE_TRY(lower(step, move));
    return to;
  }

  Status lower(const Node& n, const graph::Softmax&) {
    MILLRACE_ASSIGN(const TensorIndex x, in_dataflow(n.inputs[0]));
    add_result(n, n.sources, kernels::Softmax{}, {x}, element_type(Type::float32()));
    return {};
  }

  /// Records the order of elements that results from a Move, an operation that only reorders elements. Adds no block.
  Status lower(const Node& n, const graph::Move& m) {
    const ValueId from = n.inputs[0], to = n.outputs[0];
    const IndexMap becomes = inverse(move_map(m, shape_of(from)));
    IndexMap map = order_of(from);
    for (std::uint32_t& i : map) i = becomes[i];
    stored_[to] = stored_[from];
    moved_.push_back({stored_[from].last_move, n.sources});
    stored_[to].last_move = moved_.size();
    const bool is_dataflow = map == dataflow_map(shape_of(to));
    stored_[to].map = is_dataflow ? nullptr : std::make_shared<const IndexMap>(std::move(map));
    return {};
  }

  /// Adds a block for a selection of elements. Adds none if the selection contains all elements in their order.
  Status lower(const Node& n, const graph::Select& s) {
    const ValueId from = n.inputs[0], to = n.outputs[0];
    const IndexMap selected = kernels::sources_of(s.loops);
    const auto find = [&] {
      const IndexMap position = inverse(order_of(from));
      IndexMap source;
      for (const std::uint32_t element : dataflow_map(shape_of(to)))
        source.push_back(position[selected[element]]);
      return kernels::find_loops(source);
    };
    auto found = find();
    if (!found && stored_[from].map != nullptr) {
      // An operation before the selection reorders the elements and has no block yet. If that operation gets its own
      // block, nested loops may suffice for the selection alone.
      MILLRACE_TRY(in_dataflow(from));
      found = find();
    }
    const TensorIndex x = stored_[from].tensor;
    if (!found)
      return unsupported(
          "selects elements in an order that nested loops cannot visit; simplify or split the node");
    const auto sources = sources_since_written(from, n);
    inherit_meaning(add_result(n, sources, std::move(*found), {x}, stored_type(x)), x);
    return {};
  }

  Status lower(const Node& n, const Elementwise& e) {
    const Status one_block = lower_to_block(n, e);
    if (one_block.ok() || one_block.error().code() == ErrorCode::kInternal) return one_block;
    const auto chain = add_chain(n, e, n.inputs[0], Value(graph_.value(n.outputs[0])));
    if (!chain.ok()) return one_block;
    stored_[n.outputs[0]] = *chain;
    note_host(n, one_block.error().message());
    return {};
  }

  Status lower_to_block(const Node& n, const Elementwise& e) {
    const ValueId v = n.inputs[0];
    const Value& to = graph_.value(n.outputs[0]);
    MILLRACE_ASSIGN(const Chain chain, spread(e, shape_of(v)));
    if (chain.channels() > 1) {
      MILLRACE_TRY(in_dataflow(v));
    }
    const TensorIndex x = stored_[v].tensor;
    const auto from = stored_type(x);
    const auto shape = program_.tensors[x].shape;
    const auto& inputs = program_.inputs;
    const bool reads_input = std::find(inputs.begin(), inputs.end(), x) != inputs.end();
    auto made = !from.is_integer()   ? make_quantise(chain, reads_input)
                : to.type.is_float() ? make_dequantise(chain)
                                     : make_rescale(chain, from, to.type);
    const bool rescales = from.is_integer() && !to.type.is_float();
    if (!made.ok() && rescales && from.bits <= 8 && chain.channels() == shape.back() && shape.size() == 3)
      made = make_depthwise(chain, from, to.type);
    MILLRACE_ASSIGN(auto op, std::move(made));
    TensorIndex t = add_tensor(to, element_type(to.type), shape);
    add_block(n.name, n.sources, std::move(op), {x}, t);
    if (!from.is_integer() && to.type.is_integer()) t = clamp_quantised(n, chain.steps.back(), to, t);
    stored_[n.outputs[0]] = {t, stored_[v].map, stored_[v].is_input, {}};
    return {};
  }

  /// Converts a chain (of element-wise functions) that rises for some channels and falls for others into a depthwise
  /// convolution with weights of 1, because a convolution can negate the weights of a channel.
  static Result<kernels::Operation> make_depthwise(const Chain& chain, kernels::ElementType from, Type to) {
    Accumulate ones;
    ones.out_channels = ones.groups = static_cast<std::int64_t>(chain.channels());
    ones.weight_type = Type::integer(8);
    ones.weights = std::make_shared<const graph::Constant>(
        graph::Constant{{}, std::vector<std::int64_t>(chain.channels(), 1)});
    ones.weight_zero = {0};
    ones.chain = chain;
    MILLRACE_ASSIGN(auto convolution, make_convolution(ones, kernels::Window{}, {0}, from, to));
    return kernels::Operation(std::move(convolution));
  }

  /// Adds a block that clamps the integers in tensor `t` if the quantiser before it has a range that is narrower than
  /// its type, because Quantise has no range of its own. Returns the tensor with the result.
  TensorIndex clamp_quantised(const Node& n, const Step& quantise, const Value& value, TensorIndex t) {
    if (quantise.lowest <= value.type.lowest() && quantise.highest >= value.type.highest()) return t;
    kernels::Requantise clamp;
    clamp.multiplier = {1};
    clamp.offset = {0};
    clamp.shift = {0};
    clamp.lowest = static_cast<std::int32_t>(quantise.lowest);
    clamp.highest = static_cast<std::int32_t>(quantise.highest);
    const TensorIndex clamped = add_tensor(value, element_type(value.type), program_.tensors[t].shape);
    add_block(n.name + ".clamp", n.sources, kernels::Rescale{clamp}, {t}, clamped);
    return clamped;
  }

  Status lower(const Node&, const OnnxOperator&) { return unsupported("is an ONNX operator"); }

  Graph graph_;
  std::vector<graph::Diagnostic>* notes_;
  std::vector<graph::Refusal>* refusals_;
  kernels::Program program_;
  graph::Names tensor_names_, block_names_;
  std::vector<Stored> stored_;  // [ValueId]: where the value is stored
  std::vector<Moved> moved_;    // entry i has the number i + 1
  std::vector<int> sum_bits_;   // [ValueId]: the result of fewest_sum_bits()
};

}  // namespace

Result<kernels::Program> build_program(Graph graph, std::vector<graph::Diagnostic>* notes,
                                       std::vector<graph::Refusal>* refusals) {
  return ProgramBuilder(std::move(graph), notes, refusals).run();
}

}  // namespace millrace::compiler::passes
