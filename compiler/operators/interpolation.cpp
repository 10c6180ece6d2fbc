// Resize and Upsample by linear interpolation, by whole factors. The weights of the elements that give a pixel are whole
// numbers over a common divisor, so the sum of products of integers is exact.
#include "compiler/operators/interpolation.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/operators/pad.hpp"
#include "compiler/operators/qdq.hpp"
#include "compiler/operators/selections.hpp"
#include "compiler/operators/transposed.hpp"

namespace millrace::compiler::operators {
namespace {

constexpr std::int64_t kLargestWeight = 127;  // weights have 8 bits

/// The interpolation along one axis. Position p of the convolution gives the pixels p * phases + phase, and its tap k reads
/// element p * stride - before + k. The elements before the first and behind the last one repeat these.
struct Axis {
  std::int64_t stride = 1, before = 0, behind = 0, positions = 1;
  std::vector<std::vector<std::int64_t>> weights{{1}};  // [phase][tap]; the sum of a phase is `divisor`
  std::int64_t divisor = 1;

  std::int64_t phases() const { return static_cast<std::int64_t>(weights.size()); }
  std::int64_t taps() const { return static_cast<std::int64_t>(weights[0].size()); }
};

/// An axis that becomes `factor` times as long. Pixel `phase` of an element lies (2 * phase + 1 - factor) / (2 * factor)
/// behind it or, if the pixels begin at the element (`aligned`), phase / factor.
Axis enlarged(std::int64_t factor, bool aligned) {
  Axis a;
  a.weights.clear();
  a.divisor = aligned ? factor : 2 * factor;
  a.before = aligned ? 0 : 1;
  a.behind = 1;
  for (std::int64_t phase = 0; phase < factor; ++phase) {
    const std::int64_t distance = aligned ? phase : 2 * phase + 1 - factor;
    const std::int64_t last = std::max<std::int64_t>(distance, 0),
                       first = std::max<std::int64_t>(-distance, 0);
    a.weights.push_back({a.divisor - first - last, last});
    if (!aligned) a.weights.back().insert(a.weights.back().begin(), first);
  }
  return a;
}

/// An axis of which every `factor`-th pixel is left: the element in the middle of `factor` elements, the mean of the two in
/// the middle, or the first element if the pixels begin at it (`aligned`).
Axis reduced(std::int64_t factor, bool aligned) {
  Axis a;
  a.stride = factor;
  const std::int64_t last = aligned ? 0 : factor / 2, first = aligned ? 0 : (factor - 1) / 2;
  a.weights = {std::vector<std::int64_t>(static_cast<std::size_t>(last + 1), 0)};
  ++a.weights[0][static_cast<std::size_t>(first)];
  if (last != first) ++a.weights[0][static_cast<std::size_t>(last)];
  a.divisor = last == first ? 1 : 2;
  return a;
}

/// Divides the weights and their divisor by their common factor.
void simplify(Axis& a) {
  std::int64_t common = a.divisor;
  for (const auto& phase : a.weights)
    for (const std::int64_t w : phase) common = std::gcd(common, w);
  a.divisor /= common;
  for (auto& phase : a.weights)
    for (std::int64_t& w : phase) w /= common;
}

/// Returns the interpolation of rows and columns. Returns nothing after setting `why` if hardware cannot interpolate so.
std::optional<std::array<Axis, 2>> axes_of(const Form& form, Shape& sizes, std::string& why) {
  const OnnxOperator& op = form.op;
  std::vector<float> scales;
  why = resized(form, scales, sizes);
  if (!why.empty()) return std::nullopt;
  const Shape& in = form.shape();
  const bool is_old = op.type == "Upsample" || op.opset < 11;
  const std::string mode = is_old ? "asymmetric" : op.text("coordinate_transformation_mode", "half_pixel");
  const bool aligned = mode == "asymmetric";
  if (!aligned && mode != "half_pixel" && mode != "pytorch_half_pixel" && mode != "half_pixel_symmetric")
    why = "interpolates with the coordinate_transformation_mode '" + mode + "'";
  if (op.integer("antialias", 0) != 0 || op.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    why = "has antialias or a keep_aspect_ratio_policy, which are not supported";
  if (in.size() < 3 || in.size() > 4 || in[0] != 1 || sizes[0] != 1 || sizes[1] != in[1])
    why = "interpolates other axes than rows and columns, or its batch is not 1";
  std::array<Axis, 2> axes;
  for (std::size_t i = 2; i < in.size() && why.empty(); ++i) {
    const std::int64_t from = in[i], to = sizes[i];
    if (scales[i] != static_cast<float>(to) / static_cast<float>(from) ||
        (to % from != 0 && from % to != 0) || (mode == "pytorch_half_pixel" && to == 1 && from > 1)) {
      why = "interpolates an axis by a factor that is not a whole number";
      break;
    }
    if (std::max(to / from, from / to) > kLargestWeight) {
      why = "interpolates by factors that are too large";
      break;
    }
    Axis& a = axes[4 - in.size() + i - 2];
    if (to != from) a = to > from ? enlarged(to / from, aligned) : reduced(from / to, aligned);
    simplify(a);
    a.positions = std::min(from, to);
  }
  const auto largest = [](const Axis& a) {
    std::int64_t most = 0;
    for (const auto& phase : a.weights) most = std::max(most, *std::max_element(phase.begin(), phase.end()));
    return most;
  };
  if (why.empty() && largest(axes[0]) * largest(axes[1]) > kLargestWeight)
    why = "interpolates by factors that are too large";
  return why.empty() ? std::optional(axes) : std::nullopt;
}

Form form_of(const OnnxOperator& op, const Graph& graph, const Node& node) {
  Form form{op, {}};
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    form.in.push_back(has_input(node, i) ? &graph.value(node.inputs[i]) : nullptr);
  return form;
}

/// The weights of the convolution: [channel][phase y][phase x][tap y][tap x].
std::shared_ptr<const Constant> weights_of(std::int64_t channels, const Axis& y, const Axis& x) {
  Constant c;
  for (std::int64_t i = 0; i < channels; ++i)
    for (const auto& rows : y.weights)
      for (const auto& columns : x.weights)
        for (const std::int64_t row : rows)
          for (const std::int64_t column : columns) c.integers.push_back(row * column);
  return std::make_shared<const Constant>(std::move(c));
}

}  // namespace

bool is_linear(const OnnxOperator& op) {
  const bool resizes = op.domain == kOnnx && (op.type == "Resize" || op.type == "Upsample");
  return resizes && op.text("mode", "nearest") == "linear";
}

std::string infer_linear(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  std::string why;
  axes_of(form_of(c.op, c.graph, c.node), c.shape, why);
  return why;
}

Outcome lower_linear(Site& site) {
  std::string why;
  Shape sizes;
  const auto axes = axes_of(form_of(site.op, site.graph, site.node), sizes, why);
  if (!axes) return why;
  const auto x = activation(site, 0, why);
  if (!x) return why;
  const auto& [rows, columns] = *axes;
  const Shape in = site.in(0).shape;
  const std::int64_t channels = in[1], pixels = rows.phases() * columns.phases();
  if (channels * pixels > kMostElements / (rows.taps() * columns.taps()))
    return "the node would become a convolution with too many weights";
  ValueId plane = in.size() == 3 ? site.move(x->q, {}, {1, channels, 1, in[2]}, ".plane") : x->q;
  plane = extended(site, plane, 3, columns.before, columns.behind, Border::kEdge);
  plane = extended(site, plane, 2, rows.before, rows.behind, Border::kEdge);

  graph::Accumulate sum;
  sum.window.kernel_h = static_cast<std::uint32_t>(rows.taps());
  sum.window.kernel_w = static_cast<std::uint32_t>(columns.taps());
  sum.window.stride_h = static_cast<std::uint32_t>(rows.stride);
  sum.window.stride_w = static_cast<std::uint32_t>(columns.stride);
  sum.groups = channels;
  sum.out_channels = channels * pixels;
  sum.weight_type = Type::integer(8);
  sum.weights = weights_of(channels, rows, columns);
  sum.weight_zero = {0};
  sum.input_zero = x->zero[0];
  const ValueId sums = site.graph.add_value(site.result().name + ".acc", Type::integer(32),
                                            {1, sum.out_channels, rows.positions, columns.positions});
  site.emit(std::move(sum), {plane}, sums);
  const auto divisor = static_cast<float>(rows.divisor * columns.divisor);
  emit_pixels(site, sums, {{Step::dequantise({x->scale[0] / divisor}, 0)}}, rows.phases(), columns.phases());
  note_inexact_sum(site, x->scale[0] / divisor);
  return {};
}

}  // namespace millrace::compiler::operators
