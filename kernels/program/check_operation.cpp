// Checks the shapes, types, constants and ranges of each block. In a program that passes these checks, no computation
// can overflow.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/program/checks.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::kernels::checks {
namespace {

using Wide = __int128;

constexpr std::uint32_t kLargestWindowField = 65535;

// Returns whether `value` is a value of this integer type. A bipolar tensor may not hold 0.
bool holds(ElementType type, std::int64_t value) {
  if (type.kind == ElementType::Kind::kBipolar) return value == 1 || value == -1;
  return value >= type.lowest() && value <= type.highest();
}

bool is_bipolar(const Tensor& tensor) {
  return tensor.type.kind == ElementType::Kind::kBipolar;
}

void check_integer(const Tensor& tensor) {
  require(tensor.type.is_integer(), "'", tensor.name, "' must be an integer tensor");
}

void check_float(const Tensor& tensor) {
  require(!tensor.type.is_integer(), "'", tensor.name, "' must be a float32 tensor");
}

void check_same(bool same, const Tensor& a, const Tensor& b, const char* what) {
  require(same, "'", a.name, "' and '", b.name, "' must have ", what);
}

void check_same_shape(const Tensor& a, const Tensor& b) {
  check_same(a.shape == b.shape, a, b, "the same shape");
}

bool has_padding(const Window& w) {
  return w.pad_top != 0 || w.pad_left != 0 || w.pad_bottom != 0 || w.pad_right != 0;
}

void check_window(const Window& w, const Tensor& in, const Tensor& out) {
  require(in.shape.size() == 3, "input '", in.name, "' must have the shape [height, width, channels]");
  require(out.shape.size() == 3, "output '", out.name, "' must have the shape [height, width, channels]");
  for (const std::uint32_t field :
       {w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w})
    require(field != 0, "window: kernel, stride and dilation must be at least 1");
  for (const std::uint32_t field : {w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h,
                                    w.dilation_w, w.pad_top, w.pad_left, w.pad_bottom, w.pad_right})
    require(field <= kLargestWindowField, "window: ", field, " is above ", kLargestWindowField);
  const std::uint32_t height = windowed_height(w, in.shape[0]);
  const std::uint32_t width = windowed_width(w, in.shape[1]);
  require(height != 0 && width != 0, "window does not fit into input '", in.name, "'");
  require(out.shape[0] == height && out.shape[1] == width, "output '", out.name, "' is ", out.shape[0], " x ",
          out.shape[1], ", but the window gives ", height, " x ", width);
}

void check_padding_value(const Window& w, const Tensor& in) {
  require(!has_padding(w) || holds(in.type, w.pad_value), "window.pad_value ", w.pad_value,
          " is not a value of the input's type ", to_string(in.type));
}

// Checks the window of a pooling, and that the pooling keeps the number of channels.
void check_pooling(const Window& w, const Tensor& in, const Tensor& out) {
  check_integer(in);
  check_window(w, in, out);
  check_same(in.shape.back() == out.shape.back(), in, out, "the same number of channels");
}

// Returns whether every window along one axis has a tap inside the input. The maximum over no elements has no value.
bool every_window_sees_input(std::uint32_t extent, std::uint32_t pad, std::uint32_t kernel,
                             std::uint32_t dilation, std::uint32_t stride, std::uint32_t positions) {
  const std::int64_t last_tap = std::int64_t{kernel - 1} * dilation;
  if ((std::int64_t{positions} - 1) * stride - pad >= extent) return false;
  for (std::int64_t start = -std::int64_t{pad}; start < 0; start += stride) {
    const std::int64_t inside =
        (start % dilation + dilation) % dilation;  // the first tap that is not before the input
    if (start + last_tap < 0 || inside >= extent) return false;
    if (--positions == 0) break;
  }
  return true;
}

// Bounds for partial sums of terms in any order: the sum of all negative minima, and of all positive maxima.
struct Extremes {
  Wide lowest = 0;
  Wide highest = 0;
  void add(Wide a, Wide b) {
    lowest += std::min({a, b, Wide{0}});
    highest += std::max({a, b, Wide{0}});
  }
};

void check_accumulator_type(ElementType type) {
  require(is_legal(type) && type.kind == ElementType::Kind::kSigned,
          "accumulator must be a signed integer of 1 to 32 bits");
}

void check_accumulator_fits(ElementType type, const Extremes& sums, const std::string& where) {
  if (sums.lowest >= type.lowest() && sums.highest <= type.highest()) return;
  fail("accumulator ", to_string(type), " is too narrow", where, ": sums reach ",
       static_cast<std::int64_t>(std::max<Wide>(sums.lowest, INT64_MIN)), " .. ",
       static_cast<std::int64_t>(std::min<Wide>(sums.highest, INT64_MAX)));
}

// Checks that the accumulator holds every partial sum, in any order, for input elements of type `input`.
void check_accumulator(const Convolution& c, ElementType input) {
  check_accumulator_type(c.accumulator);
  const std::size_t taps = c.weights.size() / c.out_channels;
  const Wide least = input.lowest(), most = input.highest();
  for (std::size_t o = 0; o < c.out_channels; ++o) {
    Extremes sums;
    if (!c.bias.empty()) sums.add(c.bias[o], c.bias[o]);
    // A positive weight's product is largest for the input `most`, a negative weight's product for the input `least`.
    std::int64_t positive = 0, negative = 0;
    const std::int16_t* const weights = c.weights.data() + o * taps;
    for (std::size_t i = 0; i < taps; ++i) {
      const std::int64_t weight = weights[i];
      (weight > 0 ? positive : negative) += weight;
    }
    sums.add(positive * least, positive * most);
    sums.add(negative * least, negative * most);
    check_accumulator_fits(c.accumulator, sums, " for output channel " + std::to_string(o));
  }
}

template <class T>
T entry(const std::vector<T>& values, std::size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

void check_count(const char* field, std::size_t size, std::uint32_t channels) {
  require(size == 1 || size == channels, field, " has ", size, " entries; give one, or one per channel (",
          channels, ")");
}

void check_multiply_shift(const Requantise& r, ElementType range, std::uint32_t channels) {
  require(r.thresholds.empty(), "requantise.thresholds is given, but requantise.form is multiply-shift");
  const bool half_even = r.form == Requantise::Form::kMultiplyShiftHalfEven;
  check_count("requantise.multiplier", r.multiplier.size(), channels);
  check_count("requantise.offset", r.offset.size(), channels);
  check_count("requantise.shift", r.shift.size(), channels);
  const std::size_t distinct = std::max({r.multiplier.size(), r.offset.size(), r.shift.size()});
  for (std::size_t c = 0; c < distinct; ++c) {
    const Wide multiplier = entry(r.multiplier, c);
    const Wide offset = entry(r.offset, c);
    require(multiplier >= 0, "requantise.multiplier[", c,
            "] is negative; the step function must not decrease");
    require(entry(r.shift, c) <= 62, "requantise.shift[", c, "] is above 62");
    // acc * multiplier has at most 63 bits. Three later values may overflow: the sum with the offset, the sum with
    // the rounding constant, and the result plus the zero point.
    const Wide spare = half_even ? Wide{1} << 32 : 0;
    const Wide half = half_even && entry(r.shift, c) > 0 ? Wide{1} << (entry(r.shift, c) - 1) : 0;
    require(multiplier * range.lowest() + offset >= INT64_MIN + spare &&
                multiplier * range.highest() + offset + half <= INT64_MAX - spare,
            "requantise overflows 64 bits in channel ", c, "; use a smaller multiplier or offset");
  }
}

void check_thresholds(const Requantise& r, const Tensor& out, std::uint32_t channels) {
  require(r.multiplier.empty() && r.offset.empty() && r.shift.empty(),
          "requantise has a multiplier, offset or shift, but requantise.form is thresholds");
  const auto steps = static_cast<std::uint64_t>(std::int64_t{r.highest} - r.lowest);
  const std::uint64_t count = r.thresholds.size();
  if (steps == 0) {
    require(count == 0, "requantise.thresholds is given, but requantise.lowest equals requantise.highest");
    return;
  }
  require(count == steps || (count % steps == 0 && count / steps == channels), "requantise.thresholds has ",
          count, " entries; give ", steps, ", or ", steps, " for each of ", channels, " channels");
  for (std::uint64_t i = 1; i < count; ++i)
    require(i % steps == 0 || r.thresholds[i] >= r.thresholds[i - 1], "requantise.thresholds[", i,
            "] is below the previous threshold; thresholds must ascend within a channel");
  if (!is_bipolar(out)) return;
  for (std::uint64_t i = 0; i < count; i += 2)
    require(r.thresholds[i] == r.thresholds[i + 1], "requantise.thresholds[", i,
            "] differs from the next threshold, so a bipolar tensor would contain 0");
}

// Checks that `lowest` and `highest` are values of the output's type, in this order.
void check_clamp(const char* field, std::int32_t lowest, std::int32_t highest, const Tensor& out) {
  require(lowest <= highest, field, "lowest is above ", field, "highest");
  require(holds(out.type, lowest) && holds(out.type, highest), field, "lowest .. highest (", lowest, " .. ",
          highest, ") leaves the range of ", to_string(out.type));
}

// Checks the step function that a block with the output `out` applies to accumulators of type `range`.
void check_requantise(const Requantise& r, ElementType range, const Tensor& out) {
  require(out.type.is_integer(), "output '", out.name, "' must be an integer tensor");
  check_clamp("requantise.", r.lowest, r.highest, out);
  const std::uint32_t channels = out.shape.back();
  require(r.form == Requantise::Form::kMultiplyShiftHalfEven || r.zero_point == 0,
          "requantise.zero_point is given, but requantise.form is not multiply-shift-half-even");
  require(r.zero_point == 0 || (r.zero_point >= out.type.lowest() && r.zero_point <= out.type.highest()),
          "requantise.zero_point (", r.zero_point, ") leaves the range of ", to_string(out.type));
  switch (r.form) {
    case Requantise::Form::kMultiplyShift:
    case Requantise::Form::kMultiplyShiftHalfEven:
      require(!is_bipolar(out) || r.lowest == r.highest,
              "requantise.form must be thresholds for a bipolar output");
      return check_multiply_shift(r, range, channels);
    case Requantise::Form::kThresholds:
      return check_thresholds(r, out, channels);
  }
  fail("requantise.form is unknown");
}

void check(const Convolution& c, const Tensor& in, const Tensor& out) {
  check_integer(in);
  check_window(c.window, in, out);
  const std::uint32_t channels = in.shape[2];
  require(c.out_channels != 0 && c.out_channels == out.shape[2], "out_channels is ", c.out_channels,
          ", but output '", out.name, "' has ", out.shape[2]);
  require(c.groups != 0 && channels % c.groups == 0 && c.out_channels % c.groups == 0, "groups (", c.groups,
          ") must divide the ", channels, " input and ", c.out_channels, " output channels");
  // kernel_h * kernel_w fits in 64 bits. Each further product is checked before the next one is computed.
  const std::uint64_t taps = std::uint64_t{c.window.kernel_h} * c.window.kernel_w;
  const std::uint64_t a_group = channels / c.groups;
  const std::uint64_t size = c.weights.size();
  require(taps <= size && taps * a_group <= size && size / (taps * a_group) == c.out_channels &&
              size % (taps * a_group) == 0,
          "weights has ", size, " entries; ", c.out_channels, " x ", c.window.kernel_h, " x ",
          c.window.kernel_w, " x ", a_group, " are needed");
  require(c.bias.empty() || c.bias.size() == c.out_channels, "bias has ", c.bias.size(),
          " entries; give none or ", c.out_channels);
  require(is_legal(c.weight_type) && c.weight_type.is_integer() && c.weight_type.bits <= 16,
          "weight_type must be an integer of 1 to 16 bits");
  const std::vector<std::int16_t>& weights = c.weights;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!holds(c.weight_type, weights[i]))
      fail("weights[", i, "] = ", weights[i], " is not a value of ", to_string(c.weight_type));
  check_padding_value(c.window, in);
  check_accumulator(c, in.type);
  if (c.requantise) return check_requantise(*c.requantise, c.accumulator, out);
  require(out.type == c.accumulator, "output '", out.name,
          "' must have the accumulator's type, because requantise is not given");
}

void check(const MaxPool& p, const Tensor& in, const Tensor& out) {
  const Window& w = p.window;
  check_pooling(w, in, out);
  check_same(in.type == out.type, in, out, "the same type");
  require(
      every_window_sees_input(in.shape[0], w.pad_top, w.kernel_h, w.dilation_h, w.stride_h, out.shape[0]) &&
          every_window_sees_input(in.shape[1], w.pad_left, w.kernel_w, w.dilation_w, w.stride_w,
                                  out.shape[1]),
      "window: one position of the window lies entirely in the padding; use less padding");
}

void check(const SumPool& p, const Tensor& in, const Tensor& out) {
  check_pooling(p.window, in, out);
  check_padding_value(p.window, in);
  check_accumulator_type(p.accumulator);
  const Wide taps = Wide{p.window.kernel_h} * p.window.kernel_w;
  Extremes sums;
  sums.add(taps * in.type.lowest(), taps * in.type.highest());
  check_accumulator_fits(p.accumulator, sums, "");
  check_requantise(p.requantise, p.accumulator, out);
}

void check(const Rescale& r, const Tensor& in, const Tensor& out) {
  check_integer(in);
  check_same_shape(in, out);
  check_requantise(r.requantise, in.type, out);
}

void check_table(const std::vector<std::int16_t>& values, std::uint32_t bits, const Tensor& out) {
  require(values.size() == std::size_t{1} << bits, "table has ", values.size(), " entries; ",
          std::size_t{1} << bits, " are needed");
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!holds(out.type, values[i]))
      fail("table[", i, "] = ", values[i], " is not a value of ", to_string(out.type));
}

