#include "compiler/explore/format.hpp"

#include <cmath>
#include <cstdio>

namespace millrace::compiler::explore {
namespace {

constexpr double kDisplaySlack = 1 + 1e-9;

struct Unit {
  double per_second;
  const char* name;
};

Unit unit_of(double seconds) {
  if (seconds < 1e-7) return {1e9, " ns"};
  return seconds < 1e-3 ? Unit{1e6, " us"} : Unit{1e3, " ms"};
}

}  // namespace

std::string plural(std::size_t n, const std::string& word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}

std::string number(double value) {
  char text[32];
  const bool whole = value >= 100 || value == std::floor(value);
  const char* format = value >= 1e15 ? "%.3g" : whole ? "%.0f" : "%.1f";
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string time(double seconds) {
  const Unit unit = unit_of(seconds);
  return number(seconds * unit.per_second) + unit.name;
}

std::string rate_down(double frames_per_second) {
  const double step = frames_per_second < 100 ? 10 : 1;
  return number(std::floor(frames_per_second * kDisplaySlack * step) / step);
}

std::string time_up(double seconds) {
  const Unit unit = unit_of(seconds);
  const double value = seconds * unit.per_second, step = value < 100 ? 10 : 1;
  return number(std::ceil(value / kDisplaySlack * step) / step) + unit.name;
}

void add_overfull(std::string& text, const Card& card, std::size_t region, const Amounts& used) {
  const auto& [name, available] = card.regions[region];
  for (std::size_t k = 0; k < kMemoryBytes; ++k)
    if (used[k] > available[k])
      text += (text.empty() ? "card '" : "; card '") + card.name + "', region '" + name +
              "': " + std::to_string(used[k]) + " " + kind_name(k) + " are needed, " +
              std::to_string(available[k]) + " are left to it";
}

std::string missed(const Targets& targets, double frames_per_second, double latency_seconds) {
  std::string out;
  if (targets.frames_per_second && frames_per_second * kDisplaySlack < *targets.frames_per_second)
    out = rate_down(frames_per_second) + " frames/s where " + number(*targets.frames_per_second) +
          " are required (--target-fps)";
  if (targets.max_latency_seconds && latency_seconds > *targets.max_latency_seconds * kDisplaySlack)
    out += (out.empty() ? "" : ", and ") + time_up(latency_seconds) + " a frame where " +
           time(*targets.max_latency_seconds) + " are required (--max-latency)";
  return out;
}

}  // namespace millrace::compiler::explore
