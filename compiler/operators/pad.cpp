// The table entry of Pad. A Pad with a constant is a sum over windows of one element, whose padding has the wanted value. A
// Pad that repeats elements of its input joins selections of these elements with the input.
#include "compiler/operators/pad.hpp"

#include <cmath>

#include "compiler/operators/qdq.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::compiler::operators {
namespace {

using graph::SumPool;

/// How many elements a Pad adds before and behind each axis, and which ones.
struct Pads {
  Shape before, behind;
  Border border = Border::kConstant;
};

/// Returns which elements the mode of a Pad adds, or nothing if the mode is unknown.
std::optional<Border> border_named(const std::string& mode) {
  if (mode == "constant") return Border::kConstant;
  if (mode == "edge") return Border::kEdge;
  if (mode == "reflect") return Border::kReflected;
  if (mode == "wrap") return Border::kWrapped;
  return std::nullopt;
}

/// Whether an axis of `extent` elements has the elements that the border repeats.
bool has_border(Border border, std::int64_t extent, std::int64_t before, std::int64_t behind) {
  if (border == Border::kConstant) return true;
  const std::int64_t most = border == Border::kReflected ? extent - 1
                            : border == Border::kWrapped ? extent
                                                         : UINT16_MAX;
  return std::min(before, behind) >= 0 && std::max(before, behind) <= most;
}

/// Reads the pads. Returns what is wrong with the node, or an empty text.
std::string read_pads(const Inference& c, Pads& pads) {
  const std::string mode = c.op.text("mode", "constant");
  const auto border = border_named(mode);
  if (!border) return "has the unknown mode '" + mode + "'";
  const std::size_t rank = c.shape_of(0).size();
  const auto given = integers_of(c, 1, "pads");
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (c.has(3)) {
    const auto named = integers_of(c, 3, "axes");
    if (!named) return "has axes that are not known at compile time";
    axes = *named;
  }
  if (!given || given->size() != 2 * axes.size())
    return "has pads that are not known at compile time, or does not have two pads for each axis";
  pads = {Shape(rank, 0), Shape(rank, 0), *border};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_in(axes[i], rank);
    const std::int64_t a = (*given)[i], b = (*given)[axes.size() + i];
    if (!axis || std::max(std::abs(a), std::abs(b)) > UINT16_MAX)
      return "has an axis outside its input, or a pad that is too large";
    if (*border != Border::kConstant && std::min(a, b) < 0)
      return "has the mode '" + mode + "' and negative pads; put a Slice before it instead";
    if (!has_border(*border, c.shape_of(0)[*axis], a, b))
      return "has the mode '" + mode + "' and pads that its input of " + to_string(c.shape_of(0)) +
             " has no elements for";
    pads.before[*axis] = a;
    pads.behind[*axis] = b;
  }
  return {};
}

std::string infer_pad(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  Pads pads;
  if (std::string why = read_pads(c, pads); !why.empty()) return why;
  for (std::size_t i = 0; i < c.shape.size(); ++i) {
    c.shape[i] += pads.before[i] + pads.behind[i];
    if (c.shape[i] < 1 || c.shape[i] + std::min(pads.before[i], pads.behind[i]) < 1)
      return "takes away all elements of axis " + std::to_string(i);
  }
  return {};
}

/// The integers to which a Pad is being applied, and the integer that it adds around them.
struct Padding {
  Site& site;
  std::int64_t zero = 0;  // the integer that is added
  ValueId now = graph::kNoValue;

  Shape shape() const { return site.graph.value(now).shape; }

  /// Removes the elements that negative pads cut off.
  void crop(const Pads& pads) {
    Shape less = shape();
    const std::vector<std::int64_t> strides = graph::strides_of(less);
    kernels::Rearrange loops;
    for (std::size_t i = 0; i < less.size(); ++i) {
      const std::int64_t first = std::max<std::int64_t>(-pads.before[i], 0);
      less[i] -= first + std::max<std::int64_t>(-pads.behind[i], 0);
      loops.offset += static_cast<std::uint64_t>(first * strides[i]);
      loops.extents.push_back(static_cast<std::uint32_t>(less[i]));
      loops.strides.push_back(strides[i]);
    }
    if (less == shape()) return;
    give(graph::Select{std::move(loops)}, less, ".cropped");
  }

