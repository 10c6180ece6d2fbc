// Operators that move or join elements without changing them.
#include <algorithm>

#include "compiler/operators/qdq.hpp"

namespace millrace::compiler::operators {
namespace {

std::optional<Constant> fold_same(const OnnxOperator&, const Inputs& in, const Value&) {
  return *in[0]->constant;
}

Constant take(const Constant& from, const std::vector<std::size_t>& indices) {
  Constant c;
  for (const std::size_t i : indices) {
    if (!from.floats.empty())
      c.floats.push_back(from.floats[i]);
    else
      c.integers.push_back(from.integers[i]);
  }
  return c;
}

/// Returns the product of the lengths of all axes before `axis`.
std::int64_t elements_before(const Shape& shape, std::size_t axis) {
  return elements({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)});
}

Outcome lower_reshape(Site& site) {
  return site.give(Move{}, {site.node.inputs[0]});
}

std::string infer_flatten(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto r = static_cast<std::int64_t>(c.shape.size());
  std::int64_t axis = c.op.integer("axis", 1);
  if (axis < -r || axis > r) return "has an axis outside its input";
  if (axis < 0) axis += r;
  const std::int64_t before = elements_before(c.shape, static_cast<std::size_t>(axis));
  c.shape = {before, elements({c.shape.begin() + axis, c.shape.end()})};
  return {};
}

std::string infer_reshape(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto wanted = integers_of(c, 1, "shape");
  if (!wanted) return "has a shape that is not known at compile time";
  if (wanted->size() > 8) return "has a shape of rank " + std::to_string(wanted->size());
  Shape shape;
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    std::int64_t d = (*wanted)[i];
    if (d == 0 && c.op.integer("allowzero", 0) == 0) {
      if (i >= c.shape.size()) return "copies a dimension that its input does not have";
      d = c.shape[i];
    }
    if (d == -1 && open) return "leaves two dimensions open";
    if (d < -1 || d > kMostElements) return "has the impossible dimension " + std::to_string(d);
    if (d == -1)
      open = i;
    else
      known *= d;
    if (known > kMostElements) return "has an absurd shape";
    shape.push_back(d);
  }
  const std::int64_t total = elements(c.shape);
  if (open) {
    if (known == 0 || total % known != 0) return "cannot reshape " + to_string(c.shape);
    shape[*open] = total / known;
  }
  if (elements(shape) != total)
    return "reshapes " + to_string(c.shape) + " to " + to_string(shape) + ", which has another size";
  c.shape = shape;
  return {};
}

std::string infer_squeeze(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const bool given = c.has(1) || c.op.has("axes");
  const auto axes = integers_of(c, 1, "axes");
  if (given && !axes) return "has axes that are not known at compile time";
  std::vector<bool> drop(c.shape.size(), false);
  for (const std::int64_t a : axes.value_or(std::vector<std::int64_t>())) {
    const auto axis = axis_in(a, c.shape.size());
    if (!axis || c.shape[*axis] != 1) return "squeezes an axis that is not 1";
    drop[*axis] = true;
  }
  Shape shape;
  for (std::size_t i = 0; i < c.shape.size(); ++i)
    if (axes ? !drop[i] : c.shape[i] != 1) shape.push_back(c.shape[i]);
  c.shape = shape;
  return {};
}

std::string infer_unsqueeze(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto axes = integers_of(c, 1, "axes");
  if (!axes) return "has axes that are not known at compile time";
  const std::size_t rank = c.shape.size() + axes->size();
  if (rank > 8) return "makes a shape of rank " + std::to_string(rank);
  std::vector<bool> fresh(rank, false);
  for (const std::int64_t a : *axes) {
    const auto axis = axis_in(a, rank);
    if (!axis || fresh[*axis]) return "has an axis that is outside its output or is listed twice";
    fresh[*axis] = true;
  }
  Shape shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) shape.push_back(fresh[i] ? 1 : c.shape[next++]);
  c.shape = shape;
  return {};
}

