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
  const auto extents = graph::windowed_extents(c.op, c.shape, kernel, why);
  if (!extents) return why;
  c.shape = {c.shape[0], c.shape[1]};
  c.shape.insert(c.shape.end(), extents->begin(), extents->end());
  return {};
}

std::string infer_global_pool(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  if (c.shape.size() < 3)
    return "takes an input of shape [N, C, spatial axes], but the shape of its input is " +
           to_string(c.shape);
  if (c.op.integer("channels_last", 0) != 0) return "has channels_last 1, which is not supported";
  std::fill(c.shape.begin() + 2, c.shape.end(), 1);
  return {};
}

/// Returns the shape [1, C, H, W] to which a pool's input [1, C, ...] is reshaped. An input with one spatial axis
/// becomes a plane with one row. If the whole input is pooled (`global`), all spatial axes become one row.
Shape plane_of(const Shape& x, bool global) {
  if (x.size() == 4) return x;
  return {x[0], x[1], 1, global ? elements({x.begin() + 2, x.end()}) : x.back()};
}

/// Why a pool with this input is not supported, or an empty text.
std::string refused_input(const Shape& x, bool global) {
  if (x.size() < 3 || (x.size() > 4 && !global)) return "only one or two spatial axes are supported";
  return x[0] == 1 ? "" : "its batch is " + std::to_string(x[0]) + ", not 1";
}

/// The node's window over the spatial axes of the input. If `global`, the window covers the whole input.
std::optional<ResolvedWindow> window_of(const Site& site, bool global, std::string& why) {
  const Shape x = global ? plane_of(site.in(0).shape, true) : site.in(0).shape;
  if (!global) return graph::resolve_window(site.op, x, site.op.integers("kernel_shape", {}), why);
  ResolvedWindow whole;
  whole.window.kernel_h = static_cast<std::uint32_t>(x.size() == 4 ? x[2] : 1);
  whole.window.kernel_w = static_cast<std::uint32_t>(x.back());
  whole.out_h = whole.out_w = 1;
  return whole;
}

Outcome lower_max(Site& site, bool global) {
  const Shape x = site.in(0).shape;
  if (std::string refused = refused_input(x, global); !refused.empty()) return refused;
  std::string why;
  const auto window = window_of(site, global, why);
  if (!window) return why;
  const Window& g = window->window;
  const auto sees_only_padding = [](std::int64_t pad, std::int64_t kernel, std::int64_t dilation) {
    return pad > (kernel - 1) * dilation;
  };
  if (sees_only_padding(std::max(g.pad_top, g.pad_bottom), g.kernel_h, g.dilation_h) ||
      sees_only_padding(std::max(g.pad_left, g.pad_right), g.kernel_w, g.dilation_w))
    return "some of its windows lie wholly in the padding; use less padding";
  if (x.size() == 4) return site.give(graph::MaxPool{g}, {site.node.inputs[0]});
  const Value result = site.result();
  const ValueId plane = site.graph.add_value(result.name + ".plane", result.type, plane_of(x, global));
  const ValueId pooled =
      site.graph.add_value(result.name + ".pooled", result.type, {1, x[1], 1, window->out_w});
  site.emit(Move{}, {site.node.inputs[0]}, plane, ".plane");
  site.emit(graph::MaxPool{g}, {plane}, pooled);
  site.emit(Move{}, {pooled}, site.node.outputs[0], ".line");
  return {};
}

