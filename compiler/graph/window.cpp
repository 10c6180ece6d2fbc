#include "compiler/graph/graph.hpp"

#include <algorithm>

namespace millrace::compiler::graph {
namespace {

constexpr std::int64_t kMostExtent = 65535;  // the largest field of a kernels::Window

struct Axis {
  std::int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, out = 0;
};

/// Computes `before`, `after` and `out` of an axis. Returns false if no window fits into the input.
bool resolve_axis(Axis& a, std::int64_t extent, const std::string& auto_pad, bool ceil_mode) {
  const std::int64_t reach = (a.kernel - 1) * a.dilation + 1;
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    a.out = (extent + a.stride - 1) / a.stride;
    const std::int64_t total = std::max<std::int64_t>(0, (a.out - 1) * a.stride + reach - extent);
    a.before = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    a.after = total - a.before;
    return true;
  }
  if (auto_pad == "VALID") a.before = a.after = 0;
  const std::int64_t room = extent + a.before + a.after - reach;
  if (room < 0) return false;
  a.out = room / a.stride + 1;
  // ceil_mode adds a window, unless that window would start in the padding behind the input.
  if (ceil_mode && room % a.stride != 0 && a.out * a.stride < extent + a.before) {
    a.after += a.stride - room % a.stride;
    ++a.out;
  }
  return true;
}

/// Resolves the attributes of all spatial axes. If the window is not valid, the result is empty and `why` has the reason.
std::optional<std::vector<Axis>> resolve_axes(const OnnxOperator& op, const Shape& input,
                                              const std::vector<std::int64_t>& kernel, std::string& why) {
  const auto fail = [&why](std::string text) {
    why = std::move(text);
    return std::nullopt;
  };
  const std::size_t n = kernel.size();
  const std::vector<std::int64_t> strides = op.integers("strides", std::vector<std::int64_t>(n, 1));
  const std::vector<std::int64_t> dilations = op.integers("dilations", std::vector<std::int64_t>(n, 1));
  const std::vector<std::int64_t> pads = op.integers("pads", std::vector<std::int64_t>(2 * n, 0));
  if (strides.size() != n || dilations.size() != n || pads.size() != 2 * n)
    return fail("has strides, dilations or pads of the wrong length");
  const std::string auto_pad = op.text("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER")
    return fail("has the unknown auto_pad '" + auto_pad + "'");
  std::vector<Axis> axes(n);
  for (std::size_t i = 0; i < n; ++i) {
    Axis& a = axes[i];
    a = {kernel[i], strides[i], dilations[i], pads[i], pads[n + i], 0};
    const auto sane = [](std::int64_t x, std::int64_t least) { return x >= least && x <= kMostExtent; };
    if (!sane(a.kernel, 1) || !sane(a.stride, 1) || !sane(a.dilation, 1) || !sane(a.before, 0) ||
        !sane(a.after, 0))
      return fail("has a window, stride, dilation or pad that is negative, zero or too large");
    if (!resolve_axis(a, input[2 + i], auto_pad, op.integer("ceil_mode", 0) != 0))
      return fail("has a window larger than its padded input of " + to_string(input));
  }
  return axes;
}

}  // namespace

std::optional<std::vector<std::int64_t>> windowed_extents(const OnnxOperator& op, const Shape& input,
                                                          const std::vector<std::int64_t>& kernel,
                                                          std::string& why) {
  if (kernel.empty() || input.size() != kernel.size() + 2) {
    why = "has a window of " + std::to_string(kernel.size()) + " axes for an input of " + to_string(input);
    return std::nullopt;
  }
  const auto axes = resolve_axes(op, input, kernel, why);
  if (!axes) return std::nullopt;
  std::vector<std::int64_t> extents;
  for (const Axis& a : *axes) extents.push_back(a.out);
  return extents;
}

std::optional<ResolvedWindow> resolve_window(const OnnxOperator& op, const Shape& input,
                                             const std::vector<std::int64_t>& kernel, std::string& why) {
  const std::size_t n = kernel.size();
  if (n < 1 || n > 2 || input.size() != n + 2) {
    why =
        "takes one or two spatial axes, "
        "but this node has an input of " +
        to_string(input);
    return std::nullopt;
  }
  const auto resolved = resolve_axes(op, input, kernel, why);
  if (!resolved) return std::nullopt;
  Axis axes[2];
  std::copy(resolved->begin(), resolved->end(), axes + 2 - n);
  if (n == 1) axes[0].out = 1;
  ResolvedWindow w;
  const auto narrow = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  const Axis &y = axes[0], &x = axes[1];
  w.window = {narrow(y.kernel),   narrow(x.kernel), narrow(y.stride), narrow(x.stride), narrow(y.dilation),
              narrow(x.dilation), narrow(y.before), narrow(x.before), narrow(y.after),  narrow(x.after)};
  w.out_h = y.out;
  w.out_w = x.out;
  w.padded = y.before + y.after + x.before + x.after != 0;
  return w;
}

}  // namespace millrace::compiler::graph