/// Returns the permutation of a Transpose. If its attribute perm is missing, all axes are reversed.
std::vector<std::int64_t> permutation(const OnnxOperator& op, std::size_t rank) {
  std::vector<std::int64_t> perm = op.integers("perm", {});
  if (perm.empty())
    for (std::size_t i = rank; i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  return perm;
}

std::string infer_transpose(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const std::vector<std::int64_t> perm = permutation(c.op, c.shape.size());
  if (perm.size() != c.shape.size()) return "has a perm of the wrong length";
  std::vector<bool> seen(perm.size(), false);
  Shape shape;
  for (const std::int64_t p : perm) {
    if (p < 0 || p >= static_cast<std::int64_t>(perm.size()) || seen[static_cast<std::size_t>(p)])
      return "has a perm that is not a permutation";
    seen[static_cast<std::size_t>(p)] = true;
    shape.push_back(c.shape[static_cast<std::size_t>(p)]);
  }
  c.shape = shape;
  return {};
}

std::optional<Constant> fold_transpose(const OnnxOperator& op, const Inputs& in, const Value& output) {
  const std::vector<std::int64_t> own = graph::strides_of(in[0]->shape);
  std::vector<std::int64_t> strides;
  for (const std::int64_t p : permutation(op, own.size()))
    strides.push_back(own[static_cast<std::size_t>(p)]);
  return take(*in[0]->constant, graph::strided_indices(output.shape, strides));
}

Outcome lower_transpose(Site& site) {
  return site.give(Move{permutation(site.op, site.in(0).shape.size())}, {site.node.inputs[0]});
}

std::string infer_concat(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto axis = axis_in(c.op.integer("axis", 1), c.shape.size());
  if (!axis) return "has an axis outside its inputs";
  for (std::size_t i = 1; i < c.count(); ++i) {
    if (!c.has(i)) return "leaves out an input";
    Shape other = c.shape_of(i);
    if (other.size() != c.shape.size() || c.in(i).type != c.type) return "joins different types or ranks";
    const std::int64_t extent = other[*axis];
    other[*axis] = c.shape[*axis];
    if (other != c.shape) return "joins inputs whose shapes differ along an axis other than the joined axis";
    c.shape[*axis] += extent;
  }
  return {};
}

std::optional<Constant> fold_concat(const OnnxOperator& op, const Inputs& in, const Value& output) {
  const auto axis = axis_in(op.integer("axis", 0), output.shape.size());
  if (!axis) return std::nullopt;
  const std::int64_t outer = elements_before(output.shape, *axis);
  Constant c;
  const auto append = [](auto& to, const auto& from, std::ptrdiff_t start, std::ptrdiff_t count) {
    if (!from.empty()) to.insert(to.end(), from.begin() + start, from.begin() + start + count);
  };
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Value* v : in) {
      const std::int64_t each = elements(v->shape) / outer;
      append(c.floats, v->constant->floats, o * each, each);
      append(c.integers, v->constant->integers, o * each, each);
    }
  return c;
}

std::int64_t concat_axis(const Site& site) {
  const std::int64_t axis = site.op.integer("axis", 1);
  return axis < 0 ? axis + static_cast<std::int64_t>(site.result().shape.size()) : axis;
}

Outcome lower_concat(Site& site) {
  for (const ValueId v : site.node.inputs)
    if (known_floats(site.graph, site.uses, v)) return Outcome::later();
  return site.give(graph::Concat{concat_axis(site)}, site.node.inputs);
}

/// Returns a value whose elements are the known `floats`. Hardware has no other source of constants, so the value is
/// computed from the integers `x`: a fully connected layer with weights of 0 reads one of the integers and adds the
/// floats.
ValueId emit_constant(Site& site, ValueId x, const Value& known, std::vector<float> floats) {
  const auto count = static_cast<std::int64_t>(floats.size());
  const bool is_plane = known.shape.size() == 4 && known.shape[0] == 1;
  const Shape rows = is_plane ? Shape{1, known.shape[2], known.shape[3], known.shape[1]} : known.shape;
  if (is_plane) {  // the order of the dataflow, so that the elements need not be moved
    const std::vector<std::int64_t> own = graph::strides_of(known.shape);
    std::vector<float> turned;
    for (const std::size_t i : graph::strided_indices(rows, {own[0], own[2], own[3], own[1]}))
      turned.push_back(floats[i]);
    floats = std::move(turned);
  }
  Graph& graph = site.graph;
  const ValueId one = graph.add_value(known.name + ".one", graph.value(x).type, {1, 1});
  site.emit(graph::Select{{0, {1}, {1}}}, {x}, one, ".one");
  graph::Accumulate zeros;
  zeros.dense = true;
  zeros.out_channels = count;
  zeros.weight_type = Type::integer(8);
  zeros.weights = std::make_shared<const Constant>(
      Constant{{}, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0)});
  zeros.weight_zero = {0};
  const ValueId sums = graph.add_value(known.name + ".zeros", Type::integer(32), {1, count});
  site.emit(std::move(zeros), {one}, sums, ".constant");
  const ValueId flat = graph.add_value(known.name + ".flat", Type::float32(), {1, count});
  site.emit(Elementwise{{{Step::to_float(), Step::add(std::move(floats))}}, 1}, {sums}, flat, ".floats");
  const ValueId shaped = site.move(flat, {}, rows, ".shaped");
  return is_plane ? site.move(shaped, {0, 3, 1, 2}, known.shape, ".back") : shaped;
}

