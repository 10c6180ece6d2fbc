// Operators that select, repeat or reorder elements: Slice, Split, Gather, Expand, Tile, Resize and Upsample to the
// nearest element, DepthToSpace, SpaceToDepth. Most of them choose, for each axis, indices of the input.
#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/operators/interpolation.hpp"
#include "compiler/operators/selections.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::compiler::operators {
namespace {

/// An axis may have at most this many indices, because each index is stored.
constexpr std::int64_t kMostIndices = 1 << 24;

/// Elements of the input, as indices along each of its axes. The output's elements are all their combinations, in
/// row-major order.
struct Selection {
  Shape input;  // the input's shape, maybe with leading axes of length 1
  std::vector<std::vector<std::int64_t>> indices;
  Shape shape;      // the output's shape
  std::string why;  // what is wrong with the node; empty if nothing is
};

Selection wrong(std::string why) {
  return {{}, {}, {}, std::move(why)};
}

std::vector<std::int64_t> all_indices(std::int64_t extent) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < extent; ++i) all.push_back(i);
  return all;
}

/// A selection of all elements of a shape; an operator then changes some axes.
Selection everything(const Shape& shape) {
  for (const std::int64_t extent : shape)
    if (extent > kMostIndices) return wrong("has an axis of " + std::to_string(extent) + " elements");
  Selection s{shape, {}, {}, {}};
  for (const std::int64_t extent : shape) s.indices.push_back(all_indices(extent));
  return s;
}

/// Completes a selection whose output has the same axes as the input.
Selection axis_by_axis(Selection s) {
  for (const auto& axis : s.indices) s.shape.push_back(static_cast<std::int64_t>(axis.size()));
  return s;
}

// Slice.

/// Returns the indices that ONNX's start, end and step choose on an axis. Negative bounds count from the back, and bounds
/// outside the axis mean its ends.
std::vector<std::int64_t> sliced(std::int64_t extent, std::int64_t start, std::int64_t end,
                                 std::int64_t step) {
  const auto bound = [extent](std::int64_t x, std::int64_t lowest, std::int64_t highest) {
    return std::clamp(x < 0 ? x + extent : x, lowest, highest);
  };
  std::vector<std::int64_t> chosen;
  if (step > 0) {
    const std::int64_t last = bound(end, 0, extent);
    for (std::int64_t i = bound(start, 0, extent); i < last; i += std::min(step, extent)) chosen.push_back(i);
  } else {
    const std::int64_t last = bound(end, -1, extent - 1);
    for (std::int64_t i = bound(start, -1, extent - 1); i > last; i += std::max(step, -extent))
      chosen.push_back(i);
  }
  return chosen;
}

Selection select_slice(const Form& form) {
  const auto starts = form.integers(1, "starts"), ends = form.integers(2, "ends");
  if (!starts || !ends || starts->size() != ends->size())
    return wrong("has bounds that are not known at compile time");
  std::vector<std::int64_t> axes = all_indices(static_cast<std::int64_t>(starts->size()));
  std::vector<std::int64_t> steps(starts->size(), 1);
  if (form.has(3) || form.op.has("axes")) {
    const auto given = form.integers(3, "axes");
    if (!given) return wrong("has axes that are not known at compile time");
    axes = *given;
  }
  if (form.has(4)) {
    const auto given = form.integers(4, "steps");
    if (!given) return wrong("has steps that are not known at compile time");
    steps = *given;
  }
  if (axes.size() != starts->size() || steps.size() != starts->size())
    return wrong("has axes or steps of the wrong length");
  Selection s = everything(form.shape());
  if (!s.why.empty()) return s;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_in(axes[i], s.input.size());
    if (!axis) return wrong("has an axis outside its input");
    if (steps[i] == 0) return wrong("has a step of 0");
    s.indices[*axis] = sliced(s.input[*axis], (*starts)[i], (*ends)[i], steps[i]);
  }
  return axis_by_axis(std::move(s));
}

