// Sliding windows: their attributes, and pools over any number of spatial axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {

namespace {

constexpr std::int64_t kLargest = 65535;  // of a window's attribute

Shape entries(const FloatOperator& op, const char* name, std::size_t count, std::int64_t otherwise,
              std::int64_t least, std::string& why) {
  Shape values = op.integers(name, Shape(count, otherwise));
  const bool in_range =
      std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v >= least && v <= kLargest; });
  if (values.size() != count || !in_range) {
    why = std::string("attribute '") + name + "' does not fit its input";
    return Shape(count, std::max(otherwise, least));
  }
  return values;
}

}  // namespace

Window resolve_window(const FloatOperator& op, const Shape& input, const Shape& kernel, std::string& why) {
  Window w;
  const std::size_t axes = kernel.size();
  w.kernel = kernel;
  if (axes == 0 || input.size() != axes + 2 ||
      !std::all_of(kernel.begin(), kernel.end(), [](std::int64_t k) { return k >= 1 && k <= kLargest; })) {
    why = "its window does not fit its input";
    return w;
  }
  w.stride = entries(op, "strides", axes, 1, 1, why);
  w.dilation = entries(op, "dilations", axes, 1, 1, why);
  const Shape pads = entries(op, "pads", 2 * axes, 0, 0, why);
  w.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  w.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  const std::string_view mode = op.text("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  const bool ceil = op.integer("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t in = input[i + 2], reach = (kernel[i] - 1) * w.dilation[i] + 1, stride = w.stride[i];
    if (mode == "VALID") w.begin[i] = w.end[i] = 0;
    if (same) {
      const std::int64_t total =
          std::max<std::int64_t>(0, ((in + stride - 1) / stride - 1) * stride + reach - in);
      w.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[i] = total - w.begin[i];
    }
    const std::int64_t room = in + w.begin[i] + w.end[i] - reach;
    if (room < 0) {
      why = "its window is larger than its padded input";
      return w;
    }
    std::int64_t positions = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
    // With ceil_mode, a window may not start in the padding behind the input.
    if (ceil && (positions - 1) * stride >= in + w.begin[i]) --positions;
    w.extent.push_back(positions);
  }
  return w;
}

namespace {

Shape channels_and(const Shape& input, const Shape& extent) {
  Shape shape{input[0], input[1]};
  shape.insert(shape.end(), extent.begin(), extent.end());
  return shape;
}

Window pool_window(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || op.operands.size() != 1) why = "needs one float32 operand";
  if (!why.empty()) return {};
  return resolve_window(op, op.operands[0].shape, op.integers("kernel_shape", {}), why);
}

Shape pool_shape(const FloatOperator& op, std::string& why) {
  const Window w = pool_window(op, why);
  if (why.empty() && op.integer("storage_order", 0) != 0) why = "storage_order must be 0";
  return why.empty() ? channels_and(op.operands[0].shape, w.extent) : Shape{};
}

Shape global_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || op.operands.size() != 1 || op.operands[0].shape.size() < 3) {
    why = "needs one operand with spatial axes";
    return {};
  }
  const Shape& in = op.operands[0].shape;
  return channels_and(in, Shape(in.size() - 2, 1));
}

/// Calls visit(value) for each of the window's taps that lies inside the input. Returns the number of taps inside the
/// padded input.
template <class Visit>
std::int64_t for_each_tap(const Window& w, const Shape& input, const float* plane, const Shape& at,
                          Visit visit) {
  const std::size_t axes = w.kernel.size();
  const std::int64_t taps = elements(w.kernel);
  Shape tap(axes, 0);
  std::int64_t padded = 0;
  for (std::int64_t t = 0; t < taps; ++t) {
    std::int64_t offset = 0;
    bool inside = true, inside_padding = true;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t position = at[i] * w.stride[i] - w.begin[i] + tap[i] * w.dilation[i];
      inside = inside && position >= 0 && position < input[i + 2];
      inside_padding = inside_padding && position < input[i + 2] + w.end[i];
      offset = offset * input[i + 2] + position;
    }
    if (inside) visit(plane[offset]);
    padded += inside_padding ? 1 : 0;
    for (std::size_t i = axes; i-- > 0;) {
      if (++tap[i] < w.kernel[i]) break;
      tap[i] = 0;
    }
  }
  return padded;
}