/// Returns the divisors of an average: one for each position of the window, row by row. Padding counts only if
/// count_include_pad is 1, and what ceil_mode adds behind the padding never counts.
std::vector<float> divisors(const OnnxOperator& op, const Shape& x, const ResolvedWindow& window) {
  const Window& g = window.window;
  OnnxOperator plain = op;
  plain.attributes.erase("ceil_mode");
  std::string why;
  const bool counts_padding = op.integer("count_include_pad", 0) != 0;
  const auto without = graph::resolve_window(plain, x, op.integers("kernel_shape", {}), why);
  // Returns how many taps of a window along one axis count in the average's divisor.
  const auto counted = [counts_padding](std::int64_t at, std::int64_t kernel, std::int64_t dilation,
                                        std::int64_t before, std::int64_t extent, std::int64_t after) {
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t position = at - before + k * dilation;
      const bool inside = counts_padding ? position < extent + after : position >= 0 && position < extent;
      count += inside ? 1 : 0;
    }
    return count;
  };
  const std::int64_t height = x.size() == 4 ? x[2] : 1;
  std::vector<float> result;
  for (std::int64_t oy = 0; oy < window.out_h; ++oy)
    for (std::int64_t ox = 0; ox < window.out_w; ++ox)
      result.push_back(static_cast<float>(counted(oy * g.stride_h, g.kernel_h, g.dilation_h, g.pad_top,
                                                  height, without ? without->window.pad_bottom : 0) *
                                          counted(ox * g.stride_w, g.kernel_w, g.dilation_w, g.pad_left,
                                                  x.back(), without ? without->window.pad_right : 0)));
  return result;
}

/// Returns the window of an average. Sets `global` if the window is the whole input, because ONNX Runtime has another
/// kernel for that case.
std::optional<ResolvedWindow> averaged(const Site& site, bool& global, std::string& why) {
  const Shape& x = site.in(0).shape;
  why = refused_input(x, global);
  if (!why.empty()) return std::nullopt;
  const auto window = window_of(site, global, why);
  if (!window) return std::nullopt;
  const Window& g = window->window;
  const Shape plane = plane_of(x, global);
  global = g.kernel_h == plane[2] && g.kernel_w == plane[3] && !window->padded;
  return window;
}

float count_of(const Window& g) {
  return static_cast<float>(g.kernel_h * g.kernel_w);
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
  note_inexact_sum(site, scale);
  const std::int64_t shift = made_unsigned ? 128 : 0;
  return {{Step::dequantise({scale}, 0), Step::divide({count}), Step::divide({result_scale}),
           Step::add({static_cast<float>(zero + shift)}),
           Step::quantise({1.0F}, -shift, quantise.lowest, quantise.highest)}};
}

/// Returns the quantiser that ONNX Runtime computes together with an average of `x`, if there is one. ONNX Runtime has no
/// quantised kernel for averages with dilations.
std::optional<FusedQuantiser> quantiser_of_average(const Site& site, ValueId x) {
  for (const std::int64_t dilation : site.op.integers("dilations", {}))
    if (dilation != 1) return std::nullopt;
  return fused_quantiser(site, {x});
}

/// Emits the sum over a window of the integers `x`, a plane of shape `plane`. `result` has the sum's elements, in any
/// shape.
void emit_sum(Site& site, SumPool sum, ValueId x, const Shape& plane, const ResolvedWindow& window,
              ValueId result) {
  const Value to = site.graph.value(result);
  const Shape pooled = {1, plane[1], window.out_h, window.out_w};
  const ValueId from = site.graph.value(x).shape == plane ? x : site.move(x, {}, plane, ".plane");
  if (to.shape == pooled) {
    site.emit(std::move(sum), {from}, result);
    return;
  }
  const ValueId sums = site.graph.add_value(to.name + ".pooled", to.type, pooled);
  copy_meaning(site.graph, result, sums);
  site.emit(std::move(sum), {from}, sums);
  site.emit(Move{}, {sums}, result, ".shape");
}