  /// Adds elements around a plane [1, C, H, W].
  void border(std::int64_t top, std::int64_t left, std::int64_t bottom, std::int64_t right) {
    if (top + left + bottom + right == 0) return;
    const auto narrow = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
    SumPool sum;
    sum.zero = zero;
    sum.window.pad_top = narrow(top);
    sum.window.pad_left = narrow(left);
    sum.window.pad_bottom = narrow(bottom);
    sum.window.pad_right = narrow(right);
    sum.chain = {{Step::add_integer({zero})}};
    const Shape x = shape();
    give(std::move(sum), {1, x[1], x[2] + top + bottom, x[3] + left + right}, ".padded");
  }

  /// Adds elements along one axis: all axes before it, in the order of the dataflow, count as rows of a plane, and all axes
  /// behind it as channels, so that the elements need not be moved.
  void along(std::size_t axis, std::int64_t before, std::int64_t behind) {
    if (before + behind == 0) return;
    const Shape x = shape();
    if (x.size() == 4 && axis == 1) {
      now = site.move(now, {0, 2, 3, 1}, {1, 1, x[2] * x[3], x[1]}, ".pixels");
      border(0, before, 0, behind);
      now = site.move(now, {}, {1, x[2], x[3], x[1] + before + behind}, ".apart");
      now = site.move(now, {0, 3, 1, 2}, {1, x[1] + before + behind, x[2], x[3]}, ".back");
      return;
    }
    const auto split = x.begin() + static_cast<std::ptrdiff_t>(axis);
    const std::int64_t outer = elements({x.begin(), split}), inner = elements({split + 1, x.end()});
    Shape longer = x;
    longer[axis] += before + behind;
    now = site.move(now, {}, {1, outer, x[axis], inner}, ".lines");
    now = site.move(now, {0, 3, 1, 2}, {1, inner, outer, x[axis]}, ".plane");
    border(0, before, 0, behind);
    now = site.move(now, {0, 2, 3, 1}, {1, outer, longer[axis], inner}, ".apart");
    now = site.move(now, {}, longer, ".back");
  }

 private:
  void give(graph::Operation operation, Shape to, const char* suffix) {
    const Value from = site.graph.value(now);
    const ValueId made = site.graph.add_value(from.name + suffix, from.type, std::move(to));
    copy_meaning(site.graph, now, made);
    site.emit(std::move(operation), {now}, made, suffix);
    now = made;
  }
};

/// Returns the integer that represents the padding, or nothing after setting `why`.
std::optional<std::int64_t> padding_value(const Site& site, const Dequantised& x, std::string& why) {
  float value = site.op.real("value", 0.0F);
  if (site.has(2)) {
    const auto known = known_floats(site.graph, site.uses, site.node.inputs[2]);
    if (!known || known->size() != 1) {
      why = "pads with a value that is not known at compile time";
      return std::nullopt;
    }
    value = (*known)[0];
  }
  const Value& integers = site.graph.value(x.q);
  const double zero =
      static_cast<double>(value) / static_cast<double>(x.scale[0]) + static_cast<double>(x.zero[0]);
  if (zero == std::nearbyint(zero) && zero >= static_cast<double>(integers.type.lowest()) &&
      zero <= static_cast<double>(integers.type.highest())) {
    const auto q = static_cast<std::int64_t>(zero);
    if (Chain{x.steps}.evaluate(graph::Number{false, q, 0}, 0).real == value) return q;
  }
  why = "pads with " + std::to_string(value) + ", which no integer of '" + integers.name + "' represents";
  return std::nullopt;
}

