// Groups of cards that can replace each other: cards of the same kinds, with the same cables. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/explore/board.hpp"

namespace millrace::compiler::explore {

using Cards = std::vector<std::uint32_t>;  // of the problem, by place

class Groups {
 public:
  explicit Groups(const Board& board);

  /// Groups of `cards` cards of which the cluster may have `copies`, joined by cables if the model needs that. Of
  /// groups that are alike, one. To be called with ascending `cards`.
  std::vector<Cards> of(std::size_t cards, std::size_t copies);

  /// How many such groups the cluster has cards for, without regard to cables.
  std::size_t most_copies(const Cards& cards) const;

  /// Disjoint groups that can replace a solution's cards, at most `most`. The solution's own comes first if it is
  /// among them.
  std::vector<Cards> places_for(const Solution& solution, std::size_t most) const;

  bool same_kind(std::uint32_t card, std::uint32_t other) const { return kinds_[card] == kinds_[other]; }
  bool same_wire(std::uint32_t a, std::uint32_t b, std::uint32_t other_a, std::uint32_t other_b) const;

  /// False if groups were left out because there are too many.
  bool complete() const { return complete_; }

 private:
  bool alike(const Cards& a, const Cards& b) const;

  const Board& board_;
  std::vector<std::uint32_t> kinds_;             // of each card: the first one alike
  std::map<std::uint32_t, std::size_t> have_;    // kind -> cards
  bool row_ = false;                             // each layer reads the one before
  std::map<std::size_t, std::set<Cards>> sets_;  // by size; ascending cards
  bool complete_ = true;
};

}  // namespace millrace::compiler::explore