bool can_index(const Tensor& tensor) {
  return tensor.type.is_integer() && !is_bipolar(tensor) && tensor.type.bits <= 8;
}

void check(const Lookup& l, const Tensor& in, const Tensor& out) {
  check_integer(out);
  check_same_shape(in, out);
  require(can_index(in), "input '", in.name, "' must be a signed or unsigned integer of at most 8 bits");
  check_table(l.table, in.type.bits, out);
}

void check_add(const Add& add, const Tensor& a, const Tensor& b, const Tensor& out) {
  for (const Tensor* tensor : {&a, &b, &out}) check_integer(*tensor);
  check_same_shape(a, b);
  check_same_shape(a, out);
  if (!add.table.empty()) {
    require(can_index(a) && can_index(b),
            "table: both inputs must be signed or unsigned integers of at most 8 bits");
    return check_table(add.table, std::uint32_t{a.type.bits} + b.type.bits, out);
  }
  require(add.shift <= 62, "shift is above 62");
  check_clamp("", add.lowest, add.highest, out);
  require(!is_bipolar(out) || add.lowest == add.highest, "a bipolar output needs a table");
  const auto extremes = [](std::int32_t multiplier, ElementType type) {
    return std::minmax({Wide{multiplier} * type.lowest(), Wide{multiplier} * type.highest()});
  };
  const std::pair<Wide, Wide> from_a = extremes(add.multiplier_a, a.type);
  const std::pair<Wide, Wide> from_b = extremes(add.multiplier_b, b.type);
  // Also check the sum without the offset, so that implementations may add the terms in any order.
  for (const Wide offset : {Wide{0}, Wide{add.offset}})
    require(from_a.first + from_b.first + offset >= INT64_MIN &&
                from_a.second + from_b.second + offset <= INT64_MAX,
            "multiplier_a, multiplier_b and offset overflow 64 bits; use smaller values");
}

