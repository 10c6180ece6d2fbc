#include "runtime/plan/cable_faults.hpp"

#include <cmath>

namespace millrace::runtime::plan {

std::string wrong_fault(std::string_view key, double value) {
  if (key == "latency_ns")
    return value >= 0 && value <= kMostLatencyNs ? "" : "must be 0 to 1e10, which is 10 s";
  if (key == "gigabits_per_second")
    return value >= kLeastFaultyRate && std::isfinite(value)
               ? ""
               : "must be a number of at least 1e-6 (1 kbit/s); without this key, the rate has no limit";
  if (key == "bit_errors")
    return value >= 0 && value <= 0.5
               ? ""
               : "must be a probability of 0 to 0.5; "
                 "at 0.5, the bits that arrive say nothing about the bits that were sent";
  return value >= 0 && value <= 1 ? "" : "must be a probability, 0 to 1";
}

Status check_faults(const CableFaults& faults) {
  for (const auto& [key, fault] : kFaults) {
    const double value = faults.*fault;
    if (value == 0) continue;
    if (const std::string why = wrong_fault(key, value); !why.empty())
      return Error(ErrorCode::kInvalidInput, std::string(key) + ": " + why);
  }
  return {};
}

}  // namespace millrace::runtime::plan
