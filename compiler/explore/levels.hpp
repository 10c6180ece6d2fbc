// What fits where at one interval. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "compiler/explore/packing.hpp"
#include "compiler/explore/placing.hpp"

namespace millrace::compiler::explore {

/// Cards that are alike: same clock, regions and cost of a link.
std::vector<std::uint32_t> card_kinds(const Problem& problem);

/// At an interval, how far a card of a kind gets with layers from a given one on. Where a packing can neither
/// be found nor excluded, `optimistic` takes it for found, else it is taken for impossible.
class Level {
 public:
  Level(const Board& board, const std::vector<std::uint32_t>& kinds, double seconds, bool optimistic);

  double seconds() const { return seconds_; }

  /// Every operation has a way that is quick enough, by the clock of this card.
  bool quick_enough(std::uint32_t card) const;

  /// The first layer that no longer fits, when layers from `begin` on stand on `card` with so many cables
  /// used; `begin` where not even one does.
  std::size_t farthest(std::uint32_t card, std::uint32_t cables, std::size_t begin);

  /// Region and implementation of each layer in [begin, end), which must be at most farthest().
  void choose(std::uint32_t card, std::uint32_t cables, std::size_t begin, std::size_t end,
              Assignment& assignment);

 private:
  using Options = std::vector<std::vector<Option>>;  // of each operation

  Amounts budget(std::uint32_t card, std::uint32_t cables, std::size_t region) const;
  std::size_t extend(const Options& options, const Amounts& budget, std::size_t begin) const;
  std::vector<const std::vector<Option>*> between(const Options& options, std::size_t begin,
                                                  std::size_t end) const;

  const Board& board_;
  const std::vector<std::uint32_t>& kinds_;
  double seconds_;
  bool optimistic_;
  bool thinned_ = false;                      // options were left out, for there were many operations
  std::map<std::uint32_t, Options> options_;  // kind -> of each operation
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, std::size_t> farthest_;
};

/// Cycles of a clock in so many seconds, whole ones.
std::uint64_t cycles_in(double seconds, double clock_hz);

}  // namespace millrace::compiler::explore