Outcome lower_pad(Site& site) {
  std::string why;
  Pads pads;
  if (why = read_pads({site.graph, site.node, site.op, {}, {}}, pads); !why.empty()) return why;
  if (pads.before.empty()) return "pads a tensor without axes";
  const auto x = activation(site, 0, why);
  if (!x) return why;
  if (pads.border != Border::kConstant) {
    if (pads.before[0] + pads.behind[0] != 0) return "pads its batch";
    ValueId now = x->q;
    for (std::size_t axis = pads.before.size(); axis-- > 1;)  // the shortest parts first
      now = extended(site, now, axis, pads.before[axis], pads.behind[axis], pads.border);
    return site.give(Elementwise{{x->steps}, -1}, {now});
  }
  const auto zero = padding_value(site, *x, why);
  if (!zero) return why;
  Padding padding{site, *zero, x->q};
  padding.crop(pads);
  for (Shape* list : {&pads.before, &pads.behind})
    for (std::int64_t& pad : *list) pad = std::max<std::int64_t>(pad, 0);
  if (pads.before[0] + pads.behind[0] != 0) return "pads its batch";
  const bool is_plane = pads.before.size() == 4 && padding.shape()[0] == 1;
  if (is_plane) padding.border(pads.before[2], pads.before[3], pads.behind[2], pads.behind[3]);
  for (std::size_t axis = 1; axis < (is_plane ? 2 : pads.before.size()); ++axis)
    padding.along(axis, pads.before[axis], pads.behind[axis]);
  return site.give(Elementwise{{x->steps}, -1}, {padding.now});
}

constexpr Operator kPads[] = {
    {.type = "Pad",
     .infer = infer_pad,
     .lower_qdq = lower_pad,
     .limits = "any axis but the batch; modes constant, edge, reflect and wrap; the pads are known at "
               "compile time; in the mode constant, the pads may be negative, and the padding value is a "
               "constant that the integer type of the data can represent"}};

}  // namespace

ValueId extended(Site& site, ValueId x, std::size_t axis, std::int64_t before, std::int64_t behind,
                 Border border) {
  const Value from = site.graph.value(x);
  const std::int64_t extent = from.shape[axis];
  const std::vector<std::int64_t> strides = graph::strides_of(from.shape);
  const std::string suffix = ".axis" + std::to_string(axis);
  std::vector<ValueId> parts;
  // Appends `count` elements of the axis, from `first` on in steps of `step`.
  const auto select = [&](std::int64_t first, std::int64_t count, std::int64_t step, const char* what) {
    if (count == 0) return;
    kernels::Rearrange loops;
    loops.offset = static_cast<std::uint64_t>(first * strides[axis]);
    Shape shape = from.shape;
    shape[axis] = count;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      loops.extents.push_back(static_cast<std::uint32_t>(shape[i]));
      loops.strides.push_back(strides[i] * (i == axis ? step : 1));
    }
    parts.push_back(site.graph.add_value(from.name + suffix + what, from.type, shape));
    copy_meaning(site.graph, x, parts.back());
    loops = kernels::simplified(loops, static_cast<std::uint64_t>(elements(shape)));
    site.emit(graph::Select{std::move(loops)}, {x}, parts.back(), suffix + what);
  };
  const std::int64_t step = border == Border::kEdge ? 0 : border == Border::kReflected ? -1 : 1;
  select(border == Border::kEdge        ? 0
         : border == Border::kReflected ? before
                                        : extent - before,
         before, step, ".before");
  parts.push_back(x);
  select(border == Border::kEdge        ? extent - 1
         : border == Border::kReflected ? extent - 2
                                        : 0,
         behind, step, ".behind");
  if (parts.size() == 1) return x;
  Shape longer = from.shape;
  longer[axis] += before + behind;
  const ValueId joined = site.graph.add_value(from.name + suffix + ".extended", from.type, std::move(longer));
  copy_meaning(site.graph, x, joined);
  site.emit(graph::Concat{static_cast<std::int64_t>(axis)}, std::move(parts), joined, suffix + ".extended");
  return joined;
}

bool moves_integers(const OnnxOperator& op) {
  return op.domain == kOnnx && (op.type == "Pad" || op.type == "Concat");
}

std::span<const Operator> pads() {
  return kPads;
}

}  // namespace millrace::compiler::operators
