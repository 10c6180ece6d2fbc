// Normalisations: LayerNormalization, BatchNormalization, InstanceNormalization, GroupNormalization, LpNormalization,
// MeanVarianceNormalization and LRN.
#include <algorithm>
#include <cmath>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

struct Moments {
  double mean = 0, variance = 0;  // in double, because a float32 sum of many elements loses digits
};

Moments moments_of(const float* x, std::int64_t count) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, squares / static_cast<double>(count)};
}

Shape layer_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || !is_float(op, 1)) {
    why = "needs an input and a scale";
    return {};
  }
  const Shape& in = op.operands[0].shape;
  const std::int64_t axis = axis_in(op.integer("axis", -1), in.size());
  if (axis < 0) {
    why = "names an axis that its input does not have";
    return {};
  }
  const Shape normalised(in.begin() + axis, in.end());
  for (std::size_t i = 1; i < op.operands.size(); ++i)
    if (is_float(op, i) && elements(op.operands[i].shape) != elements(normalised))
      why = "has a scale or bias that does not fit";
  return in;
}

void layer_normalise(const Call& c) {
  const Shape& in = c.shape(0);
  const auto axis = static_cast<std::size_t>(axis_in(c.op.integer("axis", -1), in.size()));
  const std::int64_t row = elements({in.begin() + static_cast<std::ptrdiff_t>(axis), in.end()});
  const float epsilon = c.op.real("epsilon", 1e-5F);
  const std::int64_t count = elements(in);
  for (std::int64_t start = 0; start < count; start += row) {
    const float* const x = c.inputs[0].floats + start;
    const Moments m = moments_of(x, row);
    const auto factor = static_cast<float>(1.0 / std::sqrt(m.variance + epsilon));
    for (std::int64_t i = 0; i < row; ++i) {
      const float normal = (x[i] - static_cast<float>(m.mean)) * factor;
      c.result[start + i] = normal * c.inputs[1].floats[i] + (c.has(2) ? c.inputs[2].floats[i] : 0.0F);
    }
  }
}

/// Checks the operands. BatchNormalization has five (input, scale, bias, mean and variance); InstanceNormalization has
/// three (input, scale and bias).
template <std::size_t Operands>
Shape channel_shape(const FloatOperator& op, std::string& why) {
  if (op.operands.size() != Operands || !is_float(op, 0) || op.operands[0].shape.size() < 2) {
    why = "needs " + std::to_string(Operands) + " operands";
    return {};
  }
  for (std::size_t i = 1; i < Operands; ++i)
    if (!is_float(op, i) || op.operands[i].shape != Shape{op.operands[0].shape[1]})
      why = "needs one scale, bias, mean and variance per channel";
  return op.operands[0].shape;
}

/// Calls each(index of the plane's first element, channel, number of elements) for each plane of a tensor [N, C, ...].
template <class Each>
void for_each_plane(const Shape& in, Each each) {
  const std::int64_t plane = elements(in) / (in[0] * in[1]);
  for (std::int64_t p = 0; p < in[0] * in[1]; ++p) each(p * plane, p % in[1], plane);
}

void batch_normalise(const Call& c) {
  const float epsilon = c.op.real("epsilon", 1e-5F);
  for_each_plane(c.shape(0), [&](std::int64_t start, std::int64_t channel, std::int64_t plane) {
    const float factor = c.inputs[1].floats[channel] / std::sqrt(c.inputs[4].floats[channel] + epsilon);
    for (std::int64_t i = start; i < start + plane; ++i)
      c.result[i] =
          (c.inputs[0].floats[i] - c.inputs[3].floats[channel]) * factor + c.inputs[2].floats[channel];
  });
}

void instance_normalise(const Call& c) {
  const float epsilon = c.op.real("epsilon", 1e-5F);
  for_each_plane(c.shape(0), [&](std::int64_t start, std::int64_t channel, std::int64_t plane) {
    const float* const x = c.inputs[0].floats + start;
    const Moments m = moments_of(x, plane);
    const auto factor = static_cast<float>(1.0 / std::sqrt(m.variance + epsilon));
    for (std::int64_t i = 0; i < plane; ++i)
      c.result[start + i] = (x[i] - static_cast<float>(m.mean)) * factor * c.inputs[1].floats[channel] +
                            c.inputs[2].floats[channel];
  });
}

/// GroupNormalization takes input, scale and bias: one of each per channel, or (before operator set 21) per group.
Shape group_shape(const FloatOperator& op, std::string& why) {
  if (op.operands.size() != 3 || !is_float(op, 0) || op.operands[0].shape.size() < 2) {
    why = "needs an input, a scale and a bias";
    return {};
  }
  const std::int64_t channels = op.operands[0].shape[1], groups = op.integer("num_groups", 0);
  if (groups < 1 || channels % groups != 0) {
    why = "has num_groups that do not divide its channels";
    return {};
  }
  for (const std::size_t i : {1U, 2U})
    if (!is_float(op, i) || op.operands[i].shape != Shape{op.opset < 21 ? groups : channels})
      why = "needs one scale and one bias per channel (per group before operator set 21)";
  return op.operands[0].shape;
}