// Gather.

Selection select_gather(const Form& form) {
  if (!form.has(1)) return wrong("lacks input 2");
  const auto axis = axis_in(form.op.integer("axis", 0), form.shape().size());
  if (!axis || !form.in[1]->type.is_integer())
    return wrong("has an axis outside its input, or indices that are not integers");
  if (form.in[1]->constant == nullptr) return wrong("has indices that are not known at compile time");
  Selection s = everything(form.shape());
  if (!s.why.empty()) return s;
  s.indices[*axis] = form.in[1]->constant->integers;
  const std::int64_t extent = s.input[*axis];
  for (std::int64_t& i : s.indices[*axis]) {
    if (i < -extent || i >= extent)
      return wrong("has the index " + std::to_string(i) + ", and its axis has " + std::to_string(extent) +
                   " elements");
    if (i < 0) i += extent;
  }
  const auto split = s.input.begin() + static_cast<std::ptrdiff_t>(*axis);
  s.shape.assign(s.input.begin(), split);
  s.shape.insert(s.shape.end(), form.in[1]->shape.begin(), form.in[1]->shape.end());
  s.shape.insert(s.shape.end(), split + 1, s.input.end());
  return s;
}

// Expand and Tile.

Selection select_expand(const Form& form) {
  const auto wanted = form.integers(1, "shape");
  if (!wanted) return wrong("has a shape that is not known at compile time");
  if (wanted->size() > 8) return wrong("has a shape of rank " + std::to_string(wanted->size()));
  const auto shape = broadcast(form.shape(), *wanted);
  if (!shape) return wrong("cannot expand " + to_string(form.shape()) + " to " + to_string(*wanted));
  Shape padded(shape->size() - form.shape().size(), 1);
  padded.insert(padded.end(), form.shape().begin(), form.shape().end());
  Selection s = everything(padded);
  for (std::size_t i = 0; s.why.empty() && i < shape->size(); ++i) {
    const std::int64_t extent = (*shape)[i];
    if (extent < 0 || extent > kMostIndices)
      return wrong("has the impossible dimension " + std::to_string(extent));
    if (padded[i] == 1) s.indices[i].assign(static_cast<std::size_t>(extent), 0);
  }
  return s.why.empty() ? axis_by_axis(std::move(s)) : s;
}

Selection select_tile(const Form& form) {
  const auto repeats = form.integers(1, "repeats");
  if (!repeats || repeats->size() != form.shape().size())
    return wrong("has repeats that are not known at compile time, or does not have one repeat for each axis");
  Selection s = everything(form.shape());
  for (std::size_t i = 0; s.why.empty() && i < repeats->size(); ++i) {
    const std::int64_t count = (*repeats)[i];
    if (count < 1 || count > kMostIndices / std::max<std::int64_t>(s.input[i], 1))
      return wrong("repeats an axis " + std::to_string(count) + " times");
    const auto once = s.indices[i];
    for (std::int64_t k = 1; k < count; ++k)
      s.indices[i].insert(s.indices[i].end(), once.begin(), once.end());
  }
  return s.why.empty() ? axis_by_axis(std::move(s)) : s;
}

// Resize and Upsample.

