// Operators that move, repeat, select, join or pad elements.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

Shape fail(std::string& why, const char* text) {
  why = text;
  return {};
}

/// Returns the result's shape for Reshape, Flatten, Squeeze and Unsqueeze, which keep the order of elements. The
/// importer has already computed this shape, so only the number of elements is checked.
Shape reshaped(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || elements(op.operands[0].shape) != elements(op.shape))
    return fail(why, "has a shape whose number of elements differs from that of its input");
  return op.shape;
}

void copy(const Call& c) {
  std::memcpy(c.result, c.inputs[0].floats, static_cast<std::size_t>(elements(c.op.shape)) * sizeof(float));
}

/// Writes the elements of `in` that the strides select, in the order of `shape`.
void gather(const Call& c, const Shape& shape, const Shape& strides, std::int64_t offset) {
  for_each_offset(shape, strides, [&](std::size_t i, std::size_t from) {
    c.result[i] = c.inputs[0].floats[offset + static_cast<std::int64_t>(from)];
  });
}

Shape permutation(const FloatOperator& op, std::string& why) {
  const std::size_t rank = op.operands[0].shape.size();
  Shape reversed(rank);
  for (std::size_t i = 0; i < rank; ++i) reversed[i] = static_cast<std::int64_t>(rank - 1 - i);
  Shape perm = op.integers("perm", reversed);
  Shape sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  std::reverse(sorted.begin(), sorted.end());
  if (sorted != reversed) why = "has a perm that does not name every axis once";
  return perm;
}

Shape transpose_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0)) return fail(why, "needs a float32 operand");
  const Shape perm = permutation(op, why);
  Shape shape;
  if (why.empty())
    for (const std::int64_t axis : perm)
      shape.push_back(op.operands[0].shape[static_cast<std::size_t>(axis)]);
  return shape;
}

void transpose(const Call& c) {
  std::string why;
  const Shape own = strides_of(c.shape(0));
  Shape strides;
  for (const std::int64_t axis : permutation(c.op, why))
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  gather(c, c.op.shape, strides, 0);
}

Shape concat_shape(const FloatOperator& op, std::string& why) {
  Shape shape = op.operands[0].shape;
  const std::int64_t axis = axis_in(op.integer("axis", 0), shape.size());
  if (axis < 0) return fail(why, "has an axis that its inputs do not have");
  const auto at = static_cast<std::size_t>(axis);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    Shape other = op.operands[i].shape;
    if (!is_float(op, i) || other.size() != shape.size())
      return fail(why, "joins operands of different ranks");
    if (i > 0) shape[at] += other[at];
    other[at] = shape[at];
    if (other != shape) return fail(why, "joins operands of different shapes");
  }
  return shape;
}

void concat(const Call& c) {
  const auto at = static_cast<std::size_t>(axis_in(c.op.integer("axis", 0), c.op.shape.size()));
  const std::int64_t outer =
      elements({c.op.shape.begin(), c.op.shape.begin() + static_cast<std::ptrdiff_t>(at)});
  float* out = c.result;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const View& in : c.inputs) {
      const std::int64_t run = elements(in.shape) / outer;
      out = std::copy(in.floats + o * run, in.floats + (o + 1) * run, out);
    }
}

/// The part of the input that a Slice selects: for each axis, the first index and the step.
struct Cut {
  Shape start, step, shape;
};

Cut cut_of(const FloatOperator& op, std::string& why) {
  const Shape& in = op.operands[0].shape;
  Cut cut{Shape(in.size(), 0), Shape(in.size(), 1), in};
  const auto starts = integers_of(op, 1, "starts"), ends = integers_of(op, 2, "ends");
  if (!starts || !ends || starts->size() != ends->size()) {
    why = "needs constant starts and ends";
    return cut;
  }
  std::vector<std::int64_t> every(starts->size());
  std::iota(every.begin(), every.end(), 0);
  const auto axes = integers_of(op, 3, "axes").value_or(every);
  const auto steps = integers_of(op, 4, "").value_or(std::vector<std::int64_t>(starts->size(), 1));
  if (axes.size() != starts->size() || steps.size() != starts->size()) why = "has lists of different lengths";
  for (std::size_t i = 0; i < starts->size() && why.empty(); ++i) {
    const std::int64_t axis = axis_in(axes[i], in.size()), step = steps[i];
    if (axis < 0 || step == 0 || step == std::numeric_limits<std::int64_t>::min()) {
      why = "has an axis outside its input, or an impossible step";
      return cut;
    }
    const std::int64_t extent = in[static_cast<std::size_t>(axis)];
    const auto bounded = [&](std::int64_t at) {
      if (at < 0) at = std::max(at, -extent - 1) + extent;
      return step > 0 ? std::clamp<std::int64_t>(at, 0, extent)
                      : std::clamp<std::int64_t>(at, -1, extent - 1);
    };
    const std::int64_t from = bounded((*starts)[i]), to = bounded((*ends)[i]);
    const std::int64_t distance = step > 0 ? to - from : from - to, width = std::abs(step);
    const auto at = static_cast<std::size_t>(axis);
    cut.start[at] = from;
    cut.step[at] = step;
    cut.shape[at] = distance <= 0 ? 0 : (distance - 1) / width + 1;
  }
  return cut;
}

