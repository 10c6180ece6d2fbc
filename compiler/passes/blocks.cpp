#include "compiler/passes/blocks.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "compiler/passes/requantise.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Chain;
using graph::pick;
using graph::Step;
using graph::Trend;
using graph::Type;
using kernels::ElementType;
using kernels::Requantise;

constexpr std::size_t kMostThresholds = std::size_t{1} << 22;
// A trend is proved by comparing the results of all accumulators only if a channel has at most this many accumulators.
constexpr std::int64_t kMostCompared = std::int64_t{1} << 16;

/// Whether the chain (of element-wise functions) only clamps integers. Such a chain needs no proof, because its
/// multiplier is 1 and its shift 0.
bool only_clamps(const Chain& chain) {
  return std::all_of(chain.steps.begin(), chain.steps.end(),
                     [](const Step& s) { return s.kind == Step::Kind::kClampInteger; });
}

Requantise clamp_only(const Chain& chain, Type output) {
  std::int64_t lowest = output.lowest(), highest = output.highest();
  for (const Step& s : chain.steps) {
    lowest = std::min(std::max(lowest, s.lowest), s.highest);
    highest = std::min(std::max(highest, s.lowest), s.highest);
  }
  Requantise r;
  r.multiplier = {1};
  r.offset = {0};
  r.shift = {0};
  r.lowest = static_cast<std::int32_t>(lowest);
  r.highest = static_cast<std::int32_t>(highest);
  return r;
}

/// Whether the comparison `ordered` holds for the results of every two neighbouring accumulators in the range.
template <class Ordered>
bool is_sorted(const Chain& chain, Range range, std::size_t channel, Ordered ordered) {
  std::int64_t before = chain.evaluate(range.lowest, channel);
  for (std::int64_t x = range.lowest + 1; x <= range.highest; ++x) {
    const std::int64_t q = chain.evaluate(x, channel);
    if (!ordered(before, q)) return false;
    before = q;
  }
  return true;
}

/// Returns whether the step function rises or falls over the whole range. The solver and the checker use bisection, so
/// the function must do one or the other. If the chain's steps do not prove a trend, compares every accumulator.
Result<Trend> prove_trend(const Chain& chain, Range range, std::size_t channel) {
  const graph::ChainTrend found = chain.trend(range.lowest, range.highest, channel);
  if (found.trend != Trend::kUnproved) return found.trend;
  if (range.highest - range.lowest < kMostCompared) {
    if (is_sorted(chain, range, channel, std::less_equal<>())) return Trend::kRising;
    if (is_sorted(chain, range, channel, std::greater_equal<>())) return Trend::kFalling;
  }
  const std::string step = graph::operator_name(chain.steps[found.step]);
  return unsupported(step +
                     " is not supported between a sum and its quantiser: "
                     "the result must only rise, or only fall, as the sum grows. "
                     "Put a QuantizeLinear/DequantizeLinear pair before the operator, "
                     "or replace the operator by a function that only rises, such as Relu");
}

Range hull(const std::vector<Range>& ranges) {
  Range all = ranges[0];
  for (const Range& r : ranges) all = {std::min(all.lowest, r.lowest), std::max(all.highest, r.highest)};
  return all;
}

/// Whether the results of each channel rise or fall as its sum grows.
struct Trends {
  std::vector<bool> falling;  // [channel]: true if the results fall
  bool is_shared = false;     // all channels share a function that rises over the hull of their ranges
};

Result<Trends> prove_trends(const Chain& chain, const std::vector<Range>& ranges) {
  if (chain.channels() == 1) {
    const auto trend = prove_trend(chain, hull(ranges), 0);
    if (trend.ok())
      return Trends{std::vector<bool>(ranges.size(), *trend == Trend::kFalling), *trend == Trend::kRising};
  }
  Trends trends;
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    MILLRACE_ASSIGN(const Trend trend, prove_trend(chain, ranges[c], chain.channels() == 1 ? 0 : c));
    trends.falling.push_back(trend == Trend::kFalling);
  }
  return trends;
}

/// Finds a requantisation, then proves it with a checker that shares no code with the solver.
Result<Requantise> solve_and_prove(Reference reference, std::vector<Range> accumulators, Type output) {
  const RequantiseProblem problem{std::move(reference), std::move(accumulators), output.lowest(),
                                  output.highest(), output.kind == Type::Kind::kBipolar};
  if (problem.highest - problem.lowest > 65535)
    return unsupported("its result has more than 16 bits: put a quantiser after the node");
  MILLRACE_ASSIGN(Requantise r, solve(problem));
  if (r.thresholds.size() > kMostThresholds)
    return unsupported("its requantisation needs " + std::to_string(r.thresholds.size()) +
                       " thresholds, which is too many");
  if (const std::string why = prove(r, problem); !why.empty())
    return Error(ErrorCode::kInternal, "requantisation is not proved: " + why);
  return r;
}

