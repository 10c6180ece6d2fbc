// Searches for the best solution of a problem that satisfies is_predictable(). Private to this folder.
//
// At a given interval, every operation uses its cheapest implementations that are quick enough. A dynamic program over
// (sequence of cards, layers) then decides whether the model fits, and bisection over all possible intervals finds the
// shortest. The same search gives a lower bound if every packing that is neither found nor ruled out counts as a fit.
// Branch and bound handles small problems, latencies, and cards whose cables form no simple chain.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/explore/board.hpp"
#include "compiler/explore/interval_fit.hpp"

namespace millrace::compiler::explore {

inline constexpr double kRounding = 1 + 1e-9;           // intervals whose ratio is below this are equal
inline constexpr std::uint64_t kBranchNodes = 200'000;  // most decisions to improve or prove a solution

class Search {
 public:
  explicit Search(const Board& board);

  /// Returns the best solution, or nothing if the targets cannot be met. Of equally good solutions, prefers one with
  /// more weights on the chip.
  std::optional<Solution> run();

  /// Returns several solutions with short latencies; ignores the target for latency.
  std::vector<Solution> short_latencies();

  /// Returns the solution with the shortest interval on exactly `cards` cards; nothing if it exceeds `limit` seconds.
  std::optional<Solution> shortest(std::uint32_t cards, double limit);

  /// Returns a lower bound on the interval on `cards` cards. Returns `below` if the search rules out no interval from
  /// `below` on.
  double bound(std::uint32_t cards, double below);

  /// Whether `cards` cards may reach an interval of `seconds`. The answer false is proven.
  bool possible(std::uint32_t cards, double seconds);

  /// Returns a lower bound on the latency, for any number of cards.
  double floor_of_latency() const;

  /// Returns a solution on exactly `cards` cards with at most this interval and, if given, at most this latency.
  std::optional<Solution> feasible(std::uint32_t cards, double seconds, std::optional<double> latency);

 private:
  using Order = std::vector<std::uint32_t>;

  std::optional<Assignment> arrange(IntervalFit& fit, const Order& order) const;
  std::optional<Assignment> fill(IntervalFit& fit, const Order& order) const;
  bool reaches_end(IntervalFit& fit, const Order& order) const;
  bool reaches_end_in_any_order(IntervalFit& fit, std::uint32_t cards) const;
  std::vector<std::uint32_t> cables_of(const Order& order) const;
  bool passes(const IntervalFit& fit, const Order& order, std::size_t place, std::size_t layer) const;
  Assignment assignment(IntervalFit& fit, const Order& order, const std::vector<std::size_t>& cuts) const;
  const std::vector<Order>& rows(std::uint32_t cards);
  /// Returns the assignment as a solution that meets interval and latency, if necessary with faster implementations.
  /// Returns nothing if that is impossible.
  std::optional<Solution> accept(Assignment assignment, double seconds, std::optional<double> latency) const;
  std::optional<Solution> best();
  /// Like shortest(), but ignores the target for latency.
  std::optional<Solution> shortest_untimed(std::uint32_t cards, double limit);
  /// Bisects for a shorter interval than that of `best`. Must be called with a `low` for which the search found no
  /// solution with an interval below intervals_[low]. Returns the solution with the shortest interval, which may be
  /// `best`.
  Solution narrowed(std::uint32_t cards, Solution best, std::ptrdiff_t low, std::optional<double> latency);
  std::vector<Solution> short_latencies(std::uint32_t cards, double limit);
  std::optional<Solution> shortest_latency(std::uint32_t cards, double limit);
  double limit() const;  // the longest interval that the target rate allows, in seconds
  std::vector<std::uint32_t> card_numbers() const;
  /// Returns the best solution whose cards form a chain of cables. Also computes its gap, the distance to the best
  /// possible solution.
  std::optional<Solution> best_in_rows();
  /// Returns by which fraction the solution's objective may be above the best possible.
  double gap_of(const Solution& found);

  /// Returns the IntervalFit for an interval. Caches it, because the same intervals recur for each number of cards.
  IntervalFit& fit_at(double seconds);

  const Board& board_;
  const Problem& problem_;
  std::map<double, IntervalFit> fits_;
  std::vector<std::uint32_t> kinds_;
  std::vector<double> intervals_;  // all intervals that can occur, in seconds, ascending
  bool reads_memory_ = false;      // some implementation reads its weights from memory
  // Whether each layer reads the layer before it. If so, consecutive partitions need cards joined by a cable.
  bool in_a_row_ = false;
  std::map<std::uint32_t, std::vector<Order>> rows_;
  bool all_rows_ = true;  // false if rows_ leaves out orders of cards because there are too many
};

/// Lowers the latency step by step: gives operations faster implementations, the cheapest exchange first, with the
/// resources left in their regions. `limit` is the longest interval that an operation may have, in seconds.
void speed_up(const Board& board, Assignment& assignment, double limit);

/// Returns the solution with fewer weights read from memory. As far as there is room, operations get implementations
/// with weights on the chip. The interval does not grow, and neither does the latency if it is the objective.
Solution spare_memory(const Board& board, const Solution& solution);

struct Branched {
  std::optional<Solution> better;  // a solution better than the given one, by the objective
  bool complete = false;           // proven: no solution is better than `better` or the given one
};

/// Searches by branch and bound over cards, cuts, regions and implementations; makes at most `nodes` decisions.
Branched branch(const Board& board, const std::optional<Solution>& best, std::uint64_t nodes);

/// Whether solution a is better than b by the two figures that the objective compares first.
bool better(Objective objective, const Solution& a, const Solution& b);

/// Whether a solution meets the targets and has the number of cards asked for.
bool meets(const Problem& problem, const Solution& solution);

/// Explains why the targets of a predictable problem cannot be met: which resource is short, by how much and on
/// which layer; also the nearest targets that this cluster meets, and the nearest cluster that meets the targets.
Error diagnose(const Board& board);

}  // namespace millrace::compiler::explore