void check_concat(const Program& program, const Block& block, const Tensor& out) {
  require(!block.inputs.empty(), "inputs: at least one is needed");
  std::uint64_t joined = 0;
  for (const TensorIndex index : block.inputs) {
    const Tensor& in = program.tensors[index];
    check_same(in.type == out.type, in, out, "the same type");
    check_same(in.shape.size() == out.shape.size() &&
                   std::equal(in.shape.begin(), in.shape.end() - 1, out.shape.begin()),
               in, out, "equal leading dimensions");
    joined += in.shape.back();
  }
  require(joined == out.shape.back(), "output '", out.name, "' has ", out.shape.back(),
          " channels, but its inputs have ", joined);
}

void check(const Rearrange& r, const Tensor& in, const Tensor& out) {
  check_same(in.type == out.type, in, out, "the same type");
  require(r.strides.size() == r.extents.size(), "extents and strides must be of the same length");
  if (r.extents.empty()) {
    require(r.offset == 0, "offset is given, but there are no loops");
    return check_same(in.elements() == out.elements(), in, out, "as many elements");
  }
  require(r.extents.size() <= kMostLoops, "extents must have at most ", kMostLoops, " loops");
  Wide made = 1, lowest = r.offset, highest = r.offset;
  for (std::size_t k = 0; k < r.extents.size(); ++k) {
    require(r.extents[k] != 0, "extents[", k, "] is 0");
    made *= r.extents[k];
    require(made <= Wide{out.elements()}, "extents multiply to more than the ", out.elements(),
            " elements of '", out.name, "'");
    const Wide reach = Wide{r.extents[k] - 1} * r.strides[k];
    (reach < 0 ? lowest : highest) += reach;
  }
  require(made == Wide{out.elements()}, "extents do not multiply to the ", out.elements(), " elements of '",
          out.name, "'");
  require(lowest >= 0 && highest < Wide{in.elements()}, "offset and strides leave the ", in.elements(),
          " elements of '", in.name, "'");
}