/// Returns the index on an axis that ONNX Runtime reads for element `x` of the resized axis, computed in float32 as
/// ONNX Runtime does.
std::optional<std::int64_t> nearest(const OnnxOperator& op, std::int64_t x, std::int64_t in, std::int64_t out,
                                    float scale) {
  const bool is_old = op.type == "Upsample" || op.opset < 11;
  const std::string place = is_old ? "asymmetric" : op.text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = is_old ? "floor" : op.text("nearest_mode", "round_prefer_floor");
  const auto at = static_cast<float>(x);
  float from = at;
  if (scale == 1.0F) return std::min(x, in - 1);
  if (place == "asymmetric")
    from = at / scale;
  else if (place == "half_pixel" || (place == "pytorch_half_pixel" && out > 1))
    from = (at + 0.5F) / scale - 0.5F;
  else if (place == "pytorch_half_pixel")
    from = 0;
  else if (place == "tf_half_pixel_for_nn")
    from = (at + 0.5F) / scale;
  else if (place == "align_corners")
    from = out == 1 ? 0 : at * static_cast<float>(in - 1) / static_cast<float>(out - 1);
  else
    return std::nullopt;
  float rounded = 0;
  if (rounding == "round_prefer_floor")
    rounded = from == std::floor(from) + 0.5F ? std::floor(from) : std::round(from);
  else if (rounding == "round_prefer_ceil")
    rounded = std::round(from);
  else if (rounding == "floor")
    rounded = std::floor(from);
  else if (rounding == "ceil")
    rounded = std::ceil(from);
  else
    return std::nullopt;
  return std::clamp(static_cast<std::int64_t>(rounded), std::int64_t{0}, in - 1);
}