/// Joins tensors, some of which are constants.
Outcome lower_concat_with_constants(Site& site) {
  constexpr std::size_t kMostConstants = 8192;  // all of which are proved
  std::optional<Dequantised> data;
  std::string why;
  for (std::size_t i = 0; i < site.node.inputs.size() && !data; ++i) data = activation(site, i, why);
  if (!data) return why;
  std::vector<ValueId> parts = site.node.inputs;
  for (ValueId& part : parts) {
    auto floats = known_floats(site.graph, site.uses, part);
    if (!floats) continue;
    if (floats->size() > kMostConstants)
      return "joins a constant of " + std::to_string(floats->size()) + " elements; hardware takes at most " +
             std::to_string(kMostConstants);
    part = emit_constant(site, data->q, Value(site.graph.value(part)), std::move(*floats));
  }
  return site.give(graph::Concat{concat_axis(site)}, std::move(parts));
}

// The ONNX operator Shape has no lowering. A node is supported only if the compiler can replace it by the constant
// shape of its input.

std::string infer_shape(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  c.type = Type::integer(64);
  c.shape = {static_cast<std::int64_t>(c.shape.size())};
  return {};
}

std::optional<Constant> fold_shape(const OnnxOperator& op, const Inputs& in, const Value&) {
  if (in.size() != 1 || op.has("start") || op.has("end")) return std::nullopt;
  return Constant{{}, in[0]->shape};
}

// ConstantOfShape: (shape, value). The importer makes its attribute `value` an input.

std::string infer_constant_of_shape(Inference& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (c.in(0).constant == nullptr || !c.in(0).type.is_integer() || c.rank(0) != 1)
    return "has a shape that is not known at compile time";
  if (elements(c.shape_of(0)) > 8) return "makes a shape of rank " + std::to_string(elements(c.shape_of(0)));
  c.type = c.in(1).type;
  c.shape = c.in(0).constant->integers;
  return {};
}

std::optional<Constant> fold_constant_of_shape(const OnnxOperator&, const Inputs& in, const Value& output) {
  const Constant& fill = *in[1]->constant;
  const auto count = static_cast<std::size_t>(elements(output.shape));
  Constant c;
  if (in[1]->type.is_float())
    c.floats.assign(count, fill.floats[0]);
  else
    c.integers.assign(count, fill.integers[0]);
  return c;
}

constexpr Operator kMoves[] = {
    {.type = "Identity", .infer = same, .fold = fold_same},  // remove_dead removes Identity and Dropout
    {
        .type = "Dropout",
        .infer = same,
        .fold = fold_same,
        .limits = "does nothing, as in inference",
    },
    {.type = "Flatten", .infer = infer_flatten, .fold = fold_same, .lower_elementwise = lower_reshape},
    {.type = "Reshape",
     .infer = infer_reshape,
     .fold = fold_same,
     .lower_elementwise = lower_reshape,
     .limits = "the shape is known at compile time, with at most 8 axes"},
    {.type = "Squeeze",
     .infer = infer_squeeze,
     .fold = fold_same,
     .lower_elementwise = lower_reshape,
     .limits = "axes are known at compile time"},
    {.type = "Unsqueeze",
     .infer = infer_unsqueeze,
     .fold = fold_same,
     .lower_elementwise = lower_reshape,
     .limits = "the axes are constants; the tensor has at most 8 axes"},
    {.type = "Transpose",
     .infer = infer_transpose,
     .fold = fold_transpose,
     .lower_elementwise = lower_transpose,
     .limits = "any permutation that nested loops can produce (in hardware, at most 6 loops)"},
    {.type = "Concat",
     .infer = infer_concat,
     .fold = fold_concat,
     .lower_elementwise = lower_concat,
     .lower_qdq = lower_concat_with_constants,
     .computes = true,
     .limits = "along any axis but the batch: quantised data, and constants of up to 8,192 elements; "
               "the host joins float data"},
    {.type = "ConstantOfShape",
     .infer = infer_constant_of_shape,
     .fold = fold_constant_of_shape,
     .limits = "the shape is known at compile time"},
    {
        .type = "Shape",
        .infer = infer_shape,
        .fold = fold_shape,
        .limits = "evaluated by the import",
    }};

}  // namespace

std::span<const Operator> moves() {
  return kMoves;
}

}  // namespace millrace::compiler::operators
