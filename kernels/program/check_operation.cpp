// Shapes, types and constants, block by block.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/program/checks.hpp"

namespace millrace::kernels::checks {
namespace {

constexpr std::uint32_t kLargestWindowField = 65535;

std::string arity(const Block& block, std::size_t inputs) {
  if (block.inputs.size() != inputs)
    return text("inputs: ", block.inputs.size(), " given, ", inputs, " needed");
  return {};
}

std::string same_shape(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape) return text("'", a.name, "' and '", b.name, "' must have the same shape");
  return {};
}

std::string integer(const Tensor& tensor) {
  if (!tensor.type.is_integer()) return text("'", tensor.name, "' must be an integer tensor");
  return {};
}

std::string float32(const Tensor& tensor) {
  if (tensor.type.is_integer()) return text("'", tensor.name, "' must be a float32 tensor");
  return {};
}

std::string first(std::initializer_list<std::string> findings) {
  for (const std::string& finding : findings) {
    if (!finding.empty()) return finding;
  }
  return {};
}

bool has_padding(const Window& w) {
  return w.pad_top != 0 || w.pad_left != 0 || w.pad_bottom != 0 || w.pad_right != 0;
}

std::string window(const Window& w, const Tensor& in, const Tensor& out) {
  if (in.shape.size() != 3)
    return text("input '", in.name, "' must have the shape [height, width, channels]");
  if (out.shape.size() != 3)
    return text("output '", out.name, "' must have the shape [height, width, channels]");
  for (const std::uint32_t field :
       {w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w}) {
    if (field == 0) return "window: kernel, stride and dilation must be at least 1";
  }
  for (const std::uint32_t field : {w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h,
                                    w.dilation_w, w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}) {
    if (field > kLargestWindowField) return text("window: ", field, " is above ", kLargestWindowField);
  }
  const std::uint32_t height = windowed_height(w, in.shape[0]);
  const std::uint32_t width = windowed_width(w, in.shape[1]);
  if (height == 0 || width == 0) return text("window does not fit into input '", in.name, "'");
  if (out.shape[0] != height || out.shape[1] != width) {
    return text("output '", out.name, "' is ", out.shape[0], " x ", out.shape[1], ", but the window gives ",
                height, " x ", width);
  }
  return {};
}

std::string padding_value(const Window& w, const Tensor& in) {
  if (has_padding(w) && !holds(in.type, w.pad_value)) {
    return text("window.pad_value ", w.pad_value, " is not a value of the input's type ", to_string(in.type));
  }
  return {};
}

std::string same_channels(const Tensor& in, const Tensor& out) {
  if (in.shape.back() != out.shape.back())
    return text("'", in.name, "' and '", out.name, "' must have the same number of channels");
  return {};
}

// Whether every window along one axis has a tap inside the input. The maximum over no elements has no value.
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

std::string check(const Convolution& c, const Tensor& in, const Tensor& out) {
  if (std::string wrong = first({integer(in), window(c.window, in, out)}); !wrong.empty()) return wrong;
  const std::uint32_t channels = in.shape[2];
  if (c.out_channels == 0 || c.out_channels != out.shape[2]) {
    return text("out_channels is ", c.out_channels, ", but output '", out.name, "' has ", out.shape[2]);
  }
  if (c.groups == 0 || channels % c.groups != 0 || c.out_channels % c.groups != 0) {
    return text("groups (", c.groups, ") must divide the ", channels, " input and ", c.out_channels,
                " output channels");
  }
  // kernel_h * kernel_w fits in 64 bits. Each further product is checked before the next one is computed.
  const std::uint64_t taps = std::uint64_t{c.window.kernel_h} * c.window.kernel_w;
  const std::uint64_t a_group = channels / c.groups;
  const std::uint64_t size = c.weights.size();
  if (taps > size || taps * a_group > size || size / (taps * a_group) != c.out_channels ||
      size % (taps * a_group) != 0) {
    return text("weights has ", size, " entries; ", c.out_channels, " x ", c.window.kernel_h, " x ",
                c.window.kernel_w, " x ", a_group, " are needed");
  }
  if (!c.bias.empty() && c.bias.size() != c.out_channels)
    return text("bias has ", c.bias.size(), " entries; give none or ", c.out_channels);
  if (!is_legal(c.weight_type) || !c.weight_type.is_integer() || c.weight_type.bits > 16) {
    return "weight_type must be an integer of 1 to 16 bits";
  }
  const std::vector<std::int16_t>& weights = c.weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!holds(c.weight_type, weights[i]))
      return text("weights[", i, "] = ", weights[i], " is not a value of ", to_string(c.weight_type));
  }
  if (std::string wrong = first({padding_value(c.window, in), accumulator(c, in.type)}); !wrong.empty())
    return wrong;
  if (c.requantise) return requantise(*c.requantise, range_of(c.accumulator), out);
  if (out.type != c.accumulator)
    return text("output '", out.name, "' must have the accumulator's type, for there is no requantise");
  return {};
}

