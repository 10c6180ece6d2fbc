// Resize and Upsample: nearest, linear and cubic interpolation. Coordinates are computed in float32, in the order of ONNX
// Runtime, because a coordinate that rounds to another side selects another element.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

/// Upsample, and Resize before operator set 11, have no attribute coordinate_transformation_mode.
bool is_old(const FloatOperator& op) {
  return op.type == "Upsample" || op.opset < 11;
}

struct Sizes {
  Shape out;
  std::vector<float> scales;  // one for each axis
};

bool is_known(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string check_attributes(const FloatOperator& op) {
  if (!is_known(op.text("mode", "nearest"), {"nearest", "linear", "cubic", "bilinear", "trilinear"}))
    return "has an unknown mode";
  if (op.integer("antialias", 0) != 0) return "has antialias 1, which is not supported";
  if (op.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return "has a keep_aspect_ratio_policy other than stretch, which is not supported";
  if (is_old(op)) return {};
  if (!is_known(op.text("coordinate_transformation_mode", "half_pixel"),
                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
                 "asymmetric", "align_corners"}))
    return "has a coordinate_transformation_mode that is not supported";
  if (!is_known(op.text("nearest_mode", "round_prefer_floor"),
                {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return "has an unknown nearest_mode";
  return {};
}

/// The scales: a constant operand or, in Upsample of operator set 7, an attribute. Empty if there are none.
std::vector<float> given_scales(const FloatOperator& op) {
  const std::size_t at = is_old(op) ? 1 : 2;
  if (at < op.operands.size() && op.operands[at].kind == FloatOperand::Kind::kFloats)
    return op.operands[at].floats;
  const FloatAttribute* const a = op.attribute("scales");
  return a == nullptr ? std::vector<float>{} : a->reals;
}

Sizes sizes_of(const FloatOperator& op, std::string& why) {
  const Shape& in = op.operands[0].shape;
  Sizes sizes{in, std::vector<float>(in.size(), 1.0F)};
  Shape axes(in.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  axes = op.integers("axes", axes);
  const std::vector<float> scales = given_scales(op);
  const auto wanted = is_old(op) ? std::nullopt : integers_of(op, 3, "");
  const bool by_size = wanted && !wanted->empty();
  if (by_size ? wanted->size() != axes.size() : scales.size() != axes.size()) {
    why = "needs constant scales or sizes, one for each axis";
    return sizes;
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axis_in(axes[i], in.size());
    const float limit = 65536.0F;
    if (axis < 0 || (by_size ? (*wanted)[i] < 1 || (*wanted)[i] > kMostElements
                             : !(scales[i] > 0 && scales[i] < limit))) {
      why = "has an axis outside its input, or a scale or size out of range";
      return sizes;
    }
    const auto at = static_cast<std::size_t>(axis);
    const auto extent = static_cast<float>(in[at]);
    sizes.out[at] = by_size ? (*wanted)[i] : static_cast<std::int64_t>(scales[i] * extent);
    sizes.scales[at] = by_size ? static_cast<float>(sizes.out[at]) / extent : scales[i];
  }
  return sizes;
}

Shape resize_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0)) why = "needs a float32 operand";
  if (why.empty()) why = check_attributes(op);
  return why.empty() ? sizes_of(op, why).out : Shape{};
}

/// Returns the coordinate on an axis of the input that belongs to element `x` of the resized axis.
float coordinate(const FloatOperator& op, float x, float in, float out, float scale) {
  const std::string_view mode =
      is_old(op) ? "asymmetric" : op.text("coordinate_transformation_mode", "half_pixel");
  if (scale == 1.0F) return x;
  if (mode == "asymmetric") return x / scale;
  if (mode == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5F) / scale;
  if (mode == "pytorch_half_pixel" && out <= 1) return 0;
  const float half = (x + 0.5F) / scale - 0.5F;
  if (mode != "half_pixel_symmetric") return half;
  const float adjustment = out / (scale * in);
  const float offset = in / 2 * (1 - adjustment);
  return offset + half;
}

/// The elements along an axis from which an element of the result is computed, and their weights.
struct Taps {
  std::array<std::int64_t, 4> index{};
  std::array<float, 4> weight{};
  std::size_t count = 1;
};

Taps nearest_tap(const FloatOperator& op, float at, std::int64_t extent) {
  const std::string_view mode = is_old(op) ? "floor" : op.text("nearest_mode", "round_prefer_floor");
  float rounded = 0;
  if (mode == "round_prefer_floor")
    rounded = at == std::floor(at) + 0.5F ? std::floor(at) : std::round(at);
  else if (mode == "round_prefer_ceil")
    rounded = std::round(at);
  else
    rounded = mode == "floor" ? std::floor(at) : std::ceil(at);
  return {{std::clamp<std::int64_t>(static_cast<std::int64_t>(rounded), 0, extent - 1)}, {1.0F}, 1};
}

Taps linear_taps(float at, std::int64_t extent) {
  at = std::clamp(at, 0.0F, static_cast<float>(extent - 1));
  const auto low = std::min(static_cast<std::int64_t>(at), extent - 1);
  const std::int64_t high = std::min(low + 1, extent - 1);
  if (low == high) return {{low, high}, {0.5F, 0.5F}, 2};
  return {{low, high}, {std::abs(at - static_cast<float>(high)), std::abs(at - static_cast<float>(low))}, 2};
}

Taps cubic_taps(const FloatOperator& op, float at, std::int64_t extent) {
  const float a = op.real("cubic_coeff_a", -0.75F), low = std::floor(at), s = at - low;
  const bool excludes = op.integer("exclude_outside", 0) != 0;
  Taps taps{{},
            {((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a, ((a + 2) * s - (a + 3)) * s * s + 1,
             ((a + 2) * (1 - s) - (a + 3)) * (1 - s) * (1 - s) + 1,
             ((a * (2 - s) - 5 * a) * (2 - s) + 8 * a) * (2 - s) - 4 * a},
            4};
  float sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t index = static_cast<std::int64_t>(low) - 1 + static_cast<std::int64_t>(i);
    if (excludes && (index < 0 || index >= extent)) taps.weight[i] = 0;
    taps.index[i] = std::clamp<std::int64_t>(index, 0, extent - 1);
    sum += taps.weight[i];
  }
  if (excludes)
    for (float& weight : taps.weight) weight /= sum;
  return taps;
}

/// Returns the taps of every element of a resized axis.
std::vector<Taps> taps_of(const FloatOperator& op, std::int64_t in, std::int64_t out, float scale) {
  const std::string_view mode = op.text("mode", "nearest");
  std::vector<Taps> all;
  for (std::int64_t x = 0; x < out; ++x) {
    const float at =
        coordinate(op, static_cast<float>(x), static_cast<float>(in), static_cast<float>(out), scale);
    all.push_back(mode == "nearest" ? nearest_tap(op, at, in)
                  : mode == "cubic" ? cubic_taps(op, at, in)
                                    : linear_taps(at, in));
  }
  return all;
}

/// An axis whose elements are interpolated.
struct Axis {
  std::size_t axis = 0;
  std::vector<Taps> taps;
};

/// Returns the interpolated element: the sum over the taps of axis `next`, each weight times the sum over the later
/// axes. Cubic interpolation sums along the inner axes first, and then along the outer ones.
float interpolated(const std::vector<Axis>& axes, std::size_t next, const Shape& at, const Shape& strides,
                   const float* from) {
  if (next == axes.size()) return *from;
  const Taps& taps = axes[next].taps[static_cast<std::size_t>(at[axes[next].axis])];
  float sum = 0;
  for (std::size_t i = 0; i < taps.count; ++i)
    sum += taps.weight[i] *
           interpolated(axes, next + 1, at, strides, from + taps.index[i] * strides[axes[next].axis]);
  return sum;
}

/// Adds the product of all weights and the element, for every combination of taps.
void add_corners(const std::vector<Axis>& axes, std::size_t next, const Shape& at, const Shape& strides,
                 const float* from, const std::array<float, 8>& weights, float& sum) {
  if (next == axes.size()) {
    float product = 1;
    for (std::size_t i = axes.size(); i-- > 0;) product *= weights[i];
    sum += product * *from;
    return;
  }
  const Taps& taps = axes[next].taps[static_cast<std::size_t>(at[axes[next].axis])];
  for (std::size_t i = 0; i < taps.count; ++i) {
    auto more = weights;
    more[next] = taps.weight[i];
    add_corners(axes, next + 1, at, strides, from + taps.index[i] * strides[axes[next].axis], more, sum);
  }
}

void resize(const Call& c) {
  std::string why;
  const Sizes sizes = sizes_of(c.op, why);
  const Shape& in = c.shape(0);
  const std::string_view mode = c.op.text("mode", "nearest");
  std::vector<Axis> axes;
  Shape strides = strides_of(in);
  for (std::size_t axis = 0; axis < in.size(); ++axis)
    if (sizes.scales[axis] != 1.0F || sizes.out[axis] != in[axis])
      axes.push_back({axis, taps_of(c.op, in[axis], sizes.out[axis], sizes.scales[axis])});
  Shape at(in.size(), 0);
  const std::int64_t count = elements(sizes.out);
  for (std::int64_t i = 0; i < count; ++i) {
    const float* from = c.inputs[0].floats;
    for (std::size_t axis = 0; axis < in.size(); ++axis) {
      const bool is_resized =
          std::any_of(axes.begin(), axes.end(), [axis](const Axis& a) { return a.axis == axis; });
      if (!is_resized) from += at[axis] * strides[axis];
    }
    if (mode == "cubic" || mode == "nearest") {
      c.result[i] = interpolated(axes, 0, at, strides, from);
    } else {
      c.result[i] = 0;
      add_corners(axes, 0, at, strides, from, {}, c.result[i]);
    }
    for (std::size_t axis = in.size(); axis-- > 0;) {
      if (++at[axis] < sizes.out[axis]) break;
      at[axis] = 0;
    }
  }
}

constexpr Rule kResizeRules[] = {{"Resize", resize_shape, resize}, {"Upsample", resize_shape, resize}};

}  // namespace

std::span<const Rule> resizes() {
  return kResizeRules;
}

}  // namespace millrace::kernels::host
