// Groups of cards that are alike: same kinds, same cables. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/explore/board.hpp"

namespace millrace::compiler::explore {

using Cards = std::vector<std::uint32_t>;  // of the problem, by place

class Groups {
 public:
  explicit Groups(const Board& board);

  /// Groups of so many cards that could stand in a cluster `copies` times, joined by cables where the model
  /// needs that; of those alike, one. To be asked for in ascending order of `cards`.
  std::vector<Cards> of(std::size_t cards, std::size_t copies);

  /// How often the cluster has the cards of such a group, cables aside.
  std::size_t most_copies(const Cards& cards) const;

  /// Disjoint groups that can stand in for a solution's cards, its own first where it is among them; as many
  /// as there are, at most `most`.
  std::vector<Cards> places_for(const Solution& solution, std::size_t most) const;

  bool same_kind(std::uint32_t card, std::uint32_t other) const { return kinds_[card] == kinds_[other]; }
  bool same_wire(std::uint32_t a, std::uint32_t b, std::uint32_t other_a, std::uint32_t other_b) const;

  /// Whether a group was left out for there being too many.
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