void check_scales(const std::vector<float>& scale, const Tensor& tensor) {
  check_count("scale", scale.size(), tensor.shape.back());
  for (const float s : scale) require(std::isfinite(s) && s > 0, "scale must be finite and above 0");
}

void check(const Quantise& q, const Tensor& in, const Tensor& out) {
  check_float(in);
  require(out.type.is_integer() && !is_bipolar(out), "'", out.name,
          "' must be a signed or unsigned integer tensor");
  check_same_shape(in, out);
  check_scales(q.scale, in);
  require(out.type.bits <= 16 || out.type.bits == 32 || out.type.bits == 64, "output '", out.name,
          "' must have at most 16 bits, exactly 32 bits or exactly 64 bits");
  require(holds(out.type, q.zero_point), "zero_point ", q.zero_point, " is not a value of ",
          to_string(out.type));
}

void check(const Dequantise& d, const Tensor& in, const Tensor& out) {
  check_integer(in);
  check_float(out);
  check_same_shape(in, out);
  check_scales(d.scale, in);
  require(in.type.bits <= 32 || d.zero_point == 0, "zero_point must be 0 for int64");
}

void check(const Softmax&, const Tensor& in, const Tensor& out) {
  check_float(in);
  check_float(out);
  check_same_shape(in, out);
}

