#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace millrace::kernels::reference {
namespace {

// A tensor's elements during the computation, either as integers wide enough for every type or as float32.
struct Values {
  std::vector<std::int64_t> integers;
  std::vector<float> floats;
};

// Decodes one stored element. Bits beyond the type's width are dropped; a bipolar element is +1 if its whole byte is 1,
// and otherwise -1. So even invalid storage gives a value within the ranges that validate() checked.
std::int64_t interpret(ElementType type, std::uint64_t raw) {
  if (type.kind == ElementType::Kind::kBipolar) return raw == 1 ? 1 : -1;
  if (type.bits == 64) return static_cast<std::int64_t>(raw);
  const std::int64_t modulus = std::int64_t{1} << type.bits;
  const auto value = static_cast<std::int64_t>(raw) % modulus;
  return value > type.highest() ? value - modulus : value;
}

Values load(const Tensor& tensor, const Buffer& bytes) {
  Values values;
  const std::size_t width = tensor.type.storage_bytes();
  const std::size_t count = tensor.elements();
  if (!tensor.type.is_integer()) {
    values.floats.resize(count);
    std::memcpy(values.floats.data(), bytes.data(), count * sizeof(float));
    return values;
  }
  values.integers.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t raw = 0;
    std::memcpy(&raw, bytes.data() + i * width, width);
    values.integers[i] = interpret(tensor.type, raw);
  }
  return values;
}

