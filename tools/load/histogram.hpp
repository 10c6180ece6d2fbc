// A histogram of latencies with bounded memory, modelled on Gil Tene's HdrHistogram. Between a value and its double
// there are 128 buckets, so the histogram reproduces a value with an error below 0.8 %.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::load {

class Histogram {
 public:
  using Duration = std::chrono::nanoseconds;

  /// The longest duration, about 18 minutes. Longer durations count as kLongest, negative durations as 0.
  static constexpr Duration kLongest{(1LL << 40) - 1};

  void record(Duration value) {
    const std::uint64_t v = static_cast<std::uint64_t>(std::clamp(value, Duration(0), kLongest).count());
    ++buckets_[index_of(v)];
    ++count_;
    sum_ += static_cast<double>(v);
    min_ = std::min(min_, v);
    max_ = std::max(max_, v);
  }

  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  std::uint64_t count() const { return count_; }
  Duration max() const { return Duration(static_cast<std::int64_t>(max_)); }  // exact; 0 without values
  Duration min() const {
    return Duration(static_cast<std::int64_t>(count_ == 0 ? 0 : min_));
  }  // exact; 0 without values
  double mean_ns() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  /// Returns the value that `percent` (0 to 100) percent of all values do not exceed, rounded to the middle of its
  /// bucket. Returns 0 if there are no values.
  Duration percentile(double percent) const {
    const auto wanted = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::ceil(percent / 100 * static_cast<double>(count_))));
    if (count_ == 0 || wanted >= count_) return max();
    std::uint64_t seen = 0;
    std::size_t i = 0;
    while ((seen += buckets_[i]) < wanted) ++i;
    return Duration(
        static_cast<std::int64_t>(std::clamp((lowest_of(i) + lowest_of(i + 1) - 1) / 2, min_, max_)));
  }

  /// Calls use(upper bound of the bucket, count) for each bucket that is not empty, in ascending order. The
  /// upper bound is the lowest value of the next bucket.
  template <class Use>
  void for_each(Use use) const {
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      if (buckets_[i] != 0) use(Duration(static_cast<std::int64_t>(lowest_of(i + 1))), buckets_[i]);
  }

 private:
  static constexpr unsigned kBits = 7;
  static constexpr std::size_t kPerDoubling = 1U << kBits;

  // Below 256, each bucket holds one value. From 256 on, there are 128 buckets between a value and its double.
  static std::size_t index_of(std::uint64_t v) {
    const unsigned shift = v < 2 * kPerDoubling ? 0U : static_cast<unsigned>(std::bit_width(v)) - (kBits + 1);
    return shift * kPerDoubling + static_cast<std::size_t>(v >> shift);
  }
  static std::uint64_t lowest_of(std::size_t index) {
    if (index < 2 * kPerDoubling) return index;
    const std::size_t shift = index / kPerDoubling - 1;
    return (index - shift * kPerDoubling) << shift;
  }

  std::vector<std::uint64_t> buckets_ =
      std::vector<std::uint64_t>((40 - kBits) * kPerDoubling + kPerDoubling);
  std::uint64_t count_ = 0, min_ = ~std::uint64_t{0}, max_ = 0;
  double sum_ = 0;
};

}  // namespace millrace::load
