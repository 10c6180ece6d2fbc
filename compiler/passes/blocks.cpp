#include "compiler/passes/blocks.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "compiler/passes/requantise.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Chain;
using graph::Step;
using graph::Type;
using kernels::ElementType;
using kernels::Requantise;

constexpr std::size_t kMostThresholds = std::size_t{1} << 22;
constexpr std::int64_t kMostCompared =
    std::int64_t{1} << 16;  // accumulators a channel, where nothing less proves it monotone

Error unsupported(std::string message) {
  return Error(ErrorCode::kUnsupported, std::move(message));
}

template <class T>
T pick(const std::vector<T>& values, std::size_t i) {
  return values[values.size() == 1 ? 0 : i];
}

std::int64_t saturate32(std::int64_t x) {
  return std::min<std::int64_t>(std::max<std::int64_t>(x, std::numeric_limits<std::int32_t>::min()),
                                std::numeric_limits<std::int32_t>::max());
}

/// A chain that only clamps needs no proof: multiplier 1, no shift.
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

/// By evaluating every accumulator.
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

enum class Way : std::uint8_t { kRising, kFalling };

/// Whether the step function rises or falls over the whole range: bisection, the solver's and the checker's
/// alike, is worth nothing otherwise. By the chain's steps where these decide it, else by comparing every
/// accumulator; else why not.
Result<Way> way_of(const Chain& chain, Range range, std::size_t channel) {
  const graph::Course course = chain.course(range.lowest, range.highest, channel);
  if (course.kind == graph::Course::Kind::kRising) return Way::kRising;
  if (course.kind == graph::Course::Kind::kFalling) return Way::kFalling;
  if (range.highest - range.lowest < kMostCompared) {
    if (is_sorted(chain, range, channel, std::less_equal<>())) return Way::kRising;
    if (is_sorted(chain, range, channel, std::greater_equal<>())) return Way::kFalling;
  }
  const std::string step = graph::operator_name(chain.steps[course.step].kind);
  return unsupported(
      step +
      " is not taken between a sum and its quantiser, and a further quantiser between them changes "
      "nothing: thresholds on the sum stand for both, so the result must only rise, or only fall, "
      "as the sum grows. Replace " +
      step + " by a function that only rises, such as Relu");
}

Range around(const std::vector<Range>& ranges) {
  Range all = ranges[0];
  for (const Range& r : ranges) all = {std::min(all.lowest, r.lowest), std::max(all.highest, r.highest)};
  return all;
}

/// Which channels fall. `joint`: one function for all, proved over all that any channel reaches.
struct Ways {
  std::vector<bool> falling;
  bool joint = false;
};

Result<Ways> ways_of(const Chain& chain, const std::vector<Range>& ranges) {
  if (chain.channels() == 1) {
    const auto way = way_of(chain, around(ranges), 0);
    if (way.ok()) return Ways{std::vector<bool>(ranges.size(), *way == Way::kFalling), *way == Way::kRising};
  }
  Ways ways;
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    MILLRACE_ASSIGN(const Way way, way_of(chain, ranges[c], chain.channels() == 1 ? 0 : c));
    ways.falling.push_back(way == Way::kFalling);
  }
  return ways;
}

/// Solved, then proved by the checker that shares nothing with the solver.
Result<Requantise> solve_and_prove(const RequantiseProblem& problem) {
  if (problem.highest - problem.lowest > 65535)
    return unsupported("its result has more than 16 bits: put a quantiser there");
  MILLRACE_ASSIGN(Requantise r, solve(problem));
  if (r.thresholds.size() > kMostThresholds)
    return unsupported("needs " + std::to_string(r.thresholds.size()) + " thresholds");
  if (const std::string why = prove(r, problem); !why.empty())
    return Error(ErrorCode::kInternal, "requantisation is not proved: " + why);
  return r;
}