/// Returns a requantisation that equals the chain (of element-wise functions) for all accumulators of the range.
Result<Requantise> requantise(const Chain& chain, Range range, Type output) {
  const Reference reference = [&chain](std::int64_t acc, std::size_t channel) {
    return chain.evaluate(acc, channel);
  };
  return solve_and_prove(reference, std::vector<Range>(chain.channels(), range), output);
}

Status prove_trends(const Chain& chain, Range range) {
  for (std::size_t channel = 0; channel < chain.channels(); ++channel) {
    MILLRACE_TRY(prove_trend(chain, range, channel));
  }
  return {};
}

/// Weights and bias of a layer after its zero points were folded into them.
struct Folded {
  std::vector<std::int64_t> weights;  // [output channel][taps]
  std::vector<std::int64_t> bias;     // [output channel]
  std::size_t taps = 0;               // number of weights per output channel
};

Folded fold(const graph::Accumulate& a, const IndexMap& order) {
  Folded f;
  f.taps = order.size();
  f.weights.reserve(a.weights->integers.size());
  for (std::size_t o = 0; o < static_cast<std::size_t>(a.out_channels); ++o) {
    std::int64_t sum = 0;
    for (const std::uint32_t i : order) {
      f.weights.push_back(a.weights->integers[o * f.taps + i] - pick(a.weight_zero, o));
      sum += f.weights.back();
    }
    f.bias.push_back((a.bias.empty() ? 0 : a.bias[o]) - a.input_zero * sum);
  }
  return f;
}

/// Negates weights and bias of channels whose result falls as the accumulator grows, so that the result rises.
void negate_falling(Folded& f, const std::vector<bool>& falling) {
  for (std::size_t o = 0; o < falling.size(); ++o) {
    if (!falling[o]) continue;
    f.bias[o] = -f.bias[o];
    for (std::size_t i = 0; i < f.taps; ++i) f.weights[o * f.taps + i] = -f.weights[o * f.taps + i];
  }
}

/// The ranges of a layer's sums if its inputs may have any values of their type.
struct SumRanges {
  std::vector<Range> results;  // [channel]: range of the complete sums
  Range partial;               // range of all partial sums, in any order of the products
};

SumRanges sum_ranges(const Folded& f, ElementType input) {
  const std::int64_t low = input.lowest(), high = input.highest();
  SumRanges r;
  for (std::size_t o = 0; o < f.bias.size(); ++o) {
    // A positive weight's product is largest for the input `high`, a negative weight's product for the input `low`.
    std::int64_t positive = 0, negative = 0;
    for (std::size_t i = 0; i < f.taps; ++i) {
      const std::int64_t w = f.weights[o * f.taps + i];
      positive += std::max<std::int64_t>(w, 0);
      negative += std::min<std::int64_t>(w, 0);
    }
    const std::int64_t bias = f.bias[o], none = 0;
    r.results.push_back({bias + positive * low + negative * high, bias + positive * high + negative * low});
    const Range partial{
        std::min(bias, none) + positive * std::min(low, none) + negative * std::max(high, none),
        std::max(bias, none) + positive * std::max(high, none) + negative * std::min(low, none)};
    r.partial = {std::min(r.partial.lowest, partial.lowest), std::max(r.partial.highest, partial.highest)};
  }
  return r;
}

Type weight_type(const std::vector<std::int64_t>& weights) {
  if (std::all_of(weights.begin(), weights.end(), [](std::int64_t w) { return w == 1 || w == -1; }))
    return Type::bipolar();
  const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
  const Type type = Type::holding(*low, *high);
  if (type.bits == 9 && *low >= 0) return Type::natural(8);
  return Type::integer(std::max<int>(type.bits, 2));
}

}  // namespace

