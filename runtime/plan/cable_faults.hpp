// The faults of the network behind an emulated UDP cable, and the limits of their values.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

/// The longest latency of a cable or a network: 10 s.
inline constexpr double kMostLatencyNs = 1e10;
/// The lowest rate to which an emulated network may be limited: 1 kbit/s.
inline constexpr double kLeastFaultyRate = 1e-6;

/// What an emulated network does to the datagrams of a cable, in both directions. Probabilities are 0 to 1.
struct CableFaults {
  double loss = 0;                 // probability that a datagram is lost
  double duplicate = 0;            // probability that a datagram arrives twice
  double reorder = 0;              // probability that a datagram is overtaken by later ones
  double bit_errors = 0;           // probability that a bit is inverted, at most 0.5
  double latency_ns = 0;           // delay of every datagram
  double gigabits_per_second = 0;  // rate at which datagrams pass; 0: unlimited
  bool outage = false;             // whether nothing arrives
  bool is_none() const { return *this == CableFaults{}; }
  bool operator==(const CableFaults&) const = default;
};

/// The faults that are numbers, with their names in cluster files and in requests.
inline constexpr std::pair<std::string_view, double CableFaults::*> kFaults[] = {
    {"loss", &CableFaults::loss},
    {"duplicate", &CableFaults::duplicate},
    {"reorder", &CableFaults::reorder},
    {"bit_errors", &CableFaults::bit_errors},
    {"latency_ns", &CableFaults::latency_ns},
    {"gigabits_per_second", &CableFaults::gigabits_per_second}};

/// Returns what is wrong with a fault that someone has given, or an empty text. `key` is a name from kFaults.
std::string wrong_fault(std::string_view key, double value);

/// Returns kInvalidInput, with the fault's name, if a fault has an impossible value. A rate of 0 stands for no limit.
Status check_faults(const CableFaults& faults);

}  // namespace millrace::runtime::plan