Shape slice_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0)) return fail(why, "needs a float32 operand");
  return cut_of(op, why).shape;
}

void slice(const Call& c) {
  std::string why;
  const Cut cut = cut_of(c.op, why);
  const Shape own = strides_of(c.shape(0));
  Shape strides = own;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    offset += own[i] * cut.start[i];
    strides[i] = own[i] * cut.step[i];
  }
  gather(c, cut.shape, strides, offset);
}

/// Returns for each axis the number of elements that a Pad adds before the first and behind the last element.
std::pair<Shape, Shape> pads_of(const FloatOperator& op, std::string& why) {
  const std::size_t rank = op.operands[0].shape.size();
  std::pair<Shape, Shape> pads{Shape(rank, 0), Shape(rank, 0)};
  const auto given = integers_of(op, 1, "pads");
  std::vector<std::int64_t> every(rank);
  std::iota(every.begin(), every.end(), 0);
  const auto axes = integers_of(op, 3, "").value_or(every);
  if (!given || given->size() != 2 * axes.size()) {
    why = "needs constant pads, two for each axis";
    return pads;
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axis_in(axes[i], rank);
    const std::int64_t before = (*given)[i], behind = (*given)[i + axes.size()];
    if (axis < 0 || std::min(before, behind) < 0 || std::max(before, behind) > 65535) {
      why = "has an axis outside its input, or pads out of range";
      return pads;
    }
    pads.first[static_cast<std::size_t>(axis)] = before;
    pads.second[static_cast<std::size_t>(axis)] = behind;
  }
  return pads;
}

Shape pad_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0)) return fail(why, "needs a float32 operand");
  const auto [before, behind] = pads_of(op, why);
  const std::string_view mode = op.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    why = "has an unknown mode";
  Shape shape = op.operands[0].shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (mode == "reflect" && std::max(before[i], behind[i]) >= std::max<std::int64_t>(shape[i], 1))
      why = "reflects more elements than there are";
    shape[i] += before[i] + behind[i];
  }
  return shape;
}

void pad(const Call& c) {
  std::string why;
  const auto before = pads_of(c.op, why).first;
  const Shape &in = c.shape(0), own = strides_of(in), &out = c.op.shape;
  const std::string_view mode = c.op.text("mode", "constant");
  const float value = c.has(2) ? *c.inputs[2].floats : c.op.real("value", 0.0F);
  Shape at(out.size(), 0);
  const std::int64_t count = elements(out);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t from = 0;
    bool inside = true;
    for (std::size_t a = 0; a < out.size(); ++a) {
      std::int64_t x = at[a] - before[a];
      inside = inside && x >= 0 && x < in[a];
      if (mode == "edge") x = std::clamp<std::int64_t>(x, 0, in[a] - 1);
      if (mode == "wrap") x = ((x % in[a]) + in[a]) % in[a];
      if (mode == "reflect") x = x < 0 ? -x : x >= in[a] ? 2 * (in[a] - 1) - x : x;
      from += x * own[a];
    }
    c.result[i] = inside || mode != "constant" ? c.inputs[0].floats[from] : value;
    for (std::size_t a = out.size(); a-- > 0;) {
      if (++at[a] < out[a]) break;
      at[a] = 0;
    }
  }
}

Shape expand_shape(const FloatOperator& op, std::string& why) {
  const auto wanted = integers_of(op, 1, "");
  const auto both = wanted && is_float(op, 0) ? broadcast(op.operands[0].shape, *wanted) : std::nullopt;
  if (!both) return fail(why, "needs a constant shape to which its input broadcasts");
  return *both;
}

void expand(const Call& c) {
  const Shape own = strides_of(c.shape(0));
  Shape strides(c.op.shape.size(), 0);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (c.shape(0)[i] != 1) strides[strides.size() - own.size() + i] = own[i];
  gather(c, c.op.shape, strides, 0);
}