Selection select_resize(const Form& form) {
  const std::string mode = form.op.text("mode", "nearest");
  if (mode != "nearest")
    return wrong("interpolates (mode '" + mode +
                 "'); hardware repeats the nearest element, or interpolates linearly");
  if (form.op.integer("antialias", 0) != 0 ||
      form.op.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return wrong("has antialias or a keep_aspect_ratio_policy, which are not supported");
  std::vector<float> scales;
  Shape sizes;
  if (std::string why = resized(form, scales, sizes); !why.empty()) return wrong(why);
  Selection s = everything(form.shape());
  for (std::size_t axis = 0; s.why.empty() && axis < sizes.size(); ++axis) {
    std::vector<std::int64_t>& chosen = s.indices[axis];
    chosen.clear();
    for (std::int64_t x = 0; x < sizes[axis]; ++x) {
      const auto from = nearest(form.op, x, s.input[axis], sizes[axis], scales[axis]);
      if (!from) return wrong("has a coordinate_transformation_mode or nearest_mode that is not supported");
      chosen.push_back(*from);
    }
  }
  return s.why.empty() ? axis_by_axis(std::move(s)) : s;
}

// What all of these operators share.

using Select = Selection (*)(const Form&);

template <Select kSelect>
std::string infer_selection(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  Form form{c.op, {}};
  for (std::size_t i = 0; i < c.count(); ++i) form.in.push_back(c.has(i) ? &c.in(i) : nullptr);
  Selection s = kSelect(form);
  c.shape = std::move(s.shape);
  return s.why;
}

/// Returns the positions of the selected elements in the row-major input.
std::vector<std::size_t> positions(const Selection& s) {
  const std::vector<std::int64_t> strides = graph::strides_of(s.input);
  std::vector<std::size_t> found{0};
  for (std::size_t axis = 0; axis < s.indices.size(); ++axis) {
    std::vector<std::size_t> next;
    for (const std::size_t outer : found)
      for (const std::int64_t i : s.indices[axis])
        next.push_back(outer + static_cast<std::size_t>(i * strides[axis]));
    found = std::move(next);
  }
  return found;
}

template <Select kSelect>
std::optional<Constant> fold_selection(const OnnxOperator& op, const Inputs& in, const Value&) {
  const Selection s = kSelect({op, in});
  if (!s.why.empty()) return std::nullopt;
  Constant c;
  for (const std::size_t i : positions(s)) {
    if (in[0]->type.is_float())
      c.floats.push_back(in[0]->constant->floats[i]);
    else
      c.integers.push_back(in[0]->constant->integers[i]);
  }
  return c;
}

/// Returns nested loops that visit the selected elements, or nothing if no nested loops visit exactly these elements in
/// order.
std::optional<kernels::Rearrange> loops_of(const Selection& s) {
  const std::vector<std::int64_t> strides = graph::strides_of(s.input);
  kernels::Rearrange loops;
  std::uint64_t made = 1;
  for (std::size_t axis = 0; axis < s.indices.size(); ++axis) {
    const auto found = kernels::find_loops({s.indices[axis].begin(), s.indices[axis].end()});
    if (!found) return std::nullopt;
    made *= s.indices[axis].size();
    loops.offset += found->offset * static_cast<std::uint64_t>(strides[axis]);
    for (std::size_t k = 0; k < found->extents.size(); ++k) {
      loops.extents.push_back(found->extents[k]);
      loops.strides.push_back(found->strides[k] * strides[axis]);
    }
  }
  loops = kernels::simplified(loops, made);
  if (loops.extents.size() > kernels::kMostLoops) return std::nullopt;
  return loops;
}

template <Select kSelect>
Outcome lower_selection(Site& site) {
  Form form{site.op, {}};
  for (std::size_t i = 0; i < site.node.inputs.size(); ++i)
    form.in.push_back(site.has(i) ? &site.in(i) : nullptr);
  const Selection s = kSelect(form);
  if (!s.why.empty()) return s.why;
  const ValueId from = site.node.inputs[0];
  const auto loops = loops_of(s);
  if (!loops)
    return "selects elements in an order that nested loops cannot visit; split the node into several nodes";
  if (kernels::keeps_order(*loops, static_cast<std::uint64_t>(elements(s.input)),
                           static_cast<std::uint64_t>(elements(s.shape))))
    return site.give(Move{}, {from});
  return site.give(graph::Select{*loops}, {from});
}

// The functions below lower DepthToSpace and SpaceToDepth to a Reshape, a Transpose and another Reshape.

std::string infer_blocks(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const std::int64_t block = c.op.integer("blocksize", 0);
  if (c.shape.size() != 4 || block < 1 || block > 1 << 15)
    return "takes an input of shape [N, C, H, W] and a blocksize of at least 1";
  const std::string mode = c.op.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return "has the unknown mode '" + mode + "'";
  Shape& s = c.shape;
  const bool to_space = c.op.type == "DepthToSpace";
  if (to_space ? s[1] % (block * block) != 0 : s[2] % block != 0 || s[3] % block != 0)
    return "has a blocksize that does not divide " + to_string(s);
  if (to_space)
    s = {s[0], s[1] / (block * block), s[2] * block, s[3] * block};
  else
    s = {s[0], s[1] * block * block, s[2] / block, s[3] / block};
  return {};
}

Outcome lower_blocks(Site& site) {
  const std::int64_t b = site.op.integer("blocksize", 1);
  const Shape in = site.in(0).shape, out = site.result().shape;
  Shape apart;
  std::vector<std::int64_t> perm;
  if (site.op.type == "SpaceToDepth") {
    apart = {in[0], in[1], out[2], b, out[3], b};
    perm = {0, 3, 5, 1, 2, 4};
  } else if (site.op.text("mode", "DCR") == "DCR") {
    apart = {in[0], b, b, out[1], in[2], in[3]};
    perm = {0, 3, 4, 1, 5, 2};
  } else {
    apart = {in[0], out[1], b, b, in[2], in[3]};
    perm = {0, 1, 4, 2, 5, 3};
  }
  Shape turned;
  for (const std::int64_t axis : perm) turned.push_back(apart[static_cast<std::size_t>(axis)]);
  const ValueId x = site.move(site.node.inputs[0], {}, apart, ".apart");
  const ValueId y = site.move(x, perm, turned, ".turned");
  return site.give(Move{}, {y});
}

template <Select kSelect>
constexpr Operator selection(const char* type, const char* limits) {
  return {.type = type,
          .infer = infer_selection<kSelect>,
          .fold = fold_selection<kSelect>,
          .lower_elementwise = lower_selection<kSelect>,
          .limits = limits};
}

/// A Resize repeats the nearest element or, in the mode linear, interpolates.
constexpr Operator resize(const char* type, const char* limits) {
  Operator row = selection<select_resize>(type, limits);
  row.infer = [](Inference& c) {
    return is_linear(c.op) ? infer_linear(c) : infer_selection<select_resize>(c);
  };
  row.lower_elementwise = [](Site& site) {
    return is_linear(site.op) ? Outcome::later() : lower_selection<select_resize>(site);
  };
  row.lower_qdq = lower_linear;
  return row;
}

constexpr Operator kSelections[] = {
    // separate_outputs() replaces a Split by Slices, so the table's entry for Split has no functions.
    selection<select_slice>("Slice",
                            "bounds are known at compile time; "
                            "any axis, positive and negative steps"),
    selection<select_gather>("Gather",
                             "indices are known at compile time, "
                             "and evenly spaced, repeated or interleaved"),
    selection<select_expand>("Expand", "the shape is known at compile time"),
    selection<select_tile>("Tile", "repeats are known at compile time"),
    resize(
        "Resize",
        "mode nearest, or mode linear by whole factors with pixels at their halves or at the elements "
        "(coordinate_transformation_mode half_pixel, pytorch_half_pixel, half_pixel_symmetric, asymmetric); "
        "scales or sizes are known at compile time; other forms run on the host if the host supports them"),
    resize("Upsample", "as Resize"),
    {.type = "DepthToSpace",
     .infer = infer_blocks,
     .lower_elementwise = lower_blocks,
     .limits = "[1, C, H, W]; modes DCR and CRD"},
    {.type = "SpaceToDepth",
     .infer = infer_blocks,
     .lower_elementwise = lower_blocks,
     .limits = "[1, C, H, W]"},
    {.type = "Split",
     .limits = "becomes one Slice for each output; "
               "sizes are known at compile time"}};

}  // namespace