RequantiseProblem make_problem(Reference reference, std::vector<Range> ranges, bool per_channel,
                               Type output) {
  RequantiseProblem p;
  p.reference = std::move(reference);
  p.accumulators = std::move(ranges);
  // One function for all channels: proved over all that any of them reaches.
  if (!per_channel) p.accumulators = {around(p.accumulators)};
  p.lowest = output.lowest();
  p.highest = output.highest();
  return p;
}

/// Integer weights and bias with zero points folded, one channel after another.
struct Folded {
  std::vector<std::int64_t> weights;  // [O][kh][kw][I / groups]
  std::vector<std::int64_t> bias;     // [O]
  std::size_t taps = 0;               // weights an output channel
};

Folded fold(const graph::Accumulate& a) {
  Folded f;
  const auto channels = static_cast<std::size_t>(a.out_channels);
  f.taps = a.weights->integers.size() / channels;
  const auto area = static_cast<std::size_t>(a.geometry.kernel_h * a.geometry.kernel_w);
  const std::size_t depth = f.taps / area;
  f.weights.resize(a.weights->integers.size());
  f.bias.assign(channels, 0);
  for (std::size_t o = 0; o < channels; ++o) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < depth; ++i)
      for (std::size_t k = 0; k < area; ++k) {
        const std::int64_t w = a.weights->integers[(o * depth + i) * area + k] - pick(a.weight_zero, o);
        f.weights[(o * area + k) * depth + i] = w;
        sum += w;
      }
    f.bias[o] = (a.bias.empty() ? 0 : a.bias[o]) - a.input_zero * sum;
  }
  return f;
}

/// Channels whose result falls as the accumulator grows (a negative factor, as batch normalisation can have)
/// get negated weights.
void negate_falling(Folded& f, const std::vector<bool>& falling) {
  for (std::size_t o = 0; o < falling.size(); ++o) {
    if (!falling[o]) continue;
    f.bias[o] = -f.bias[o];
    for (std::size_t i = 0; i < f.taps; ++i) f.weights[o * f.taps + i] = -f.weights[o * f.taps + i];
  }
}

/// Every sum a channel can end with, and every one it can pass on the way.
struct Reach {
  std::vector<Range> results;
  Range partial;
};

Reach reach_of(const Folded& f, Type input) {
  const std::int64_t low = input.lowest(), high = input.highest();
  Reach r;
  for (std::size_t o = 0; o < f.bias.size(); ++o) {
    // All weights of a sign meet their extreme at the same inputs.
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
  const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
  const Type type = Type::holding(*low, *high);
  if (type.bits == 9 && *low >= 0) return Type::natural(8);
  return Type::integer(std::max<int>(type.bits, 2));
}

}  // namespace

ElementType element_type(Type type) {
  if (type.is_float()) return {ElementType::Kind::kFloat32, 32};
  return {type.kind == Type::Kind::kUnsigned ? ElementType::Kind::kUnsigned : ElementType::Kind::kSigned,
          type.bits};
}

