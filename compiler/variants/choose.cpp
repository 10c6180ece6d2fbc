#include "compiler/variants/choose.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace millrace::compiler::variants {
namespace {

using Coordinates = std::array<double, 4>;

/// Cards as they are, the others by ratio; each axis from 0 to 1 over all that are judged.
std::vector<Coordinates> coordinates(const std::vector<Figures>& all,
                                     const std::vector<std::size_t>& judged) {
  std::vector<Coordinates> out(all.size());
  for (const auto i : judged)
    out[i] = {all[i].cards, std::log(all[i].interval_seconds), std::log(all[i].latency_seconds),
              std::log(std::max(1e-6, all[i].fullest))};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const auto i : judged) {
      low = std::min(low, out[i][axis]);
      high = std::max(high, out[i][axis]);
    }
    for (const auto i : judged) out[i][axis] = high > low ? (out[i][axis] - low) / (high - low) : 0;
  }
  return out;
}

double distance(const Coordinates& a, const Coordinates& b) {
  double sum = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) sum += (a[axis] - b[axis]) * (a[axis] - b[axis]);
  return sum;
}

}  // namespace

Figures figures_of(const Plan& plan, const explore::Shares& shares) {
  Figures out;
  out.cards = static_cast<double>(plan.cards());
  out.interval_seconds = plan.interval_seconds / static_cast<double>(plan.replicas());
  out.latency_seconds = plan.latency_seconds;
  for (const auto& place : plan.analysis.places)
    for (const auto& region : place.regions)
      for (std::size_t k = 0; k < explore::kMemoryBytes; ++k)
        if (region.available[k] > 0)
          out.fullest = std::max(out.fullest, static_cast<double>(region.used[k]) /
                                                  static_cast<double>(region.available[k]) * shares[k]);
  return out;
}

bool dominates(const Figures& a, const Figures& b) {
  return a.cards <= b.cards && a.interval_seconds <= b.interval_seconds &&
         a.latency_seconds <= b.latency_seconds && a.fullest <= b.fullest && a != b;
}

std::vector<std::size_t> choose(const std::vector<Figures>& all, std::size_t count) {
  std::vector<std::size_t> left, taken;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool worse =
        std::any_of(all.begin(), all.end(), [&](const auto& f) { return dominates(f, all[i]); });
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(i);
    if (i == 0 || (!worse && std::find(all.begin(), end, all[i]) == end)) left.push_back(i);
  }
  const auto at = coordinates(all, left);
  while (!left.empty() && taken.size() < count) {
    auto best = left.begin();
    double farthest = -1;
    for (auto i = left.begin(); i != left.end() && !taken.empty(); ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto j : taken) nearest = std::min(nearest, distance(at[*i], at[j]));
      if (nearest <= farthest) continue;
      farthest = nearest;
      best = i;
    }
    taken.push_back(*best);
    left.erase(best);
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

}  // namespace millrace::compiler::variants