std::optional<std::vector<std::int64_t>> Form::integers(std::size_t i, const char* attribute) const {
  if (!has(i)) {
    if (!op.has(attribute)) return std::nullopt;
    return op.integers(attribute, {});
  }
  if (in[i]->constant == nullptr || !in[i]->type.is_integer()) return std::nullopt;
  return in[i]->constant->integers;
}

std::string resized(const Form& form, std::vector<float>& scales, Shape& sizes) {
  const OnnxOperator& op = form.op;
  const Shape& shape = form.shape();
  scales.assign(shape.size(), 1.0F);
  sizes = shape;
  std::vector<std::int64_t> axes = op.integers("axes", all_indices(static_cast<std::int64_t>(shape.size())));
  const std::size_t at = op.type == "Upsample" || op.opset < 11 ? 1 : 2;
  std::vector<float> given = op.get("scales", std::vector<float>{});
  if (form.has(at) && form.in[at]->constant != nullptr) given = form.in[at]->constant->floats;
  const auto wanted = at == 2 && form.has(3) ? form.integers(3, "sizes") : std::nullopt;
  if (wanted ? wanted->size() != axes.size() : given.size() != axes.size())
    return "has scales or sizes that are not known at compile time, or does not have one for each axis";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_in(axes[i], shape.size());
    if (!axis) return "has an axis outside its input";
    if (shape[*axis] < 1) return "has an input without elements";
    const auto extent = static_cast<float>(shape[*axis]);
    if (!wanted && (!(given[i] > 0) || !(given[i] * extent < static_cast<float>(kMostIndices))))
      return "has a scale that is not above 0, or enlarges an axis too much";
    const std::int64_t size = wanted ? (*wanted)[i] : static_cast<std::int64_t>(given[i] * extent);
    if (size < 1 || size > kMostIndices) return "has the impossible size " + std::to_string(size);
    sizes[*axis] = size;
    scales[*axis] = wanted ? static_cast<float>(size) / extent : given[i];
  }
  return {};
}

std::span<const Operator> selections() {
  return kSelections;
}

}  // namespace millrace::compiler::operators
