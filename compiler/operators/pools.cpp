// The table entries of operators that compute maxima and averages over windows.
#include <algorithm>
#include <cmath>

#include "compiler/graph/graph.hpp"
#include "compiler/operators/qdq.hpp"

namespace millrace::compiler::operators {
namespace {

using graph::ResolvedWindow;
using graph::SumPool;
using kernels::Window;

std::string infer_pool(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const std::vector<std::int64_t> kernel = c.op.integers("kernel_shape", {});
  if (kernel.empty()) return "has no kernel_shape";
  for (const char* attribute : {"storage_order", "channels_last"})
    if (c.op.integer(attribute, 0) != 0)
      return std::string("has ") + attribute + " 1, which is not supported";
  std::string why;
  const auto window = graph::resolve_window(c.op, c.shape, kernel, why);
  if (!window) return why;
  c.shape = {c.shape[0], c.shape[1]};
  if (kernel.size() == 2) c.shape.push_back(window->out_h);
  c.shape.push_back(window->out_w);
  return {};
}

std::string infer_global_pool(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  if (c.shape.size() < 3) return "takes [N, C, spatial axes], but its input is " + to_string(c.shape);
  if (c.op.integer("channels_last", 0) != 0) return "has channels_last 1, which is not supported";
  std::fill(c.shape.begin() + 2, c.shape.end(), 1);
  return {};
}

/// Returns the node's window over the input [1, C, H, W] or [1, C, W]. If `global`, the window is the whole input.
std::optional<ResolvedWindow> window_of(const Site& site, bool global, std::string& why) {
  const Shape& x = site.in(0).shape;
  if (!global) return graph::resolve_window(site.op, x, site.op.integers("kernel_shape", {}), why);
  ResolvedWindow whole;
  whole.window.kernel_h = static_cast<std::uint32_t>(x.size() == 4 ? x[2] : 1);
  whole.window.kernel_w = static_cast<std::uint32_t>(x.back());
  whole.out_h = whole.out_w = 1;
  return whole;
}

Outcome lower_max(Site& site, bool global) {
  const Shape x = site.in(0).shape;
  if (x.size() != 3 && x.size() != 4) return "only one or two spatial axes are supported";
  if (x[0] != 1) return "its batch is " + std::to_string(x[0]) + ", not 1";
  std::string why;
  const auto window = window_of(site, global, why);
  if (!window) return why;
  const Window& g = window->window;
  const auto sees_only_padding = [](std::int64_t pad, std::int64_t kernel, std::int64_t dilation) {
    return pad > (kernel - 1) * dilation;
  };
  if (sees_only_padding(std::max(g.pad_top, g.pad_bottom), g.kernel_h, g.dilation_h) ||
      sees_only_padding(std::max(g.pad_left, g.pad_right), g.kernel_w, g.dilation_w))
    return "some of its windows lie wholly in the padding";
  if (x.size() == 4) return site.give(graph::MaxPool{g}, {site.node.inputs[0]});
  const Value result = site.result();
  const ValueId plane = site.graph.add_value(result.name + ".plane", result.type, {1, x[1], 1, x[2]});
  const ValueId pooled =
      site.graph.add_value(result.name + ".pooled", result.type, {1, x[1], 1, window->out_w});
  site.emit(Move{}, {site.node.inputs[0]}, plane, ".plane");
  site.emit(graph::MaxPool{g}, {plane}, pooled);
  site.emit(Move{}, {pooled}, site.node.outputs[0], ".line");
  return {};
}

/// Returns an average's window. If it is the whole input, sets `global`, as ONNX Runtime has a kernel for this case.
std::optional<Window> averaged(const Site& site, bool& global, std::string& why) {
  const Shape& x = site.in(0).shape;
  if (x.size() != 4 || x[0] != 1) {
    why = "only [1, C, H, W] is supported";
    return std::nullopt;
  }
  const auto window = window_of(site, global, why);
  if (!window) return std::nullopt;
  if (window->padded && site.op.integer("count_include_pad", 0) == 0) {
    why = "padding that is not counted is not supported; set count_include_pad to 1, or pads to 0";
    return std::nullopt;
  }
  const Window& g = window->window;
  global = g.kernel_h == x[2] && g.kernel_w == x[3] && !window->padded;
  return g;
}

float count_of(const Window& g) {
  return static_cast<float>(g.kernel_h * g.kernel_w);
}

/// Adds a note that ONNX Runtime's float32 average may round differently, unless `scale` is a power of two.
void note_inexact_average(Site& site, float scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) == 0.5F) return;
  site.graph.diagnostics.push_back({site.node.name,
                                    "computes an integer sum; ONNX Runtime adds in float32, so where its sum "
                                    "rounds a tie the result may differ by one step"});
}