std::string check(const MaxPool& p, const Tensor& in, const Tensor& out) {
  const Window& w = p.window;
  if (std::string wrong = first({integer(in), window(w, in, out), same_channels(in, out)}); !wrong.empty())
    return wrong;
  if (in.type != out.type) return text("'", in.name, "' and '", out.name, "' must have the same type");
  if (!every_window_sees_input(in.shape[0], w.pad_top, w.kernel_h, w.dilation_h, w.stride_h, out.shape[0]) ||
      !every_window_sees_input(in.shape[1], w.pad_left, w.kernel_w, w.dilation_w, w.stride_w, out.shape[1])) {
    return "window: some position lies wholly in the padding and has no largest element; use less padding";
  }
  return {};
}

std::string check(const SumPool& p, const Tensor& in, const Tensor& out) {
  if (std::string wrong = first(
          {integer(in), window(p.window, in, out), same_channels(in, out), padding_value(p.window, in)});
      !wrong.empty()) {
    return wrong;
  }
  return first({accumulator(p, in.type), requantise(p.requantise, range_of(p.accumulator), out)});
}

std::string check(const Rescale& r, const Tensor& in, const Tensor& out) {
  return first({integer(in), same_shape(in, out), requantise(r.requantise, range_of(in.type), out)});
}

std::string table(const std::vector<std::int16_t>& values, std::uint32_t bits, const Tensor& out) {
  if (values.size() != std::size_t{1} << bits)
    return text("table has ", values.size(), " entries; ", std::size_t{1} << bits, " are needed");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!holds(out.type, values[i]))
      return text("table[", i, "] = ", values[i], " is not a value of ", to_string(out.type));
  }
  return {};
}

bool can_index(ElementType type) {
  return type.is_integer() && type.kind != ElementType::Kind::kBipolar && type.bits <= 8;
}

std::string check(const Lookup& l, const Tensor& in, const Tensor& out) {
  if (std::string wrong = first({integer(out), same_shape(in, out)}); !wrong.empty()) return wrong;
  if (!can_index(in.type))
    return text("input '", in.name, "' must be a signed or unsigned integer of at most 8 bits");
  return table(l.table, in.type.bits, out);
}

std::string check(const Add& add, const Tensor& a, const Tensor& b, const Tensor& out) {
  if (std::string wrong = first({integer(a), integer(b), integer(out), same_shape(a, b), same_shape(a, out)});
      !wrong.empty())
    return wrong;
  if (!add.table.empty()) {
    if (!can_index(a.type) || !can_index(b.type))
      return "table needs two signed or unsigned inputs of at most 8 bits";
    return table(add.table, std::uint32_t{a.type.bits} + b.type.bits, out);
  }
  if (add.shift > 62) return "shift is above 62";
  if (add.lowest > add.highest) return "lowest is above highest";
  if (!holds(out.type, add.lowest) || !holds(out.type, add.highest)) {
    return text("lowest .. highest (", add.lowest, " .. ", add.highest, ") leaves the range of ",
                to_string(out.type));
  }
  if (out.type.kind == ElementType::Kind::kBipolar && add.lowest != add.highest)
    return "a bipolar output needs a table";
  using Wide = __int128;
  const auto extremes = [](std::int32_t multiplier, ElementType type) {
    return std::minmax({Wide{multiplier} * type.lowest(), Wide{multiplier} * type.highest()});
  };
  const std::pair<Wide, Wide> from_a = extremes(add.multiplier_a, a.type);
  const std::pair<Wide, Wide> from_b = extremes(add.multiplier_b, b.type);
  // Also check the sum without the offset, so that an implementation may add the terms in any order.
  for (const Wide offset : {Wide{0}, Wide{add.offset}}) {
    if (from_a.first + from_b.first + offset < INT64_MIN ||
        from_a.second + from_b.second + offset > INT64_MAX) {
      return "multiplier_a, multiplier_b and offset overflow 64 bits; use smaller ones";
    }
  }
  return {};
}

