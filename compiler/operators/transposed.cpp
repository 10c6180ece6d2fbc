// ConvTranspose: one convolution whose output channels are the pixels of a stride x stride square, and a move that puts
// these pixels side by side.
#include "compiler/operators/transposed.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/operators/qdq.hpp"

namespace millrace::compiler::operators {
namespace {

constexpr std::int64_t kMostExtent = 65535;

/// One spatial axis of a ConvTranspose. Output pixel o and tap k read input pixel i where o = i * stride - before + k *
/// dilation.
struct Axis {
  std::int64_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, out = 1;
};

/// The convolution along one axis. Its position p computes the pixels p * stride + phase, for all phases.
struct Phases {
  std::int64_t kernel = 1, before = 0, after = 0;
  std::int64_t positions = 1;
  std::vector<std::vector<std::int64_t>>
      taps;  // [phase][tap of the convolution]: tap of the ConvTranspose, or -1
};

/// The node's spatial axes; [C, W] counts as [C, 1, W]. Sets `why` if they make no sense.
std::array<Axis, 2> axes_of(const OnnxOperator& op, const Shape& x, const Shape& w, std::string& why) {
  const std::size_t n = x.size() - 2;
  std::array<Axis, 2> axes;
  const auto list = [&](const char* name, std::size_t count, std::int64_t otherwise, std::int64_t least) {
    std::vector<std::int64_t> values = op.integers(name, std::vector<std::int64_t>(count, otherwise));
    if (values.size() != count) why = std::string("has ") + name + " of the wrong length";
    values.resize(count, otherwise);
    for (const std::int64_t v : values)
      if (v < least || v > kMostExtent)
        why = std::string("has ") + name + " that are negative, zero or absurd";
    return values;
  };
  const auto strides = list("strides", n, 1, 1), dilations = list("dilations", n, 1, 1),
             pads = list("pads", 2 * n, 0, 0), extra = list("output_padding", n, 0, 0),
             wanted = list("output_shape", n, 0, 0);
  const std::string mode = op.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    why = "has the unknown auto_pad '" + mode + "'";
  for (std::size_t i = 0; i < n && why.empty(); ++i) {
    Axis& a = axes[2 - n + i];
    a = {x[2 + i], w[2 + i], strides[i], dilations[i], pads[i], 0};
    if (a.kernel > kMostExtent || a.in > kMostExtent) why = "has an absurd window or input";
    const std::int64_t full = (a.in - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 + extra[i];
    std::int64_t after = pads[n + i];
    if (wanted[i] > 0 || mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const std::int64_t total =
          std::max<std::int64_t>(0, full - (wanted[i] > 0 ? wanted[i] : a.in * a.stride));
      a.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - a.before;
    }
    a.out = full - a.before - after;
    if (a.out < 1) why = "has pads that leave no output";
  }
  return axes;
}

std::string infer_conv_transpose(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  if (std::string why = need(c, 2); !why.empty()) return why;
  const Shape &x = c.shape_of(0), &w = c.shape_of(1);
  const std::int64_t groups = c.op.integer("group", 1);
  if (x.size() < 3 || x.size() > 4 || w.size() != x.size())
    return "takes one or two spatial axes, "
           "but this node has an input of " +
           to_string(x);
  if (groups < 1 || groups > kMostExtent || w[0] != x[1] || w[0] % groups != 0 || w[1] < 1)
    return "has " + std::to_string(groups) + " groups, weights of " + to_string(w) + " and an input of " +
           to_string(x) + ", which do not fit";
  if (c.op.has("kernel_shape") && c.op.integers("kernel_shape", {}) != Shape(w.begin() + 2, w.end()))
    return "has a kernel_shape that differs from the shape of its weights";
  if (c.has(2) && (!c.in(2).type.is_float() || c.shape_of(2) != Shape{w[1] * groups}))
    return "has a bias of the wrong type or shape";
  std::string why;
  const auto axes = axes_of(c.op, x, w, why);
  if (!why.empty()) return why;
  c.shape = {x[0], w[1] * groups};
  for (std::size_t i = 4 - x.size(); i < 2; ++i) c.shape.push_back(axes[i].out);
  return {};
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// The convolution's taps along an axis. If the output's extent is no multiple of the stride, the last position computes
/// more pixels than the output has.
Phases phases_of(const Axis& a) {
  // Pixel `phase` of position p reads input pixel p + distance / stride through tap k, if the stride divides the
  // distance.
  const auto distance = [&a](std::int64_t f, std::int64_t k) { return f + a.before - k * a.dilation; };
  std::int64_t low = 0, high = 0;
  for (std::int64_t f = 0; f < a.stride; ++f)
    for (std::int64_t k = 0; k < a.kernel; ++k)
      if (distance(f, k) % a.stride == 0) {
        low = std::min(low, distance(f, k) / a.stride);
        high = std::max(high, distance(f, k) / a.stride);
      }
  Phases p;
  p.positions = (a.out + a.stride - 1) / a.stride;
  p.before = -low;
  // If the input has rows that the output does not need, extend the kernel by taps with zero weights that read these
  // rows.
  high = std::max(high, a.in - p.positions);
  p.kernel = high - low + 1;
  p.after = p.positions + high - a.in;
  p.taps.assign(static_cast<std::size_t>(a.stride),
                std::vector<std::int64_t>(static_cast<std::size_t>(p.kernel), -1));
  for (std::int64_t f = 0; f < a.stride; ++f)
    for (std::int64_t k = 0; k < a.kernel; ++k)
      if (distance(f, k) % a.stride == 0)
        p.taps[static_cast<std::size_t>(f)]
              [static_cast<std::size_t>(floor_div(distance(f, k), a.stride) - low)] = k;
  return p;
}

/// The operator's weights and shape.
struct Weights {
  const std::vector<std::int64_t>& values;  // [C][O / groups][kh][kw]
  const std::vector<std::int64_t>& zero;    // one, or one for each output channel
  std::int64_t in, out, groups, kernel_h, kernel_w;

  std::int64_t at(std::int64_t o, std::int64_t i, std::int64_t ky, std::int64_t kx) const {
    if (ky < 0 || kx < 0) return graph::pick(zero, static_cast<std::size_t>(o));  // counts as 0
    const std::int64_t each = out / groups, c = o / each * (in / groups) + i;
    return values[static_cast<std::size_t>(((c * each + o % each) * kernel_h + ky) * kernel_w + kx)];
  }
};

/// The convolution's weights: [O][phase y][phase x][C / groups][kernel y][kernel x].
std::shared_ptr<const Constant> unfold(const Weights& w, const Phases& y, const Phases& x) {
  Constant c;
  for (std::int64_t o = 0; o < w.out; ++o)
    for (const auto& rows : y.taps)
      for (const auto& columns : x.taps)
        for (std::int64_t i = 0; i < w.in / w.groups; ++i)
          for (const std::int64_t ky : rows)
            for (const std::int64_t kx : columns) c.integers.push_back(w.at(o, i, ky, kx));
  return std::make_shared<const Constant>(std::move(c));
}

template <class T>
std::vector<T> repeated(const std::vector<T>& values, std::int64_t times) {
  if (values.size() <= 1) return values;
  std::vector<T> result;
  for (const T& v : values) result.insert(result.end(), static_cast<std::size_t>(times), v);
  return result;
}

template <class T>
std::vector<T> tiled(const std::vector<T>& values, std::int64_t times) {
  if (values.size() <= 1) return values;
  std::vector<T> result;
  for (std::int64_t i = 0; i < times; ++i) result.insert(result.end(), values.begin(), values.end());
  return result;
}

Outcome lower_conv_transpose(Site& site) {
  std::string why;
  const auto x = activation(site, 0, why);
  if (!x) return why;
  auto w = weights(site, 1, 1, why);
  if (!w) return why;
  const Shape in = site.in(0).shape, kernel = site.in(1).shape;
  const Value q = site.graph.value(w->q);
  const std::int64_t groups = site.op.integer("group", 1), out = kernel[1] * groups;
  // The weights' scales and zero points run along the output channels of a group, equal in all groups.
  w->scale = tiled(w->scale, groups);
  w->zero = tiled(w->zero, groups);
  if (in[0] != 1) return "its batch is " + std::to_string(in[0]) + ", not 1";
  if (site.graph.value(x->q).type.bits > 16 || q.type.bits > 16) return "its operands have more than 16 bits";
  const auto axes = axes_of(site.op, in, kernel, why);
  const Phases rows = phases_of(axes[0]), columns = phases_of(axes[1]);
  const std::int64_t pixels = axes[0].stride * axes[1].stride;
  const std::int64_t taps = in[1] / groups * rows.kernel * columns.kernel;
  if (std::max(rows.kernel, columns.kernel) > kMostExtent || taps > kMostElements / (out * pixels))
    return "the node would become a convolution with too many weights";
  std::vector<float> scale;
  for (const float s : w->scale) scale.push_back(x->scale[0] * s);
  // If the model states dequantisers and quantisers explicitly (Step::written), the bias is added as a float after the
  // sum.
  const bool written = x->written || w->written;
  auto b = written ? std::optional(std::vector<std::int64_t>()) : bias(site, 2, scale, out, why);
  const auto floats =
      written && site.has(2) ? float_bias(site, 2, out, why) : std::optional(std::vector<float>());
  if (!b || !floats) return why;

  graph::Accumulate a;
  a.window.kernel_h = static_cast<std::uint32_t>(rows.kernel);
  a.window.kernel_w = static_cast<std::uint32_t>(columns.kernel);
  a.window.pad_top = static_cast<std::uint32_t>(rows.before);
  a.window.pad_bottom = static_cast<std::uint32_t>(rows.after);
  a.window.pad_left = static_cast<std::uint32_t>(columns.before);
  a.window.pad_right = static_cast<std::uint32_t>(columns.after);
  a.groups = groups;
  a.out_channels = out * pixels;
  a.weight_type = q.type;
  a.weights = unfold({q.constant->integers, w->zero, in[1], out, groups, axes[0].kernel, axes[1].kernel},
                     rows, columns);
  a.weight_zero = repeated(w->zero, pixels);
  a.input_zero = x->zero[0];
  a.bias = repeated(*b, pixels);
  if (out == 1 && !b->empty()) a.bias.assign(static_cast<std::size_t>(pixels), b->front());
  Step dequantise = Step::dequantise(repeated(scale, pixels), 0);
  dequantise.accumulator = true;
  dequantise.written = written;
  Chain chain{{std::move(dequantise)}};
  if (!floats->empty()) chain.steps.push_back(Step::add(repeated(*floats, pixels)));
  const ValueId plane = in.size() == 3 ? site.move(x->q, {}, {1, in[1], 1, in[2]}, ".plane") : x->q;
  const ValueId sums = site.graph.add_value(site.result().name + ".acc", Type::integer(32),
                                            {1, a.out_channels, rows.positions, columns.positions});
  site.emit(std::move(a), {plane}, sums);
  emit_pixels(site, sums, std::move(chain), axes[0].stride, axes[1].stride);
  return {};
}

constexpr Operator kTransposed[] = {{.type = "ConvTranspose",
                                     .infer = infer_conv_transpose,
                                     .lower_qdq = lower_conv_transpose,
                                     .computes = true,
                                     .limits = "one or two spatial axes; groups, strides, dilations, "
                                               "output_padding and output_shape; constant weights"}};

}  // namespace

void emit_pixels(Site& site, ValueId sums, Chain chain, std::int64_t h, std::int64_t w) {
  const Value result = site.result();
  const Shape from = site.graph.value(sums).shape;
  const std::int64_t channels = from[1] / (h * w), rows = from[2] * h, columns = from[3] * w;
  const ValueId floats = site.graph.add_value(result.name + ".floats", result.type, from);
  const std::int64_t axis = chain.channels() > 1 ? 1 : -1;
  site.emit(Elementwise{std::move(chain), axis}, {sums}, floats, ".chain");
  const ValueId split = site.move(floats, {}, {1, channels, h, w, from[2], from[3]}, ".phases");
  const ValueId pixels =
      site.move(split, {0, 1, 4, 2, 5, 3}, {1, channels, from[2], h, from[3], w}, ".pixels");
  const std::int64_t out_h = result.shape.size() == 4 ? result.shape[2] : 1, out_w = result.shape.back();
  if (out_h == rows && out_w == columns) {
    site.emit(Move{}, {pixels}, site.node.outputs[0], ".image");
    return;
  }
  const ValueId image = site.move(pixels, {}, {1, channels, rows, columns}, ".image");
  const auto narrow = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  kernels::Rearrange loops;
  loops.extents = {narrow(channels), narrow(out_h), narrow(out_w)};
  loops.strides = {rows * columns, columns, 1};
  const ValueId cropped =
      site.graph.add_value(result.name + ".cropped", result.type, {1, channels, out_h, out_w});
  site.emit(graph::Select{std::move(loops)}, {image}, cropped, ".crop");
  site.emit(Move{}, {cropped}, site.node.outputs[0], ".move");
}

std::span<const Operator> transposed() {
  return kTransposed;
}

}  // namespace millrace::compiler::operators