/// Calls each(plane, position of the window, index of the result) for all results.
template <class Each>
void for_each_window(const Call& c, const Window& w, Each each) {
  const Shape& input = c.shape(0);
  const std::int64_t plane = elements(input) / (input[0] * input[1]), results = elements(w.extent);
  for (std::int64_t p = 0; p < input[0] * input[1]; ++p) {
    Shape at(w.extent.size(), 0);
    for (std::int64_t r = 0; r < results; ++r) {
      each(c.inputs[0].floats + p * plane, at, static_cast<std::size_t>(p * results + r));
      for (std::size_t i = at.size(); i-- > 0;) {
        if (++at[i] < w.extent[i]) break;
        at[i] = 0;
      }
    }
  }
}

void max_pool(const Call& c) {
  std::string why;
  const Window w = pool_window(c.op, why);
  for_each_window(c, w, [&](const float* plane, const Shape& at, std::size_t i) {
    float largest = -std::numeric_limits<float>::infinity();
    for_each_tap(w, c.shape(0), plane, at, [&](float x) { largest = std::max(largest, x); });
    c.result[i] = largest;
  });
}

void average_pool(const Call& c) {
  std::string why;
  const Window w = pool_window(c.op, why);
  const bool counts_padding = c.op.integer("count_include_pad", 0) != 0;
  for_each_window(c, w, [&](const float* plane, const Shape& at, std::size_t i) {
    float sum = 0;
    std::int64_t inside = 0;
    const std::int64_t padded = for_each_tap(w, c.shape(0), plane, at, [&](float x) {
      sum += x;
      ++inside;
    });
    const std::int64_t count = counts_padding ? padded : inside;
    c.result[i] = count == 0 ? 0.0F : sum / static_cast<float>(count);
  });
}

/// Returns p of an LpPool: its results are (sum of |x|^p)^(1/p). Padding adds nothing.
float norm_of(const FloatOperator& op) {
  return static_cast<float>(op.integer("p", 2));
}

template <Shape (*shape_of)(const FloatOperator&, std::string&)>
Shape norm_shape(const FloatOperator& op, std::string& why) {
  if (op.integer("p", 2) < 1) why = "p must be at least 1";
  return why.empty() ? shape_of(op, why) : Shape{};
}

void norm_pool(const Call& c) {
  std::string why;
  const Window w = pool_window(c.op, why);
  const float p = norm_of(c.op);
  for_each_window(c, w, [&](const float* plane, const Shape& at, std::size_t i) {
    float sum = 0;
    for_each_tap(w, c.shape(0), plane, at, [&](float x) { sum += std::pow(std::abs(x), p); });
    c.result[i] = std::pow(sum, 1.0F / p);
  });
}

/// Pools each whole plane: combines its elements with add(), and writes finish(result of add(), number of elements).
template <class Add, class Finish>
void global_pool(const Call& c, float start, Add add, Finish finish) {
  const Shape& input = c.shape(0);
  const std::int64_t planes = input[0] * input[1], plane = elements(input) / planes;
  for (std::int64_t p = 0; p < planes; ++p) {
    float value = start;
    for (std::int64_t i = 0; i < plane; ++i) value = add(value, c.inputs[0].floats[p * plane + i]);
    c.result[p] = finish(value, static_cast<float>(plane));
  }
}

constexpr Rule kPoolRules[] = {
    {"MaxPool", pool_shape, max_pool},
    {"AveragePool", pool_shape, average_pool},
    {"GlobalAveragePool", global_shape,
     [](const Call& c) {
       global_pool(
           c, 0.0F, [](float sum, float x) { return sum + x; }, [](float sum, float n) { return sum / n; });
     }},
    {"GlobalMaxPool", global_shape,
     [](const Call& c) {
       global_pool(
           c, -std::numeric_limits<float>::infinity(), [](float most, float x) { return std::max(most, x); },
           [](float most, float) { return most; });
     }},
    {"LpPool", norm_shape<pool_shape>, norm_pool},
    {"GlobalLpPool", norm_shape<global_shape>,
     [](const Call& c) {
       const float p = norm_of(c.op);
       global_pool(
           c, 0.0F, [p](float sum, float x) { return sum + std::pow(std::abs(x), p); },
           [p](float sum, float) { return std::pow(sum, 1.0F / p); });
     }},
};

}  // namespace

std::span<const Rule> pools() {
  return kPoolRules;
}

}  // namespace millrace::kernels::host