std::string check_concat(const Program& program, const Block& block, const Tensor& out) {
  if (block.inputs.empty()) return "inputs: at least one is needed";
  std::uint64_t joined = 0;
  for (const TensorIndex index : block.inputs) {
    const Tensor& in = program.tensors[index];
    if (in.type != out.type) return text("'", in.name, "' and '", out.name, "' must have the same type");
    if (in.shape.size() != out.shape.size() ||
        !std::equal(in.shape.begin(), in.shape.end() - 1, out.shape.begin())) {
      return text("'", in.name, "' and '", out.name, "' must have equal leading dimensions");
    }
    joined += in.shape.back();
  }
  if (joined != out.shape.back())
    return text("output '", out.name, "' has ", out.shape.back(), " channels, but its inputs have ", joined);
  return {};
}

std::string check(const Permute& p, const Tensor& in, const Tensor& out) {
  if (in.type != out.type) return text("'", in.name, "' and '", out.name, "' must have the same type");
  if (in.elements() != out.elements())
    return text("'", in.name, "' and '", out.name, "' must have as many elements");
  if (p.perm.empty() && p.dims.empty()) return {};
  if (p.dims.empty() || p.dims.size() > 8) return "dims must have 1 to 8 axes";
  Tensor seen;
  seen.shape = p.dims;
  if (seen.elements() != in.elements())
    return text("dims do not multiply to the ", in.elements(), " elements of '", in.name, "'");
  if (p.perm.empty()) return {};
  std::vector<bool> taken(p.dims.size());
  if (p.perm.size() != p.dims.size()) return "perm and dims must be of the same length";
  for (const std::uint32_t axis : p.perm) {
    if (axis >= taken.size() || taken[axis]) return "perm must name every axis of dims once";
    taken[axis] = true;
  }
  return {};
}

std::string scales(const std::vector<float>& scale, const Tensor& tensor) {
  if (scale.size() != 1 && scale.size() != tensor.shape.back()) {
    return text("scale has ", scale.size(), " entries; give one, or one per channel (", tensor.shape.back(),
                ")");
  }
  for (const float s : scale) {
    if (!std::isfinite(s) || !(s > 0)) return "scale must be finite and above 0";
  }
  return {};
}

std::string quantised(const Tensor& tensor) {
  if (!tensor.type.is_integer() || tensor.type.kind == ElementType::Kind::kBipolar) {
    return text("'", tensor.name, "' must be a signed or unsigned integer tensor");
  }
  return {};
}

std::string check(const Quantise& q, const Tensor& in, const Tensor& out) {
  if (std::string wrong = first({float32(in), quantised(out), same_shape(in, out), scales(q.scale, in)});
      !wrong.empty())
    return wrong;
  if (out.type.bits > 16) return text("output '", out.name, "' must have at most 16 bits");
  if (!holds(out.type, q.zero_point))
    return text("zero_point ", q.zero_point, " is not a value of ", to_string(out.type));
  return {};
}

std::string check(const Dequantise& d, const Tensor& in, const Tensor& out) {
  return first({integer(in), float32(out), same_shape(in, out), scales(d.scale, in)});
}

std::string check(const Softmax&, const Tensor& in, const Tensor& out) {
  return first({float32(in), float32(out), same_shape(in, out)});
}

}  // namespace

std::string operation(const Program& program, const Block& block) {
  if (block.outputs.size() != 1) return text("outputs: ", block.outputs.size(), " given, 1 needed");
  const Tensor& out = program.tensors[block.outputs[0]];
  if (std::holds_alternative<Concat>(block.operation)) return check_concat(program, block, out);
  if (const auto* add = std::get_if<Add>(&block.operation)) {
    if (std::string wrong = arity(block, 2); !wrong.empty()) return wrong;
    return check(*add, program.tensors[block.inputs[0]], program.tensors[block.inputs[1]], out);
  }
  if (std::string wrong = arity(block, 1); !wrong.empty()) return wrong;
  return std::visit(
      [&](const auto& op) -> std::string {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, Add> || std::is_same_v<Op, Concat>) {
          return {};
        } else {
          return check(op, program.tensors[block.inputs[0]], out);
        }
      },
      block.operation);
}

}  // namespace millrace::kernels::checks