/// Returns the chain from the sum of (x - zero) over the window to the quantised average, as QLinearAveragePool or (if
/// `global`) QLinearGlobalAveragePool computes it. `made_unsigned` says that ONNX Runtime converts int8 tensors to
/// uint8 by adding 128.
Chain average_chain(Site& site, const Window& window, bool global, float scale, const Step& quantise,
                    bool made_unsigned) {
  const float count = count_of(window), result_scale = quantise.floats[0];
  const std::int64_t zero = quantise.integers[0];
  if (global)
    return {{Step::to_float(), Step::multiply({scale / (result_scale * count)}),
             Step::quantise({1.0F}, zero, quantise.lowest, quantise.highest)}};
  // ONNX Runtime adds the zero point before it rounds, so a tie goes to the even result.
  note_inexact_average(site, scale);
  const std::int64_t shift = made_unsigned ? 128 : 0;
  return {{Step::dequantise({scale}, 0), Step::divide({count}), Step::divide({result_scale}),
           Step::add({static_cast<float>(zero + shift)}),
           Step::quantise({1.0F}, -shift, quantise.lowest, quantise.highest)}};
}

Outcome lower_average(Site& site, bool global) {
  std::string why;
  const auto x = activation(site, 0, why);
  if (!x) return why;
  const auto window = averaged(site, global, why);
  if (!window) return why;
  SumPool sum{*window, x->zero[0], {}};
  if (const auto quantiser = fused_quantiser(site, {x->q})) {
    sum.chain =
        average_chain(site, *window, global, x->scale[0], quantiser->quantise, quantiser->made_unsigned);
    absorb(site, *quantiser);
    site.emit(std::move(sum), {x->q}, quantiser->result);
    return {};
  }
  const Value result = site.result();
  const ValueId acc = site.graph.add_value(result.name + ".acc", Type::integer(32), result.shape);
  site.emit(std::move(sum), {x->q}, acc);
  const Chain chain{{Step::dequantise(x->scale, 0), Step::divide({count_of(*window)})}};
  site.emit(Elementwise{chain, -1}, {acc}, site.node.outputs[0], ".chain");
  note_inexact_average(site, x->scale[0]);
  return {};
}

constexpr Operator kPools[] = {{.type = "MaxPool",
                                .infer = infer_pool,
                                .lower_elementwise = [](Site& site) { return lower_max(site, false); }},
                               {.type = "GlobalMaxPool",
                                .infer = infer_global_pool,
                                .lower_elementwise = [](Site& site) { return lower_max(site, true); }},
                               {.type = "AveragePool",
                                .infer = infer_pool,
                                .lower_qdq = [](Site& site) { return lower_average(site, false); },
                                .computes = true},
                               {.type = "GlobalAveragePool",
                                .infer = infer_global_pool,
                                .lower_qdq = [](Site& site) { return lower_average(site, true); },
                                .computes = true}};

}  // namespace

std::span<const Operator> pools() {
  return kPools;
}

}  // namespace millrace::compiler::operators