/// Lowers an average whose divisor depends on the position: the sum is a depthwise convolution with weights of 1, and
/// every element of the result has a requantisation of its own.
Outcome lower_uneven_average(Site& site, const Dequantised& x, const ResolvedWindow& window,
                             const std::vector<float>& divisors) {
  constexpr std::int64_t kMostRequantised = 8192;  // all of which are proved
  const Shape plane = plane_of(site.in(0).shape, false);
  const std::int64_t channels = plane[1], count = channels * window.out_h * window.out_w;
  if (count > kMostRequantised)
    return "its padding is not counted, so the divisor of each result depends on its position; "
           "at most " +
           std::to_string(kMostRequantised) + " results can have different divisors, but the node has " +
           std::to_string(count) + "; set count_include_pad to 1, or set pads and ceil_mode to 0";
  std::vector<float> each;
  for (const float d : divisors) each.insert(each.end(), static_cast<std::size_t>(channels), d);
  Chain chain{{Step::dequantise(x.scale, 0), Step::divide(std::move(each))}};
  ValueId result = site.node.outputs[0];
  if (const auto quantiser = quantiser_of_average(site, x.q)) {
    const std::int64_t shift = quantiser->made_unsigned ? 128 : 0;
    const Step& q = quantiser->quantise;
    chain.steps.push_back(Step::divide({q.floats[0]}));
    chain.steps.push_back(Step::add({static_cast<float>(q.integers[0] + shift)}));
    chain.steps.push_back(Step::quantise({1.0F}, -shift, q.lowest, q.highest));
    result = quantiser->result;
    absorb(site, *quantiser);
  }
  note_inexact_sum(site, x.scale[0]);
  graph::Accumulate sum;
  sum.window = window.window;
  sum.groups = sum.out_channels = channels;
  sum.weight_type = Type::integer(8);
  const auto taps = static_cast<std::size_t>(channels) * window.window.kernel_h * window.window.kernel_w;
  sum.weights = std::make_shared<const Constant>(Constant{{}, std::vector<std::int64_t>(taps, 1)});
  sum.weight_zero = {0};
  sum.input_zero = x.zero[0];
  const Value to = site.graph.value(result);
  const Shape rows = {1, window.out_h, window.out_w, channels};
  const ValueId from = site.in(0).shape == plane ? x.q : site.move(x.q, {}, plane, ".plane");
  const ValueId sums =
      site.graph.add_value(to.name + ".acc", Type::integer(32), {1, channels, window.out_h, window.out_w});
  site.emit(std::move(sum), {from}, sums);
  const ValueId turned = site.move(sums, {0, 2, 3, 1}, rows, ".rows");
  const ValueId flat = site.move(turned, {}, {1, count}, ".flat");
  const ValueId means = site.graph.add_value(to.name + ".means", to.type, {1, count});
  site.emit(Elementwise{std::move(chain), 1}, {flat}, means, ".chain");
  const ValueId shaped = site.move(means, {}, rows, ".shaped");
  const ValueId back = site.move(shaped, {0, 3, 1, 2}, {1, channels, window.out_h, window.out_w}, ".back");
  site.emit(Move{}, {back}, result, ".move");
  return {};
}

Outcome lower_average(Site& site, bool global) {
  std::string why;
  const auto x = activation(site, 0, why);
  if (!x) return why;
  const bool whole = global;
  const auto window = averaged(site, global, why);
  if (!window) return why;
  if (!global) {
    const std::vector<float> each = divisors(site.op, site.in(0).shape, *window);
    const auto is_whole = [&](float d) { return d == count_of(window->window); };
    if (!std::all_of(each.begin(), each.end(), is_whole))
      return lower_uneven_average(site, *x, *window, each);
  }
  const Shape plane = plane_of(site.in(0).shape, whole);
  SumPool sum{window->window, x->zero[0], {}};
  if (const auto quantiser = quantiser_of_average(site, x->q)) {
    sum.chain = average_chain(site, window->window, global, x->scale[0], quantiser->quantise,
                              quantiser->made_unsigned);
    absorb(site, *quantiser);
    emit_sum(site, std::move(sum), x->q, plane, *window, quantiser->result);
    return {};
  }
  const Value result = site.result();
  const ValueId acc = site.graph.add_value(result.name + ".acc", Type::integer(32), result.shape);
  emit_sum(site, std::move(sum), x->q, plane, *window, acc);
  const Chain chain{{Step::dequantise(x->scale, 0), Step::divide({count_of(window->window)})}};
  site.emit(Elementwise{chain, -1}, {acc}, site.node.outputs[0], ".chain");
  note_inexact_sum(site, x->scale[0]);
  return {};
}

// ReduceMean, ReduceSum, ReduceMax and ReduceMin: pools over the axes that they reduce.

