// What a predicted solution claims, recomputed from the problem: no code of the search is used. Private to this
// folder.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore {

using Ends = std::pair<std::uint32_t, std::uint32_t>;

/// The cables between two cards, both ways, with the figures of the slowest.
struct Between {
  std::uint32_t cables = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity(), latency_seconds = 0;
  bool operator==(const Between&) const = default;
};

std::map<Ends, Between> cables_of(const Problem& problem);

/// What does not hold of a solution's regions, budgets, interval, latency, targets, `gap` and `exact`. Empty:
/// nothing. Its operations, cards, edges and layers hold; `part_of` has the part of each operation.
std::string check_claims(const Problem& problem, const Solution& solution,
                         const std::vector<std::size_t>& part_of);

}  // namespace millrace::compiler::explore
