// What a predicted solution claims, place by place, recomputed from the problem: no code of the search is
// used. Private to this folder.
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

/// The cables between two cards, both ways; of one, the slowest's figures.
struct Between {
  std::uint32_t cables = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity(), latency_seconds = 0;
};

std::map<Ends, Between> cables_of(const Problem& problem);

/// Of a solution whose operations, cards, edges and layers hold. The arguments outlive it.
class Claims {
 public:
  /// `part_of`: the part of each operation.
  Claims(const Problem& problem, const Solution& solution, const std::vector<std::size_t>& part_of);

  /// What does not hold of regions, budgets, interval, latency and targets. Empty where all holds.
  std::string check();

  /// What does not hold of implementations, regions and budgets. Before interval(), latency(), missed().
  std::string check_fit();

  /// Whether its region has room for the operation built in another way, and all others as they are. After
  /// check_fit() found nothing.
  bool has_room(std::size_t operation, const Implementation& other) const;

  double interval() const;
  double latency() const;

  /// The target that an interval and a latency miss, as a sentence; empty: none.
  std::string missed(double interval_seconds, double latency_seconds) const;

 private:
  struct Beats {
    double first = 0, last = 0;
  };
  using Uses = std::map<std::pair<std::uint32_t, std::uint32_t>, Amounts>;  // (place, region)

  const Part& part(std::size_t operation) const { return solution_.parts[part_of_[operation]]; }
  const Card& card(std::uint32_t place) const { return problem_.cards[solution_.card[place]]; }
  const Implementation& way(std::size_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }
  std::string check_choices() const;
  std::string check_regions() const;
  std::string check_budgets();
  Beats through(std::size_t operation, const Beats& in) const;
  Beats over(const Hop& hop, const Beats& from) const;

  const Problem& problem_;
  const Solution& solution_;
  const std::vector<std::size_t>& part_of_;
  const std::map<Ends, Between> cables_;
  Uses used_, fabric_;                                // without and with what links take
  std::map<Ends, std::vector<std::uint64_t>> bytes_;  // of each cable between two places
};

/// What is wrong with `gap` and `exact` of a solution whose other claims hold; empty: nothing. The proof is
/// the search's. Held to here: nothing better than it allows for comes of building the same places otherwise,
/// and it allows for nothing that no implementation could reach.
std::string check_gap(const Problem& problem, const Solution& solution,
                      const std::vector<std::size_t>& part_of);

}  // namespace millrace::compiler::explore