/// Returns the axes that a reduction removes, in ascending order: the given axes, or all axes if none are given.
/// Returns nothing if an axis is invalid or given twice, or if the operator reduces no axis.
std::optional<std::vector<std::size_t>> reduced_axes(const OnnxOperator& op, std::size_t rank,
                                                     const std::vector<std::int64_t>& given) {
  std::vector<std::size_t> axes;
  if (given.empty() && op.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
  for (std::size_t i = 0; i < rank && given.empty(); ++i) axes.push_back(i);
  for (const std::int64_t a : given) {
    const auto axis = axis_in(a, rank);
    if (!axis) return std::nullopt;
    axes.push_back(*axis);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return std::nullopt;
  return axes;
}

std::string infer_reduce(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  const auto given = integers_of(c, 1, "axes");
  if (c.has(1) && !given) return "has axes that are not known at compile time";
  const auto axes = reduced_axes(c.op, c.shape.size(), given.value_or(Shape()));
  if (!axes) return "has no axes, an axis outside its input, or an axis that is listed twice";
  Shape shape;
  for (std::size_t i = 0; i < c.shape.size(); ++i) {
    const bool reduced = std::find(axes->begin(), axes->end(), i) != axes->end();
    if (!reduced)
      shape.push_back(c.shape[i]);
    else if (c.op.integer("keepdims", 1) != 0)
      shape.push_back(1);
  }
  c.shape = shape;
  return {};
}

/// How a reduction becomes a pool over the whole of a plane [1, C, 1, W] or [1, C, H, W].
struct Reduction {
  std::vector<std::int64_t> perm;  // brings the reduced axes to the back; empty: they are there
  Shape permuted, plane;
  ResolvedWindow window;
};

std::optional<Reduction> reduction_of(const Site& site, std::string& why) {
  const Shape& x = site.in(0).shape;
  const std::vector<std::int64_t> given =
      site.has(1) ? site.constant(1)->integers : site.op.integers("axes", {});
  const auto axes = reduced_axes(site.op, x.size(), given);  // infer_reduce() has checked them
  const bool batch = std::find(axes->begin(), axes->end(), 0U) != axes->end();
  if (x.empty() || x[0] != 1 || (batch && axes->size() != x.size())) {
    why = "it reduces the batch, or its batch of " + to_string(x) + " is not 1";
    return std::nullopt;
  }
  Reduction r;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i == 0 || std::find(axes->begin(), axes->end(), i) == axes->end())
      r.perm.push_back(static_cast<std::int64_t>(i));
  const std::size_t kept = r.perm.size();
  for (const std::size_t a : *axes)
    if (a != 0) r.perm.push_back(static_cast<std::int64_t>(a));
  for (const std::int64_t a : r.perm) r.permuted.push_back(x[static_cast<std::size_t>(a)]);
  if (std::is_sorted(r.perm.begin(), r.perm.end())) r.perm.clear();
  const auto split = r.permuted.begin() + static_cast<std::ptrdiff_t>(kept);
  if (r.permuted.size() == 4 && kept == 2)
    r.plane = r.permuted;
  else
    r.plane = {1, elements({r.permuted.begin(), split}), 1, elements({split, r.permuted.end()})};
  if (std::max(r.plane[2], r.plane[3]) > 65535) {
    why = "it reduces too many elements";
    return std::nullopt;
  }
  r.window.window.kernel_h = static_cast<std::uint32_t>(r.plane[2]);
  r.window.window.kernel_w = static_cast<std::uint32_t>(r.plane[3]);
  r.window.out_h = r.window.out_w = 1;
  return r;
}

Outcome lower_reduce_max(Site& site) {
  std::string why;
  const auto r = reduction_of(site, why);
  if (!r) return why;
  ValueId x = site.node.inputs[0];
  if (!r->perm.empty()) x = site.move(x, r->perm, r->permuted, ".turned");
  x = site.move(x, {}, r->plane, ".plane");
  const ValueId pooled =
      site.graph.add_value(site.result().name + ".pooled", site.result().type, {1, r->plane[1], 1, 1});
  site.emit(graph::MaxPool{r->window.window}, {x}, pooled);
  site.emit(Move{}, {pooled}, site.node.outputs[0], ".shape");
  return {};
}

/// Lowers a minimum of integers: reverses the order of the integers, takes the maximum, and reverses the order again.
Outcome lower_reduce_min(Site& site) {
  std::string why;
  const auto x = activation(site, 0, why);
  if (!x) return why;
  const auto r = reduction_of(site, why);
  if (!r) return why;
  const Type type = site.graph.value(x->q).type;
  const std::int64_t lowest = type.lowest(), highest = type.highest();
  // Maps the integer q to lowest + highest - q. The float32 numbers are exact, because they have at most 16 bits.
  if (type.bits > 16) return "its integers have more than 16 bits";
  const Chain reverse{{Step::to_float(), Step::multiply({-1.0F}),
                       Step::add({static_cast<float>(lowest + highest)}),
                       Step::quantise({1.0F}, 0, lowest, highest)}};
  const Value result = site.result();
  const auto add = [&](const char* suffix, const Shape& shape) {
    return site.graph.add_value(result.name + suffix, type, shape);
  };
  const ValueId turned = r->perm.empty() ? x->q : site.move(x->q, r->perm, r->permuted, ".turned");
  const ValueId plane = site.move(turned, {}, r->plane, ".plane");
  const ValueId reversed = add(".reversed", r->plane), pooled = add(".pooled", {1, r->plane[1], 1, 1});
  site.emit(Elementwise{reverse, -1}, {plane}, reversed, ".reverse");
  site.emit(graph::MaxPool{r->window.window}, {reversed}, pooled);
  const ValueId shaped = site.move(pooled, {}, result.shape, ".shape");
  const ValueId least = add(".least", result.shape);
  site.emit(Elementwise{reverse, -1}, {shaped}, least, ".restore");
  // The steps to float rise with the integer, so they give the least float for the least integer.
  return site.give(Elementwise{{x->steps}, -1}, {least});
}

Outcome lower_reduce_sum(Site& site, bool mean) {
  std::string why;
  const auto x = activation(site, 0, why);
  if (!x) return why;
  const auto r = reduction_of(site, why);
  if (!r) return why;
  const Value result = site.result();
  const ValueId acc = site.graph.add_value(result.name + ".acc", Type::integer(32), result.shape);
  const ValueId turned = r->perm.empty() ? x->q : site.move(x->q, r->perm, r->permuted, ".turned");
  emit_sum(site, SumPool{r->window.window, x->zero[0], {}}, turned, r->plane, r->window, acc);
  Chain chain{{Step::dequantise(x->scale, 0)}};
  if (mean) chain.steps.push_back(Step::divide({count_of(r->window.window)}));
  site.emit(Elementwise{std::move(chain), -1}, {acc}, site.node.outputs[0], ".chain");
  note_inexact_sum(site, x->scale[0]);
  return {};
}

constexpr Operator kPools[] = {
    {.type = "MaxPool",
     .infer = infer_pool,
     .lower_elementwise = [](Site& site) { return lower_max(site, false); },
     .limits = "one or two spatial axes; ceil_mode, dilations, any padding; only the first output"},
    {.type = "GlobalMaxPool",
     .infer = infer_global_pool,
     .lower_elementwise = [](Site& site) { return lower_max(site, true); },
     .limits = "any number of spatial axes"},
    {.type = "AveragePool",
     .infer = infer_pool,
     .lower_qdq = [](Site& site) { return lower_average(site, false); },
     .computes = true,
     .limits = "one or two spatial axes; padding is counted or not; ceil_mode; "
               "if padding is not counted, the result has at most 8,192 elements"},
    {.type = "GlobalAveragePool",
     .infer = infer_global_pool,
     .lower_qdq = [](Site& site) { return lower_average(site, true); },
     .computes = true,
     .limits = "any number of spatial axes"},
    {.type = "ReduceMax",
     .infer = infer_reduce,
     .lower_elementwise = lower_reduce_max,
     .limits = "axes are known at compile time and exclude the batch"},
    {.type = "ReduceMin",
     .infer = infer_reduce,
     .fold = fold_host,
     .lower_qdq = lower_reduce_min,
     .limits = "axes are known at compile time and exclude the batch"},
    {.type = "ReduceMean",
     .infer = infer_reduce,
     .lower_qdq = [](Site& site) { return lower_reduce_sum(site, true); },
     .computes = true,
     .limits = "axes are known at compile time and exclude the batch"},
    {.type = "ReduceSum",
     .infer = infer_reduce,
     .lower_qdq = [](Site& site) { return lower_reduce_sum(site, false); },
     .computes = true,
     .limits = "axes are known at compile time and exclude the batch"}};

}  // namespace

std::span<const Operator> pools() {
  return kPools;
}

}  // namespace millrace::compiler::operators