/// Checks an operator of the host: one input per operand of kind kTensor, each with as many elements as its shape.
void check_float_operator(const Program& program, const Block& block, const FloatOperator& op,
                          const Tensor& out) {
  require(op.operands.size() <= 1024, "operands: ", op.operands.size(), " given, at most 1024 possible");
  std::size_t next = 0;
  for (const FloatOperand& operand : op.operands) {
    if (operand.kind != FloatOperand::Kind::kTensor) continue;
    require(next < block.inputs.size(), "inputs: ", block.inputs.size(), " given, more operands are tensors");
    const Tensor& in = program.tensors[block.inputs[next++]];
    check_float(in);
    std::uint64_t elements = 1;
    for (const std::int64_t extent : operand.shape) {
      require(extent >= 1 && extent <= 0x7fffffff, "operands: an extent of ", extent, " is not possible");
      elements *= static_cast<std::uint64_t>(extent);
      require(elements <= 0x7fffffff, "operands: a shape holds too many elements");
    }
    require(elements == in.elements(), "operands: '", in.name,
            "' has more or fewer elements than the operand's shape");
  }
  require(next >= 1 && next == block.inputs.size(), "inputs: ", block.inputs.size(), " given, ", next,
          " needed");
  check_float(out);
  if (const std::string why = host::check(op); !why.empty()) fail(why);
  std::uint64_t elements = 1;
  for (const std::int64_t extent : op.shape) elements *= static_cast<std::uint64_t>(extent);
  require(elements == out.elements(), "output '", out.name,
          "' has more or fewer elements than the operator's shape");
}

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

