#include "compiler/explore/groups.hpp"

#include <algorithm>
#include <set>

namespace millrace::compiler::explore {

using Pair = std::pair<std::uint32_t, std::uint32_t>;

namespace {

constexpr std::size_t kMostSets = 2000;     // most groups of one size that are considered
constexpr std::size_t kMostSteps = 50'000;  // most steps in the search for groups that share no card

/// Tries all assignments of cards to the positions of a pattern, one position after another. `fits` says whether a card
/// suits the next position. `take` is called with each complete assignment and returns true to end the search.
template <class Fits, class Take>
bool lay(std::size_t places, std::size_t cards, Cards& at, const Fits& fits, const Take& take) {
  if (at.size() == places) return take(at);
  for (std::uint32_t card = 0; card < cards; ++card) {
    if (std::find(at.begin(), at.end(), card) != at.end() || !fits(at, card)) continue;
    at.push_back(card);
    if (lay(places, cards, at, fits, take)) return true;
    at.pop_back();
  }
  return false;
}

/// Searches for as many groups of cards as possible that match a pattern. No card is in two groups.
class Packing {
 public:
  Packing(const Groups& groups, const Solution& solution, std::size_t cards, std::size_t most)
      : groups_(groups), pattern_(solution.card), free_(cards, true), most_(most) {
    for (const Hop& hop : solution.hops) joined_.emplace(hop.from, hop.to);
  }

  std::vector<Cards> run() {
    extend(0);
    return std::move(best_);
  }

 private:
  bool done() const { return best_.size() >= most_ || steps_ > kMostSteps; }

  void extend(std::uint32_t from) {
    if (found_.size() > best_.size()) best_ = found_;
    const auto left = static_cast<std::size_t>(std::count(free_.begin(), free_.end(), true));
    if (done() || found_.size() + left / pattern_.size() <= best_.size()) return;
    while (from < free_.size() && !free_[from]) ++from;
    if (from == free_.size()) return;
    for (const Cards& group : groups_with(from)) {
      for (const auto card : group) free_[card] = false;
      found_.push_back(group);
      extend(from + 1);
      found_.pop_back();
      for (const auto card : group) free_[card] = true;
      if (done()) return;
    }
    free_[from] = false;  // now try without this card
    extend(from + 1);
    free_[from] = true;
  }

  /// Returns the groups of free cards that match the pattern and contain `card`, only one group for each set of cards.
  std::vector<Cards> groups_with(std::uint32_t card) {
    std::vector<Cards> out;
    std::set<Cards> seen;
    for (std::size_t own = 0; own < pattern_.size(); ++own) {
      if (!groups_.same_kind(pattern_[own], card)) continue;
      const auto fits = [&](const Cards& at, std::uint32_t next) {
        const std::size_t place = at.size();
        ++steps_;
        if ((place == own) != (next == card) || !free_[next] || steps_ > kMostSteps) return false;
        if (!groups_.same_kind(pattern_[place], next)) return false;
        return std::all_of(joined_.begin(), joined_.end(), [&](const Pair& join) {
          return join.second != place ||
                 groups_.same_wire(pattern_[join.first], pattern_[place], at[join.first], next);
        });
      };
      Cards at;
      lay(pattern_.size(), free_.size(), at, fits, [&](const Cards& group) {
        Cards sorted = group;
        std::sort(sorted.begin(), sorted.end());
        if (seen.insert(std::move(sorted)).second) out.push_back(group);
        return false;
      });
    }
    return out;
  }

  const Groups& groups_;
  const Cards& pattern_;
  std::vector<bool> free_;
  const std::size_t most_;
  std::set<Pair> joined_;  // pairs of positions between which a tensor uses a cable
  std::size_t steps_ = 0;
  std::vector<Cards> found_, best_;
};

}  // namespace

Groups::Groups(const Board& board) : board_(board), row_(reads_the_one_before(board.chain)) {
  const auto& cards = board.problem.cards;
  for (std::uint32_t c = 0; c < cards.size(); ++c) {
    std::uint32_t kind = 0;
    while (cards[kind].device != cards[c].device || !explore::alike(cards[kind], cards[c])) ++kind;
    kinds_.push_back(kind);
    ++have_[kind];
  }
}

bool Groups::same_wire(std::uint32_t a, std::uint32_t b, std::uint32_t other_a, std::uint32_t other_b) const {
  return board_.wire(a, b) == board_.wire(other_a, other_b);
}

std::size_t Groups::most_copies(const Cards& cards) const {
  std::map<std::uint32_t, std::size_t> needs;
  for (const auto card : cards) ++needs[kinds_[card]];
  std::size_t most = cards.empty() ? 0 : board_.problem.cards.size();
  for (const auto& [kind, count] : needs) most = std::min(most, have_.at(kind) / count);
  return most;
}

bool Groups::alike(const Cards& a, const Cards& b) const {
  const auto fits = [&](const Cards& at, std::uint32_t next) {
    const std::size_t place = at.size();
    if (!same_kind(a[place], b[next])) return false;
    for (std::size_t p = 0; p < place; ++p)
      if (!same_wire(a[p], a[place], b[at[p]], b[next])) return false;
    return true;
  };
  Cards at;
  return lay(a.size(), b.size(), at, fits, [](const Cards&) { return true; });
}

std::vector<Cards> Groups::of(std::size_t cards, std::size_t copies) {
  const auto count = static_cast<std::uint32_t>(board_.problem.cards.size());
  if (sets_.empty())
    for (std::uint32_t c = 0; c < count; ++c) sets_[1].insert({c});
  for (std::size_t size = 2; size <= cards; ++size) {
    if (sets_.contains(size)) continue;
    auto& larger = sets_[size];
    for (const Cards& set : sets_.at(size - 1))
      for (std::uint32_t c = 0; c < count; ++c) {
        const bool joined = std::any_of(set.begin(), set.end(),
                                        [&](std::uint32_t in) { return board_.wire(in, c).cables > 0; });
        if ((row_ && !joined) || std::find(set.begin(), set.end(), c) != set.end()) continue;
        Cards grown = set;
        grown.insert(std::upper_bound(grown.begin(), grown.end(), c), c);
        if (most_copies(grown) < 2) continue;
        if (larger.size() < kMostSets)
          larger.insert(std::move(grown));
        else
          complete_ = false;
      }
  }
  std::vector<Cards> out;
  for (const Cards& set : sets_.at(cards))
    if (most_copies(set) >= copies &&
        std::none_of(out.begin(), out.end(), [&](const Cards& known) { return alike(known, set); }))
      out.push_back(set);
  return out;
}

std::vector<Cards> Groups::places_for(const Solution& solution, std::size_t most) const {
  most = std::min(most, most_copies(solution.card));
  auto found = Packing(*this, solution, board_.problem.cards.size(), most).run();
  std::stable_partition(found.begin(), found.end(),
                        [&](const Cards& group) { return group == solution.card; });
  return found;
}

}  // namespace millrace::compiler::explore