Buffer store(const Tensor& tensor, const Values& values) {
  Buffer bytes(tensor.storage_bytes());
  const std::size_t width = tensor.type.storage_bytes();
  if (!tensor.type.is_integer()) {
    std::memcpy(bytes.data(), values.floats.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.integers.size(); ++i) {
    const std::int64_t raw = values.integers[i];  // its low bytes are stored
    std::memcpy(bytes.data() + i * width, &raw, width);
  }
  return bytes;
}

template <class T>
T entry(const std::vector<T>& values, std::size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

// Calls visit(tap, y, x) for each tap of the window at output position (oy, ox). y and x may be outside the input.
template <class Visit>
void for_each_tap(const Window& w, std::size_t oy, std::size_t ox, Visit visit) {
  std::size_t tap = 0;
  for (std::uint32_t ky = 0; ky < w.kernel_h; ++ky) {
    for (std::uint32_t kx = 0; kx < w.kernel_w; ++kx, ++tap) {
      const std::int64_t y =
          static_cast<std::int64_t>(oy * w.stride_h + std::size_t{ky} * w.dilation_h) - w.pad_top;
      const std::int64_t x =
          static_cast<std::int64_t>(ox * w.stride_w + std::size_t{kx} * w.dilation_w) - w.pad_left;
      visit(tap, y, x);
    }
  }
}

// An input tensor of shape [height, width, channels].
struct Image {
  const Tensor& tensor;
  const Values& values;

  bool contains(std::int64_t y, std::int64_t x) const {
    return y >= 0 && x >= 0 && y < tensor.shape[0] && x < tensor.shape[1];
  }
  std::int64_t at(std::int64_t y, std::int64_t x, std::size_t channel) const {
    const auto pixel = static_cast<std::size_t>(y * tensor.shape[1] + x);
    return values.integers[pixel * tensor.shape[2] + channel];
  }
  std::int64_t at_or(std::int64_t y, std::int64_t x, std::size_t channel, std::int64_t outside) const {
    return contains(y, x) ? at(y, x, channel) : outside;
  }
};

// Makes an output of shape [height, width, channels] from element(y, x, channel).
template <class Element>
Values each_element(const Tensor& out, Element element) {
  Values values;
  values.integers.reserve(out.elements());
  for (std::size_t y = 0; y < out.shape[0]; ++y) {
    for (std::size_t x = 0; x < out.shape[1]; ++x) {
      for (std::size_t c = 0; c < out.shape[2]; ++c) values.integers.push_back(element(y, x, c));
    }
  }
  return values;
}

Values apply(const Convolution& op, const Tensor& in_type, const Values& in, const Tensor& out) {
  const Image image{in_type, in};
  const std::size_t group_in = in_type.shape[2] / op.groups;
  const std::size_t group_out = op.out_channels / op.groups;
  const std::size_t taps = std::size_t{op.window.kernel_h} * op.window.kernel_w;
  const std::vector<std::int16_t>& weights = op.weights;
  return each_element(out, [&](std::size_t oy, std::size_t ox, std::size_t o) {
    const std::size_t first_channel = o / group_out * group_in;
    std::int64_t acc = op.bias.empty() ? 0 : op.bias[o];
    for_each_tap(op.window, oy, ox, [&](std::size_t tap, std::int64_t y, std::int64_t x) {
      for (std::size_t i = 0; i < group_in; ++i) {
        const std::int64_t weight = weights[(o * taps + tap) * group_in + i];
        acc += image.at_or(y, x, first_channel + i, op.window.pad_value) * weight;
      }
    });
    return op.requantise ? requantise(*op.requantise, acc, o) : acc;
  });
}

Values apply(const MaxPool& op, const Tensor& in_type, const Values& in, const Tensor& out) {
  const Image image{in_type, in};
  return each_element(out, [&](std::size_t oy, std::size_t ox, std::size_t c) {
    std::int64_t largest = std::numeric_limits<std::int64_t>::min();
    for_each_tap(op.window, oy, ox, [&](std::size_t, std::int64_t y, std::int64_t x) {
      if (image.contains(y, x)) largest = std::max(largest, image.at(y, x, c));
    });
    return largest;
  });
}

Values apply(const SumPool& op, const Tensor& in_type, const Values& in, const Tensor& out) {
  const Image image{in_type, in};
  return each_element(out, [&](std::size_t oy, std::size_t ox, std::size_t c) {
    std::int64_t sum = 0;
    for_each_tap(op.window, oy, ox, [&](std::size_t, std::int64_t y, std::int64_t x) {
      sum += image.at_or(y, x, c, op.window.pad_value);
    });
    return requantise(op.requantise, sum, c);
  });
}

Values apply(const Rescale& op, const Tensor&, const Values& in, const Tensor& out) {
  Values values = in;
  for (std::size_t i = 0; i < values.integers.size(); ++i) {
    values.integers[i] = requantise(op.requantise, in.integers[i], i % out.shape.back());
  }
  return values;
}

// Returns the index of `value` among the 2^bits values of its type.
std::size_t rank(ElementType type, std::int64_t value) {
  return static_cast<std::size_t>(value - type.lowest());
}

Values apply(const Lookup& op, const Tensor& in_type, const Values& in, const Tensor&) {
  Values values = in;
  for (std::int64_t& value : values.integers) value = op.table[rank(in_type.type, value)];
  return values;
}

Values apply(const Rearrange& op, const Tensor&, const Values& in, const Tensor&) {
  if (op.extents.empty()) return in;
  Values values;
  std::vector<std::uint32_t> at(op.extents.size(), 0);  // the indices of the loops, outermost first
  for (bool done = false; !done;) {
    auto from = static_cast<std::int64_t>(op.offset);
    for (std::size_t k = 0; k < at.size(); ++k) from += at[k] * op.strides[k];
    if (in.floats.empty()) {
      values.integers.push_back(in.integers[static_cast<std::size_t>(from)]);
    } else {
      values.floats.push_back(in.floats[static_cast<std::size_t>(from)]);
    }
    std::size_t k = at.size();
    while (k > 0 && ++at[k - 1] == op.extents[k - 1]) at[--k] = 0;
    done = k == 0;
  }
  return values;
}

constexpr float kFarthest = 1e9F;

Values apply(const Quantise& op, const Tensor&, const Values& in, const Tensor& out) {
  Values values;
  for (std::size_t i = 0; i < in.floats.size(); ++i) {
    const float steps = std::nearbyint(in.floats[i] / entry(op.scale, i % out.shape.back()));
    if (std::isnan(steps)) {
      values.integers.push_back(op.zero_point);
      continue;
    }
    // First clamp to ±10^9, as program.hpp defines, so that the conversion to an integer cannot overflow.
    const auto bounded = static_cast<std::int64_t>(std::clamp(steps, -kFarthest, kFarthest));
    values.integers.push_back(std::clamp(bounded + op.zero_point, out.type.lowest(), out.type.highest()));
  }
  return values;
}

Values apply(const Dequantise& op, const Tensor&, const Values& in, const Tensor& out) {
  Values values;
  for (std::size_t i = 0; i < in.integers.size(); ++i) {
    values.floats.push_back(static_cast<float>(in.integers[i] - op.zero_point) *
                            entry(op.scale, i % out.shape.back()));
  }
  return values;
}

Values apply(const Softmax&, const Tensor& in_type, const Values& in, const Tensor&) {
  Values values = in;
  const std::size_t row = in_type.shape.back();
  for (std::size_t start = 0; start < in.floats.size(); start += row) {
    float* x = values.floats.data() + start;
    float largest = x[0];
    for (std::size_t i = 1; i < row; ++i) largest = std::max(largest, x[i]);
    float sum = 0;
    for (std::size_t i = 0; i < row; ++i) sum += x[i] = std::exp(x[i] - largest);
    for (std::size_t i = 0; i < row; ++i) x[i] /= sum;
  }
  return values;
}

Values add(const Add& op, const Tensor& a_type, const Values& a, const Tensor& b_type, const Values& b) {
  Values values;
  for (std::size_t i = 0; i < a.integers.size(); ++i) {
    const std::int64_t x = a.integers[i], y = b.integers[i];
    if (!op.table.empty()) {
      values.integers.push_back(op.table[(rank(a_type.type, x) << b_type.type.bits) + rank(b_type.type, y)]);
      continue;
    }
    const std::int64_t sum = (x * op.multiplier_a + y * op.multiplier_b + op.offset) >> op.shift;
    values.integers.push_back(std::clamp<std::int64_t>(sum, op.lowest, op.highest));
  }
  return values;
}

Values concat(const Program& program, const Block& block, const std::vector<Values>& known) {
  const Tensor& out = program.tensors[block.outputs[0]];
  Values values;
  for (std::size_t row = 0; row < out.elements() / out.shape.back(); ++row) {
    for (const TensorIndex index : block.inputs) {
      const std::size_t width = program.tensors[index].shape.back();
      const auto append = [&](auto& to, const auto& from) {
        if (from.empty()) return;
        const auto start = from.begin() + static_cast<std::ptrdiff_t>(row * width);
        to.insert(to.end(), start, start + static_cast<std::ptrdiff_t>(width));
      };
      append(values.integers, known[index].integers);
      append(values.floats, known[index].floats);
    }
  }
  return values;
}

Values compute_floats(const Program& program, const Block& block, const FloatOperator& op,
                      const std::vector<Values>& known) {
  std::vector<const float*> tensors;
  for (const TensorIndex index : block.inputs) tensors.push_back(known[index].floats.data());
  Values values;
  values.floats.resize(program.tensors[block.outputs[0]].elements());
  host::compute(op, tensors, values.floats.data());
  return values;
}

/// Lets the plugin compute the block's outputs into `bytes`, the storage form of each tensor.
void run_plugin(const Program& program, const Block& block, const PluginOperator& op,
                std::vector<Buffer>& bytes) {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (const TensorIndex index : block.inputs) inputs.push_back(bytes[index].data());
  for (const TensorIndex index : block.outputs) {
    bytes[index].assign(program.tensors[index].storage_bytes(), std::byte{0});
    outputs.push_back(bytes[index].data());
  }
  if (op.model == nullptr)
    throw PluginFailure("plugin '" + op.plugin + "' is not loaded, so block '" + block.name +
                        "' cannot be computed");
  op.model->run(inputs, outputs);
}

Values compute(const Program& program, const Block& block, const std::vector<Values>& known) {
  const TensorIndex first = block.inputs[0];
  const Tensor& in = program.tensors[first];
  const Tensor& out = program.tensors[block.outputs[0]];
  return std::visit(
      [&](const auto& op) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, Add>) {
          const TensorIndex second = block.inputs[1];
          return add(op, in, known[first], program.tensors[second], known[second]);
        } else if constexpr (std::is_same_v<Op, Concat>) {
          return concat(program, block, known);
        } else if constexpr (std::is_same_v<Op, FloatOperator>) {
          return compute_floats(program, block, op, known);
        } else if constexpr (std::is_same_v<Op, PluginOperator>) {
          return Values{};  // run() handles it, because it may have several outputs
        } else {
          return apply(op, in, known[first], out);
        }
      },
      block.operation);
}

}  // namespace