void check_plugin_operator(const Program& program, const Block& block, const PluginOperator& op) {
  constexpr std::size_t kMostPorts = 16, kMostSettings = std::size_t{16} << 20U;
  require(is_word(op.plugin), "plugin: the name must have 1 to 64 of the characters A-Z a-z 0-9 _ - .");
  require(is_word(op.runner), "runner: the name must have 1 to 64 of the characters A-Z a-z 0-9 _ - .");
  require(op.library.size() == 64 && op.library.find_first_not_of("0123456789abcdef") == std::string::npos,
          "library: not a SHA-256 in 64 lower-case hexadecimal digits");
  require(op.settings.size() <= kMostSettings, "settings: has more than ", kMostSettings, " bytes");
  const auto check_ports = [&](const char* field, const std::vector<TensorIndex>& ports) {
    require(!ports.empty() && ports.size() <= kMostPorts, field, ": ", ports.size(), " given, 1 to ",
            kMostPorts, " needed");
    for (const TensorIndex i : ports) {
      const Tensor& tensor = program.tensors[i];
      require(tensor.type.is_integer(), field, ": '", tensor.name, "' is not a tensor of integers");
    }
  };
  check_ports("inputs", block.inputs);
  check_ports("outputs", block.outputs);
}

}  // namespace

void check_operation(const Program& program, const Block& block) {
  if (const auto* op = std::get_if<PluginOperator>(&block.operation))
    return check_plugin_operator(program, block, *op);
  require(block.outputs.size() == 1, "outputs: ", block.outputs.size(), " given, 1 needed");
  const Tensor& out = program.tensors[block.outputs[0]];
  if (std::holds_alternative<Concat>(block.operation)) return check_concat(program, block, out);
  if (const auto* op = std::get_if<FloatOperator>(&block.operation))
    return check_float_operator(program, block, *op, out);
  const auto* add = std::get_if<Add>(&block.operation);
  const std::size_t needed = add != nullptr ? 2 : 1;
  require(block.inputs.size() == needed, "inputs: ", block.inputs.size(), " given, ", needed, " needed");
  const Tensor& in = program.tensors[block.inputs[0]];
  if (add != nullptr) return check_add(*add, in, program.tensors[block.inputs[1]], out);
  std::visit(
      [&](const auto& op) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (!std::is_same_v<Op, Add> && !std::is_same_v<Op, Concat> &&
                      !std::is_same_v<Op, FloatOperator> && !std::is_same_v<Op, PluginOperator>)
          check(op, in, out);
      },
      block.operation);
}

}  // namespace millrace::kernels::checks
