// Converts chains (of element-wise functions) that hardware cannot compute to blocks for the host: conversions between
// integers and float32, and the host's operators between these conversions.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/operators/operators.hpp"
#include "compiler/passes/blocks.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Chain;
using graph::Shape;
using graph::Step;
using graph::Type;
using kernels::ElementType;
using K = Step::Kind;

const ElementType kFloat32 = graph::element_type(Type::float32());

/// Returns the narrowest type that can represent `lowest` and `highest`.
Type type_of(std::int64_t lowest, std::int64_t highest) {
  const Type type = Type::holding(lowest, highest);
  return lowest < 0 ? type : Type::natural(std::max(1, type.bits - 1));
}

/// Whether kernels::Dequantise and kernels::Quantise can take these scales.
bool are_sound(const std::vector<float>& scales) {
  return std::all_of(scales.begin(), scales.end(), [](float s) { return s > 0 && std::isfinite(s); });
}

std::vector<float> times(const std::vector<std::int64_t>& integers, float factor) {
  std::vector<float> floats;
  for (const std::int64_t i : integers) floats.push_back(static_cast<float>(i) * factor);
  return floats;
}

/// Splits a chain into blocks.
class Splitter {
 public:
  Splitter(const Shape& shape, std::int64_t axis, bool last_axis, ElementType input, Type output)
      : shape_(shape),
        axis_(last_axis ? static_cast<std::int64_t>(shape.size()) - 1 : axis),
        last_axis_(last_axis),
        type_(input),
        output_(output) {}

  Result<std::vector<HostBlock>> run(const Chain& chain) {
    const auto& steps = chain.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool last = i + 1 == steps.size();
      if (steps[i].kind == K::kAddInteger || steps[i].kind == K::kClampInteger) {
        waiting_.steps.push_back(steps[i]);
      } else if (steps[i].kind == K::kToFloat && !last && steps[i + 1].kind == K::kMultiply) {
        MILLRACE_TRY(dequantise(Step::dequantise(steps[++i].floats, 0)));
      } else if (steps[i].kind == K::kToFloat || steps[i].kind == K::kDequantise) {
        MILLRACE_TRY(dequantise(steps[i].kind == K::kToFloat ? Step::dequantise({1.0F}, 0) : steps[i]));
      } else if (steps[i].kind == K::kQuantise) {
        MILLRACE_TRY(quantise(steps[i], last));
      } else {
        MILLRACE_TRY(compute(steps[i]));
      }
    }
    if (!waiting_.steps.empty()) {
      MILLRACE_ASSIGN(auto rescale, make_rescale(waiting_, type_, output_));
      add("clamp", std::move(rescale), graph::element_type(output_));
    }
    return std::move(blocks_);
  }

 private:
  void add(const char* suffix, kernels::Operation operation, ElementType type) {
    blocks_.push_back({suffix, std::move(operation), type});
    type_ = type;
  }

  Status compute(const Step& step) {
    auto op = operators::float_operator(step, shape_, axis_);
    if (!op) return unsupported("the host does not compute " + to_string(step));
    add("host", std::move(*op), kFloat32);
    return {};
  }

  /// Converts to float32. The host has no blocks for integer steps. Therefore the integer steps in `waiting_` are
  /// computed in float32 after the conversion, which is exact for integers of up to 24 bits.
  Status dequantise(const Step& step) {
    std::vector<float> scale = step.floats;
    const bool zero_is_one = step.integers.size() == 1;
    const bool plain =
        waiting_.steps.empty() && zero_is_one && are_sound(scale) && (scale.size() == 1 || last_axis_);
    if (plain) {
      add("dequantise", kernels::Dequantise{std::move(scale), static_cast<std::int32_t>(step.integers[0])},
          kFloat32);
      return {};
    }
    add("dequantise", kernels::Dequantise{{1.0F}, 0}, kFloat32);
    for (const Step& s : std::exchange(waiting_, {}).steps) {
      if (s.kind == K::kAddInteger) {
        MILLRACE_TRY(compute(Step::add(times(s.integers, 1))));
      } else {
        MILLRACE_TRY(compute(Step::clip(static_cast<float>(s.lowest), static_cast<float>(s.highest))));
      }
    }
    if (!zero_is_one || step.integers[0] != 0) {
      MILLRACE_TRY(compute(Step::add(times(step.integers, -1))));
    }
    return compute(Step::multiply(std::move(scale)));
  }

  /// Converts to integers. If kernels::Quantise cannot hold the step's constants (for example several zero points),
  /// separate operators before it apply them.
  Status quantise(const Step& step, bool last) {
    Step q = step;
    const bool several = q.integers.size() > 1;
    if (several || !are_sound(q.floats) || (q.floats.size() > 1 && !last_axis_)) {
      MILLRACE_TRY(compute(Step::divide(q.floats)));
      q.floats = {1.0F};
    }
    if (several) {
      add("round", make_host_operator("Round", {shape_}, shape_), kFloat32);
      MILLRACE_TRY(compute(Step::add(times(q.integers, 1))));
      q.integers = {0};
    }
    const std::int64_t zero = q.integers[0];
    const Type type = type_of(std::min(q.lowest, zero), std::max(q.highest, zero));
    if (type.bits > 16 && type.bits != 32)
      return unsupported("quantises to " + to_string(type) + " on the host");
    // kernels::Quantise clamps to the range of its result's type. A narrower range needs a clamp of its own.
    if (q.lowest != type.lowest() || q.highest != type.highest() || (last && type != output_))
      waiting_.steps.push_back(Step::clamp_integer(q.lowest, q.highest));
    add("quantise", kernels::Quantise{q.floats, static_cast<std::int32_t>(zero)}, graph::element_type(type));
    return {};
  }

  const Shape& shape_;
  std::int64_t axis_;
  bool last_axis_;
  ElementType type_;  // of the last block's result
  Type output_;
  Chain waiting_;  // steps from integers to integers that no block computes yet
  std::vector<HostBlock> blocks_;
};

}  // namespace

Result<std::vector<HostBlock>> make_host_blocks(const Chain& chain, const Shape& shape, std::int64_t axis,
                                                bool last_axis, ElementType input, Type output) {
  return Splitter(shape, axis, last_axis, input, output).run(chain.contracted());
}

kernels::FloatOperator make_host_operator(const char* type, const std::vector<Shape>& inputs,
                                          const Shape& output) {
  kernels::FloatOperator op;
  op.type = type;
  op.shape = output;
  for (const Shape& shape : inputs)
    op.operands.push_back({kernels::FloatOperand::Kind::kTensor, shape, {}, {}});
  return op;
}

kernels::FloatOperator make_host_max_pool(const kernels::Window& w, const Shape& input, const Shape& output) {
  kernels::FloatOperator op = make_host_operator("MaxPool", {input}, output);
  op.attributes = {{"kernel_shape", {w.kernel_h, w.kernel_w}, {}, {}},
                   {"strides", {w.stride_h, w.stride_w}, {}, {}},
                   {"dilations", {w.dilation_h, w.dilation_w}, {}, {}},
                   {"pads", {w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}, {}, {}}};
  return op;
}

}  // namespace millrace::compiler::passes