std::int64_t requantise(const Requantise& r, std::int64_t acc, std::size_t channel) {
  if (r.form != Requantise::Form::kThresholds) {
    const std::int64_t scaled = acc * entry(r.multiplier, channel) + entry(r.offset, channel);
    const std::uint8_t shift = entry(r.shift, channel);
    std::int64_t quotient = scaled >> shift;
    if (r.form == Requantise::Form::kMultiplyShiftHalfEven && shift > 0) {
      const std::int64_t rest = scaled - (quotient << shift), half = std::int64_t{1} << (shift - 1);
      if (rest > half || (rest == half && quotient % 2 != 0)) ++quotient;
    }
    return std::clamp<std::int64_t>(quotient + r.zero_point, r.lowest, r.highest);
  }
  const auto steps = static_cast<std::size_t>(std::int64_t{r.highest} - r.lowest);
  const std::size_t start = r.thresholds.size() == steps ? 0 : channel * steps;
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < steps; ++i) reached += acc >= r.thresholds[start + i] ? 1 : 0;
  return r.lowest + reached;
}

std::vector<Buffer> run(const Program& program, const std::vector<Buffer>& inputs,
                        const std::function<void(TensorIndex, const Buffer&)>& observe) {
  std::vector<Values> known(program.tensors.size());
  std::vector<Buffer> bytes(program.tensors.size());
  const auto learn = [&](TensorIndex index) {
    if (observe) observe(index, bytes[index]);
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorIndex index = program.inputs[i];
    bytes[index] = inputs[i];
    known[index] = load(program.tensors[index], inputs[i]);
    learn(index);
  }
  for (const Block& block : program.blocks) {
    if (const auto* op = std::get_if<PluginOperator>(&block.operation)) {
      run_plugin(program, block, *op, bytes);
      for (const TensorIndex index : block.outputs) {
        known[index] = load(program.tensors[index], bytes[index]);
        learn(index);
      }
      continue;
    }
    const TensorIndex index = block.outputs[0];
    known[index] = compute(program, block, known);
    bytes[index] = store(program.tensors[index], known[index]);
    learn(index);
  }
  std::vector<Buffer> outputs;
  for (const TensorIndex index : program.outputs) outputs.push_back(bytes[index]);
  return outputs;
}

}  // namespace millrace::kernels::reference