void group_normalise(const Call& c) {
  const Shape& in = c.shape(0);
  const std::int64_t groups = c.op.integer("num_groups", 1), channels = in[1] / groups;
  const float epsilon = c.op.real("epsilon", 1e-5F);
  const bool by_group = c.op.opset < 21;
  for_each_plane({in[0], groups, elements(in) / (in[0] * groups)}, [&](std::int64_t start, std::int64_t group,
                                                                       std::int64_t count) {
    const Moments m = moments_of(c.inputs[0].floats + start, count);
    const auto factor = static_cast<float>(1.0 / std::sqrt(m.variance + epsilon));
    const std::int64_t plane = count / channels;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t k = by_group ? group : group * channels + i / plane;
      const float normal = (c.inputs[0].floats[start + i] - static_cast<float>(m.mean)) * factor;
      c.result[start + i] = normal * c.inputs[1].floats[k] + c.inputs[2].floats[k];
    }
  });
}

/// LRN divides each element by a power of the sum of squares of its neighbours along the channels.
Shape response_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || op.operands[0].shape.size() < 2 || op.integer("size", 0) < 1)
    why = "needs [N, C, ...] and a size";
  return why.empty() ? op.operands[0].shape : Shape{};
}

void normalise_response(const Call& c) {
  const Shape& in = c.shape(0);
  const std::int64_t size = std::min(c.op.integer("size", 1), 2 * in[1]), channels = in[1];
  const float alpha = c.op.real("alpha", 0.0001F), beta = c.op.real("beta", 0.75F),
              bias = c.op.real("bias", 1.0F);
  for_each_plane(in, [&](std::int64_t start, std::int64_t channel, std::int64_t plane) {
    const std::int64_t first = std::max<std::int64_t>(channel - (size - 1) / 2, 0),
                       last = std::min(channel + size / 2, channels - 1);
    for (std::int64_t i = start; i < start + plane; ++i) {
      float squares = 0;
      for (std::int64_t k = first; k <= last; ++k) {
        const float x = c.inputs[0].floats[i + (k - channel) * plane];
        squares += x * x;
      }
      const float divisor = bias + alpha / static_cast<float>(c.op.integer("size", 1)) * squares;
      c.result[i] = c.inputs[0].floats[i] / std::pow(divisor, beta);
    }
  });
}

/// LpNormalization divides by the sum of absolute values (p = 1) or the root of the sum of squares along an axis.
Shape length_shape(const FloatOperator& op, std::string& why) {
  const std::int64_t p = op.integer("p", 2);
  if (!is_float(op, 0) || axis_in(op.integer("axis", -1), op.operands[0].shape.size()) < 0 ||
      (p != 1 && p != 2))
    why = "needs an axis that exists in its input, and p of 1 or 2";
  return why.empty() ? op.operands[0].shape : Shape{};
}

void normalise_length(const Call& c) {
  const Shape& in = c.shape(0);
  const std::int64_t axis = axis_in(c.op.integer("axis", -1), in.size());
  const std::int64_t extent = in[static_cast<std::size_t>(axis)],
                     inner = elements({in.begin() + axis + 1, in.end()});
  const bool squares = c.op.integer("p", 2) == 2;
  for (std::int64_t row = 0; row < elements(in) / extent; ++row) {
    const std::int64_t start = row / inner * extent * inner + row % inner;
    float sum = 0;
    for (std::int64_t i = 0; i < extent; ++i) {
      const float x = c.inputs[0].floats[start + i * inner];
      sum += squares ? x * x : std::abs(x);
    }
    const float length = squares ? std::sqrt(sum) : sum;
    for (std::int64_t i = start; i < start + extent * inner; i += inner)
      c.result[i] = length == 0 ? 0 : c.inputs[0].floats[i] / length;
  }
}

/// MeanVarianceNormalization over the batch and the spatial axes, which are its default axes.
Shape mean_variance_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || op.operands[0].shape.size() < 2 || op.operands[0].shape[0] != 1 ||
      op.integers("axes", {0, 2, 3}) != Shape{0, 2, 3})
    why = "needs an input of shape [1, C, H, W] and the axes 0, 2 and 3";
  return why.empty() ? op.operands[0].shape : Shape{};
}

void normalise_mean_and_variance(const Call& c) {
  for_each_plane(c.shape(0), [&](std::int64_t start, std::int64_t, std::int64_t plane) {
    const float* const x = c.inputs[0].floats + start;
    const Moments m = moments_of(x, plane);
    const auto deviation = static_cast<float>(std::sqrt(m.variance)) + 1e-9F;
    for (std::int64_t i = 0; i < plane; ++i)
      c.result[start + i] = (x[i] - static_cast<float>(m.mean)) / deviation;
  });
}

constexpr Rule kNormalisationRules[] = {
    {"LayerNormalization", layer_shape, layer_normalise},
    {"BatchNormalization", channel_shape<5>, batch_normalise},
    {"InstanceNormalization", channel_shape<3>, instance_normalise},
    {"GroupNormalization", group_shape, group_normalise},
    {"LRN", response_shape, normalise_response},
    {"LpNormalization", length_shape, normalise_length},
    {"MeanVarianceNormalization", mean_variance_shape, normalise_mean_and_variance},
};

}  // namespace

std::span<const Rule> normalisations() {
  return kNormalisationRules;
}

}  // namespace millrace::kernels::host
