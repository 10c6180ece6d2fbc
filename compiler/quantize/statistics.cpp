#include "compiler/quantize/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/text.hpp"

namespace millrace::compiler::quantize {
namespace {

using graph::Graph;
using graph::ValueId;

/// Returns which values are observed: the graph's inputs, and float values that depend on them.
std::vector<bool> observed_values(const Graph& graph) {
  const graph::Uses uses(graph);
  std::vector<bool> observed(graph.values.size(), false);
  for (const ValueId v : graph.inputs) observed[v] = true;
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (uses.producer[v] >= 0 && graph.values[v].type.is_float() && graph.values[v].constant == nullptr)
      observed[v] = true;
  return observed;
}

/// Measures how much information a histogram loses if its range is cut off behind the first `bins` bins and divided
/// into `levels` equal steps. Returns the Kullback-Leibler divergence of the histogram, with the cut-off counts in the
/// last bin, from its quantised form. Infinite if nothing was counted.
double divergence(const std::vector<std::uint64_t>& counts, std::size_t bins, std::size_t levels) {
  std::vector<double> p(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(bins));
  const std::vector<double> kept = p;
  double sum_p = 0, sum_q = 0;
  for (std::size_t i = bins; i < counts.size(); ++i) p[bins - 1] += static_cast<double>(counts[i]);
  std::vector<double> q(bins, 0);
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t begin = level * bins / levels, end = (level + 1) * bins / levels;
    double total = 0, filled = 0;
    for (std::size_t i = begin; i < end; ++i) {
      total += kept[i];
      filled += p[i] > 0 ? 1 : 0;
    }
    for (std::size_t i = begin; i < end; ++i)
      if (p[i] > 0) q[i] = total / filled;
  }
  for (std::size_t i = 0; i < bins; ++i) {
    sum_p += p[i];
    sum_q += q[i];
  }
  if (sum_p <= 0 || sum_q <= 0) return std::numeric_limits<double>::infinity();
  constexpr double kLeast = 1e-9;  // stands for an empty step of q where p has an outlier
  double result = 0;
  for (std::size_t i = 0; i < bins; ++i)
    if (p[i] > 0) result += p[i] / sum_p * std::log((p[i] / sum_p) / std::max(q[i] / sum_q, kLeast));
  return result;
}

}  // namespace

Histogram::Histogram(Range range)
    : range_(range),
      width_((static_cast<double>(range.high) - static_cast<double>(range.low)) /
             static_cast<double>(kBins)) {
  if (width_ > 0) counts_.assign(kBins, 0);
}

void Histogram::add(std::span<const float> elements) {
  if (counts_.empty()) return;
  for (const float x : elements) {
    const double at = (static_cast<double>(x) - static_cast<double>(range_.low)) / width_;
    ++counts_[static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(kBins - 1)))];
  }
}

Range Histogram::percentile(double percent) const {
  if (counts_.empty()) return range_;
  double total = 0;
  for (const std::uint64_t n : counts_) total += static_cast<double>(n);
  const bool two_sided = range_.low < 0 && range_.high > 0;
  const double most = total * (1 - percent / 100) / (two_sided ? 2 : 1);
  std::size_t first = 0, last = kBins;
  double cut = 0;
  if (range_.low < 0)
    while (first < last && (cut += static_cast<double>(counts_[first])) <= most) ++first;
  cut = 0;
  if (range_.high > 0)
    while (last > first + 1 && (cut += static_cast<double>(counts_[last - 1])) <= most) --last;
  const double low = static_cast<double>(range_.low);
  return {static_cast<float>(std::min(0.0, low + static_cast<double>(first) * width_)),
          static_cast<float>(std::max(0.0, low + static_cast<double>(last) * width_))};
}

Range Histogram::entropy(int levels) const {
  if (counts_.empty()) return range_;
  // The search works on magnitudes. If the range has both signs, each sign has half of the levels.
  const double low = static_cast<double>(range_.low), high = static_cast<double>(range_.high);
  const double largest = std::max(-low, high);
  std::vector<std::uint64_t> magnitudes(kBins, 0);
  for (std::size_t i = 0; i < kBins; ++i) {
    const double centre = low + (static_cast<double>(i) + 0.5) * width_;
    const double at = std::abs(centre) / largest * static_cast<double>(kBins);
    magnitudes[std::min(kBins - 1, static_cast<std::size_t>(at))] += counts_[i];
  }
  // Relu produces many zeros, which every range represents exactly. Replace their count, so that they do not outweigh
  // the elements that a smaller range cuts off.
  magnitudes[0] = magnitudes[1];
  const bool two_sided = low < 0 && high > 0;
  const std::size_t steps = static_cast<std::size_t>(two_sided ? levels / 2 : levels);
  double least = std::numeric_limits<double>::infinity();
  std::size_t best = kBins;
  for (std::size_t bins = std::max<std::size_t>(steps, kBins / 16); bins <= kBins; bins += 16)
    if (const double d = divergence(magnitudes, bins, steps); d < least) {
      least = d;
      best = bins;
    }
  const double bound = largest * static_cast<double>(best) / static_cast<double>(kBins);
  return {static_cast<float>(std::max(low, -bound)), static_cast<float>(std::min(high, bound))};
}

Range Statistics::range(ValueId id, Method method, double percent, int levels) const {
  if (method == Method::kMinMax || histograms.empty()) return values[id].range;
  return method == Method::kPercentile ? histograms[id].percentile(percent) : histograms[id].entropy(levels);
}

Result<Statistics> observe(const Graph& graph, std::span<const Frame> frames, Method method) {
  MILLRACE_ASSIGN(Evaluator evaluator, Evaluator::make(graph));
  const std::vector<bool> wanted = observed_values(graph);
  Statistics statistics;
  statistics.frames = frames.size();
  statistics.values.resize(graph.values.size());
  for (std::size_t f = 0; f < frames.size(); ++f) {
    evaluator.run(frames[f]);
    for (std::size_t v = 0; v < wanted.size(); ++v) {
      if (!wanted[v]) continue;
      const std::vector<float>& x = evaluator.value(static_cast<ValueId>(v));
      Observed& seen = statistics.values[v];
      seen.mean.resize(x.size(), 0);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!std::isfinite(x[i]))
          return Error(ErrorCode::kInvalidInput,
                       "sample " + std::to_string(f) + ": tensor '" + printable(graph.values[v].name) +
                           "' becomes NaN or infinite; leave this sample out, or correct the model");
        seen.range.low = std::min(seen.range.low, x[i]);
        seen.range.high = std::max(seen.range.high, x[i]);
        seen.mean[i] += static_cast<double>(x[i]) / static_cast<double>(frames.size());
      }
    }
  }
  if (method == Method::kMinMax) return statistics;
  for (const Observed& seen : statistics.values) statistics.histograms.emplace_back(seen.range);
  for (const Frame& frame : frames) {
    evaluator.run(frame);
    for (std::size_t v = 0; v < wanted.size(); ++v)
      if (wanted[v]) statistics.histograms[v].add(evaluator.value(static_cast<ValueId>(v)));
  }
  return statistics;
}

}  // namespace millrace::compiler::quantize
