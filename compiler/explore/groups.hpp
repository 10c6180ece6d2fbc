// Groups of cards that can replace each other: cards of the same kinds, with the same cables. Private to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/explore/board.hpp"

namespace millrace::compiler::explore {

using Cards = std::vector<std::uint32_t>;  // the problem's cards, by position in the pipeline

class Groups {
 public:
  explicit Groups(const Board& board);

  /// Returns groups of `cards` cards, joined by cables if the model needs cables. Leaves out groups of which the
  /// cluster cannot contain `copies` equal ones. Of several interchangeable groups, returns only one. Successive calls
  /// must pass ascending numbers of cards.
  std::vector<Cards> of(std::size_t cards, std::size_t copies);

  /// Returns how many groups with the same kinds of cards as `cards` the cluster could form. Ignores cables.
  std::size_t most_copies(const Cards& cards) const;

  /// Returns at most `most` groups of cards, each of which can replace a solution's cards. No card is in two groups. If
  /// the solution's own cards are one of these groups, this group comes first.
  std::vector<Cards> places_for(const Solution& solution, std::size_t most) const;

  bool same_kind(std::uint32_t card, std::uint32_t other) const { return kinds_[card] == kinds_[other]; }
  bool same_wire(std::uint32_t a, std::uint32_t b, std::uint32_t other_a, std::uint32_t other_b) const;

  /// Whether every possible group was considered. False if there were too many groups, so that some were left out.
  bool complete() const { return complete_; }

 private:
  bool alike(const Cards& a, const Cards& b) const;

  const Board& board_;
  std::vector<std::uint32_t> kinds_;             // [card]: the first card of the same kind
  std::map<std::uint32_t, std::size_t> have_;    // kind -> number of cards
  bool row_ = false;                             // whether each layer reads the previous one
  std::map<std::size_t, std::set<Cards>> sets_;  // number of cards -> groups, each sorted by card
  bool complete_ = true;
};

}  // namespace millrace::compiler::explore