Error unsupported(std::string message) {
  return Error(ErrorCode::kUnsupported, std::move(message));
}

Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, const kernels::Window& window,
                                              const IndexMap& order, ElementType input, Type output) {
  Folded f = fold(a, order);
  const Chain chain = a.chain.contracted();
  SumRanges sums = sum_ranges(f, input);
  MILLRACE_ASSIGN(const Trends trends, prove_trends(chain, sums.results));
  if (std::find(trends.falling.begin(), trends.falling.end(), true) != trends.falling.end()) {
    negate_falling(f, trends.falling);
    sums = sum_ranges(f, input);
  }

  kernels::Convolution c;
  c.window = window;
  c.window.pad_value = static_cast<std::int32_t>(a.input_zero);
  c.out_channels = static_cast<std::uint32_t>(a.out_channels);
  c.groups = static_cast<std::uint32_t>(a.groups);
  c.weight_type = element_type(weight_type(f.weights));
  if (c.weight_type.bits > 16)
    return unsupported("its weights need more than 16 bits once their zero point is subtracted");
  c.weights = std::vector<std::int16_t>(f.weights.begin(), f.weights.end());
  for (const std::int64_t b : f.bias)
    if (Type::holding(b, b).bits > 32) return unsupported("its bias needs more than 32 bits");
  if (std::any_of(f.bias.begin(), f.bias.end(), [](std::int64_t b) { return b != 0; }))
    c.bias.assign(f.bias.begin(), f.bias.end());
  const Type accumulator = Type::holding(sums.partial.lowest, sums.partial.highest);
  if (accumulator.bits > 32)
    return unsupported("its sums need " + std::to_string(accumulator.bits) + " bits; 32 are supported");
  c.accumulator = element_type(accumulator);
  if (chain.steps.empty()) return c;
  if (only_clamps(chain)) {
    c.requantise = clamp_only(chain, output);
    return c;
  }
  const bool one_chain = chain.channels() == 1;
  const Reference reference = [&chain, &trends, one_chain](std::int64_t acc, std::size_t channel) {
    return chain.evaluate(trends.falling[channel] ? -acc : acc, one_chain ? 0 : channel);
  };
  MILLRACE_ASSIGN(
      c.requantise,
      solve_and_prove(reference, trends.is_shared ? std::vector<Range>{hull(sums.results)} : sums.results,
                      output));
  return c;
}

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, ElementType input, Type output) {
  kernels::SumPool p;
  p.window = s.window;
  p.window.pad_value = static_cast<std::int32_t>(s.zero);
  const std::int64_t taps = std::int64_t{s.window.kernel_h} * s.window.kernel_w;
  const Range range{taps * input.lowest(), taps * input.highest()};
  const Type accumulator =
      Type::holding(std::min<std::int64_t>(range.lowest, 0), std::max<std::int64_t>(range.highest, 0));
  if (accumulator.bits > 32)
    return unsupported("its sums need " + std::to_string(accumulator.bits) + " bits; 32 are supported");
  p.accumulator = element_type(accumulator);
  const std::int64_t zeros = taps * s.zero;
  if (s.chain.steps.empty()) {
    p.requantise = clamp_only({}, output);
    p.requantise.offset = {-zeros};
    return p;
  }
  const Chain chain = Chain{{Step::add_integer({-zeros})}}.then(s.chain.contracted());
  MILLRACE_TRY(prove_trends(chain, range));
  MILLRACE_ASSIGN(p.requantise, requantise(chain, range, output));
  return p;
}

Result<kernels::Operation> make_rescale(const Chain& written, ElementType input, Type output) {
  const Chain chain = written.contracted();
  if (input.bits > 32) return unsupported("works on " + to_string(input));
  if (only_clamps(chain)) return kernels::Operation(kernels::Rescale{clamp_only(chain, output)});
  const Range range{input.lowest(), input.highest()};
  // If the type has few values, compare all of them. A table of their results is right even without a proved trend.
  const bool small = input.bits <= 8 && chain.channels() == 1;
  if (!small) {
    MILLRACE_TRY(prove_trends(chain, range));
  }
  if (!small || is_sorted(chain, range, 0, std::less_equal<>())) {
    auto r = requantise(chain, range, output);
    if (r.ok() && (r->form != Requantise::Form::kThresholds || !small))
      return kernels::Operation(kernels::Rescale{std::move(*r)});
    if (!small) return r.error();
  }
  kernels::Lookup lookup;
  for (std::int64_t x = input.lowest(); x <= input.highest(); ++x) {
    const std::int64_t q = chain.evaluate(x, 0);
    if (q < std::numeric_limits<std::int16_t>::min() || q > std::numeric_limits<std::int16_t>::max())
      return unsupported("its results do not fit 16 bits");
    lookup.table.push_back(static_cast<std::int16_t>(q));
  }
  return kernels::Operation(std::move(lookup));
}

}  // namespace millrace::compiler::passes