kernels::Window make_window(const graph::Geometry& g, std::int64_t pad_value) {
  const auto narrow = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  kernels::Window w;
  w.kernel_h = narrow(g.kernel_h);
  w.kernel_w = narrow(g.kernel_w);
  w.stride_h = narrow(g.stride_h);
  w.stride_w = narrow(g.stride_w);
  w.dilation_h = narrow(g.dilation_h);
  w.dilation_w = narrow(g.dilation_w);
  w.pad_top = narrow(g.pad_top);
  w.pad_left = narrow(g.pad_left);
  w.pad_bottom = narrow(g.pad_bottom);
  w.pad_right = narrow(g.pad_right);
  w.pad_value = static_cast<std::int32_t>(pad_value);
  return w;
}

Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, Type input, Type output) {
  Folded f = fold(a);
  const Chain chain = a.chain.contracted();
  Reach reach = reach_of(f, input);
  MILLRACE_ASSIGN(const Ways ways, ways_of(chain, reach.results));
  if (std::find(ways.falling.begin(), ways.falling.end(), true) != ways.falling.end()) {
    negate_falling(f, ways.falling);
    reach = reach_of(f, input);
  }

  kernels::Convolution c;
  c.window = make_window(a.geometry, a.input_zero);
  c.out_channels = static_cast<std::uint32_t>(a.out_channels);
  c.groups = static_cast<std::uint32_t>(a.groups);
  c.weight_type = element_type(weight_type(f.weights));
  if (c.weight_type.bits > 16)
    return unsupported("its weights need more than 16 bits once their zero point is taken off");
  c.weights = std::vector<std::int16_t>(f.weights.begin(), f.weights.end());
  for (const std::int64_t b : f.bias)
    if (b != saturate32(b)) return unsupported("its bias needs more than 32 bits");
  if (std::any_of(f.bias.begin(), f.bias.end(), [](std::int64_t b) { return b != 0; }))
    c.bias.assign(f.bias.begin(), f.bias.end());
  const Type accumulator = Type::holding(reach.partial.lowest, reach.partial.highest);
  if (accumulator.bits > 32)
    return unsupported("its sums need " + std::to_string(accumulator.bits) + " bits; 32 are taken");
  c.accumulator = element_type(accumulator);
  if (chain.steps.empty()) return c;
  if (only_clamps(chain)) {
    c.requantise = clamp_only(chain, output);
    return c;
  }
  const bool one_chain = chain.channels() == 1;
  const Reference reference = [&chain, &ways, one_chain](std::int64_t acc, std::size_t channel) {
    return chain.evaluate(ways.falling[channel] ? -acc : acc, one_chain ? 0 : channel);
  };
  MILLRACE_ASSIGN(c.requantise, solve_and_prove(make_problem(reference, reach.results, !ways.joint, output)));
  return c;
}

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, Type input, Type output) {
  kernels::SumPool p;
  p.window = make_window(s.geometry, s.zero);
  const std::int64_t taps = s.geometry.kernel_h * s.geometry.kernel_w;
  const Range range{taps * input.lowest(), taps * input.highest()};
  const Type accumulator =
      Type::holding(std::min<std::int64_t>(range.lowest, 0), std::max<std::int64_t>(range.highest, 0));
  if (accumulator.bits > 32)
    return unsupported("its sums need " + std::to_string(accumulator.bits) + " bits; 32 are taken");
  p.accumulator = element_type(accumulator);
  const Chain chain = s.chain.contracted();
  const std::int64_t zeros = taps * s.zero;
  if (chain.steps.empty()) {
    p.requantise = clamp_only({}, output);
    p.requantise.offset = {-zeros};
    return p;
  }
  for (std::size_t channel = 0; channel < chain.channels(); ++channel) {
    MILLRACE_TRY(way_of(chain, {range.lowest - zeros, range.highest - zeros}, channel));
  }
  const Reference reference = [&chain, zeros](std::int64_t acc, std::size_t channel) {
    return chain.evaluate(acc - zeros, channel);
  };
  MILLRACE_ASSIGN(p.requantise,
                  solve_and_prove(make_problem(reference, std::vector<Range>(chain.channels(), range),
                                               chain.channels() > 1, output)));
  return p;
}

Result<kernels::Operation> make_rescale(const Chain& written, Type input, Type output) {
  const Chain chain = written.contracted();
  if (input.bits > 32) return unsupported("works on " + to_string(input));
  if (only_clamps(chain)) return kernels::Operation(kernels::Rescale{clamp_only(chain, output)});
  const Range range{input.lowest(), input.highest()};
  const Reference reference = [&chain](std::int64_t acc, std::size_t channel) {
    return chain.evaluate(acc, channel);
  };
  // Of few elements all are compared, whatever the chain's steps promise: a table of them is right in any
  // case.
  const bool small = input.bits <= 8 && chain.channels() == 1;
  if (!small) {
    for (std::size_t channel = 0; channel < chain.channels(); ++channel) {
      MILLRACE_TRY(way_of(chain, range, channel));
    }
  }
  if (!small || is_sorted(chain, range, 0, std::less_equal<>())) {
    auto r = solve_and_prove(
        make_problem(reference, std::vector<Range>(chain.channels(), range), chain.channels() > 1, output));
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