/// DepthToSpace and SpaceToDepth over [N, C, H, W] with blocks of `blocksize`.
template <bool ToSpace>
Shape block_shape(const FloatOperator& op, std::string& why) {
  const std::int64_t b = op.integer("blocksize", 0);
  if (!is_float(op, 0) || op.operands[0].shape.size() != 4 || b < 1 || b > 4096)
    return fail(why, "needs [N, C, H, W] and a blocksize");
  Shape s = op.operands[0].shape;
  if (ToSpace ? s[1] % (b * b) != 0 : s[2] % b != 0 || s[3] % b != 0)
    return fail(why, "has a blocksize that does not divide");
  return ToSpace ? Shape{s[0], s[1] / (b * b), s[2] * b, s[3] * b}
                 : Shape{s[0], s[1] * b * b, s[2] / b, s[3] / b};
}

void depth_to_space(const Call& c) {
  const std::int64_t b = c.op.integer("blocksize", 1);
  const Shape &in = c.shape(0), &out = c.op.shape;
  const Shape own = strides_of(in);
  const bool columns_first = c.op.text("mode", "DCR") == "CRD";
  const std::int64_t of_row = columns_first ? b : b * out[1], of_column = columns_first ? 1 : out[1];
  const std::int64_t of_channel = columns_first ? b * b : 1;
  gather(c, {out[0], out[1], in[2], b, in[3], b},
         {own[0], of_channel * own[1], own[2], of_row * own[1], own[3], of_column * own[1]}, 0);
}

void space_to_depth(const Call& c) {
  const std::int64_t b = c.op.integer("blocksize", 1);
  const Shape &in = c.shape(0), &out = c.op.shape;
  const Shape own = strides_of(in);
  gather(c, {out[0], b, b, in[1], out[2], out[3]}, {own[0], own[2], own[3], own[1], own[2] * b, own[3] * b},
         0);
}

Shape tile_shape(const FloatOperator& op, std::string& why) {
  const auto repeats = integers_of(op, 1, "");
  if (!is_float(op, 0) || !repeats || repeats->size() != op.operands[0].shape.size())
    return fail(why, "needs a constant operand 'repeats' with one number for each axis");
  Shape shape = op.operands[0].shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if ((*repeats)[i] < 1 || (*repeats)[i] > 65535) return fail(why, "has a repetition that is not possible");
    shape[i] *= (*repeats)[i];
  }
  return shape;
}

void tile(const Call& c) {
  const Shape &in = c.shape(0), own = strides_of(in);
  Shape shape, strides;
  for (std::size_t i = 0; i < in.size(); ++i) {
    shape.insert(shape.end(), {c.op.shape[i] / in[i], in[i]});
    strides.insert(strides.end(), {0, own[i]});
  }
  gather(c, shape, strides, 0);
}

Shape gather_shape(const FloatOperator& op, std::string& why) {
  const auto indices = integers_of(op, 1, "");
  if (!is_float(op, 0) || !indices) return fail(why, "needs constant indices");
  const Shape& in = op.operands[0].shape;
  const std::int64_t axis = axis_in(op.integer("axis", 0), in.size());
  if (axis < 0) return fail(why, "names an axis that its input does not have");
  const std::int64_t extent = in[static_cast<std::size_t>(axis)];
  for (const std::int64_t i : *indices)
    if (i < -extent || i >= extent) return fail(why, "has an index outside its input");
  Shape shape(in.begin(), in.begin() + axis);
  shape.insert(shape.end(), op.operands[1].shape.begin(), op.operands[1].shape.end());
  shape.insert(shape.end(), in.begin() + axis + 1, in.end());
  return shape;
}

void gather_indices(const Call& c) {
  const Shape& in = c.shape(0);
  const std::int64_t axis = axis_in(c.op.integer("axis", 0), in.size());
  const std::int64_t outer = elements({in.begin(), in.begin() + axis}),
                     inner = elements({in.begin() + axis + 1, in.end()});
  const std::int64_t extent = in[static_cast<std::size_t>(axis)];
  float* out = c.result;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t i : c.op.operands[1].integers) {
      const float* const from = c.inputs[0].floats + (o * extent + (i < 0 ? i + extent : i)) * inner;
      out = std::copy(from, from + inner, out);
    }
}

constexpr Rule kMoveRules[] = {
    {"Reshape", reshaped, copy},
    {"Flatten", reshaped, copy},
    {"Squeeze", reshaped, copy},
    {"Unsqueeze", reshaped, copy},
    {"Transpose", transpose_shape, transpose},
    {"Concat", concat_shape, concat},
    {"Slice", slice_shape, slice},
    {"Pad", pad_shape, pad},
    {"Expand", expand_shape, expand},
    {"Tile", tile_shape, tile},
    {"Gather", gather_shape, gather_indices},
    {"DepthToSpace", block_shape<true>, depth_to_space},
    {"SpaceToDepth", block_shape<false>, space_to_depth},
};

}  // namespace

std::span<const Rule> moves() {
  return kMoveRules;
}

}  // namespace millrace::kernels::host
