// Runs calibration samples through a graph and collects ranges, histograms and means of its values. Private to
// compiler/quantize and its tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/quantize/evaluate.hpp"

namespace millrace::compiler::quantize {

struct Range {
  float low = 0, high = 0;  // always includes 0, so that padding and Relu's zero are exact
};

/// How to choose the range of an activation from its observed elements.
enum class Method : std::uint8_t {
  kMinMax,      // everything observed
  kPercentile,  // without the largest magnitudes, of which a share is cut off
  kEntropy,  // the range whose quantised distribution loses the least information (Kullback-Leibler divergence)
};

/// Counts elements by value, in bins of equal width between the lowest and the highest observed element.
class Histogram {
 public:
  static constexpr std::size_t kBins = 2048;
  explicit Histogram(Range range);
  void add(std::span<const float> elements);

  Range whole() const { return range_; }
  /// Returns a range that at most (100 - percent) / 100 of the elements exceed. If the range has both signs, half of
  /// these elements may be below it and half above it.
  Range percentile(double percent) const;
  /// Returns the range with which a type with `levels` numbers loses the least information (Kullback-Leibler
  /// divergence).
  Range entropy(int levels) const;

 private:
  Range range_;
  double width_ = 0;
  std::vector<std::uint64_t> counts_;
};

/// What the samples showed about one value. Empty for values that are not float32 or that depend only on constants.
struct Observed {
  Range range;
  std::vector<double> mean;  // of each element over all frames
};

struct Statistics {
  std::vector<Observed> values;       // by ValueId
  std::vector<Histogram> histograms;  // by ValueId; empty for Method::kMinMax
  std::size_t frames = 0;

  Range range(graph::ValueId id, Method method, double percent, int levels) const;
};

/// Runs all frames through the graph, twice if the method needs histograms. kInvalidInput if a value becomes NaN or
/// infinite; the error names the value and the frame. Other errors are those of Evaluator::make().
Result<Statistics> observe(const graph::Graph& graph, std::span<const Frame> frames, Method method);

}  // namespace millrace::compiler::quantize
