// The search for the best solution of a predictable problem. Private to this folder.
//
// At a given interval every operation is built in the cheapest ways that are quick enough, and a dynamic
// program over (cards in a row, layers) says whether the model fits; bisection over the intervals that can
// occur finds the shortest. The same search gives a lower bound if every packing that is neither found nor
// ruled out counts as a fit. Small problems, latencies and clusters whose cables are no plain rows are gone
// through by branch and bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/explore/board.hpp"
#include "compiler/explore/interval_fit.hpp"

namespace millrace::compiler::explore {

inline constexpr double kRounding = 1 + 1e-9;           // intervals as close as this are the same
inline constexpr std::uint64_t kBranchNodes = 200'000;  // to prove or better what the bisection found

class Search {
 public:
  explicit Search(const Board& board);

  /// Nothing if the targets cannot be met. Among equal solutions, one with weights on the chip.
  std::optional<Solution> run();

  /// Several solutions with short latencies, without the target for latency.
  std::vector<Solution> short_latencies();

  /// The solution with the shortest interval on exactly `cards` cards. Nothing if it is above `limit` seconds.
  std::optional<Solution> shortest(std::uint32_t cards, double limit);

  /// A lower bound on the interval on `cards` cards; `below` if nothing shorter than that could be ruled out.
  double bound(std::uint32_t cards, double below);

  /// Whether `cards` cards may reach this interval. False is proven.
  bool possible(std::uint32_t cards, double seconds);

  /// A lower bound on the latency, for any number of cards.
  double floor_of_latency() const;

  /// A solution on exactly `cards` cards with at most this interval and, if one is given, at most this latency.
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
  /// The assignment's solution if it meets interval and latency. Builds operations quicker if that is needed.
  std::optional<Solution> accept(Assignment assignment, double seconds, std::optional<double> latency) const;
  std::optional<Solution> best();
  /// The same as shortest(), without the target for latency.
  std::optional<Solution> shortest_untimed(std::uint32_t cards, double limit);
  /// Looks for a shorter interval than that of `best`. Below interval number `low` no solution is known.
  Solution narrowed(std::uint32_t cards, Solution best, std::ptrdiff_t low, std::optional<double> latency);
  std::vector<Solution> short_latencies(std::uint32_t cards, double limit);
  std::optional<Solution> shortest_latency(std::uint32_t cards, double limit);
  double limit() const;  // the longest interval, in seconds
  std::vector<std::uint32_t> card_numbers() const;
  /// The best of all solutions with cards in a row, with its gap.
  std::optional<Solution> best_in_rows();
  /// How far the solution may be above the best possible, by the objective.
  double gap_of(const Solution& found);

  /// Keeps what it makes, because the same intervals come up for each number of cards.
  IntervalFit& fit_at(double seconds);

  const Board& board_;
  const Problem& problem_;
  std::map<double, IntervalFit> fits_;
  std::vector<std::uint32_t> kinds_;
  std::vector<double> intervals_;  // that can occur, ascending
  bool reads_memory_ = false;      // some implementation streams its weights
  bool in_a_row_ = false;          // each layer reads the one before: pieces in a row need cards in a row
  std::map<std::uint32_t, std::vector<Order>> rows_;
  bool all_rows_ = true;  // none was left out for being too many
};

/// Lowers the latency step by step, cheapest first, by building operations quicker with what is left of their
/// regions. `limit`: the longest interval that an operation may have, in seconds.
void speed_up(const Board& board, Assignment& assignment, double limit);

/// The same solution with fewer weights streamed: operations get implementations that read nothing from memory as
/// far as there is room, and neither the interval nor, if it is the objective, the latency grows.
Solution spare_memory(const Board& board, const Solution& solution);

struct Branched {
  std::optional<Solution> better;  // than the given one, by the objective
  bool complete = false;           // no solution is better still
};

/// Branch and bound over cards, cuts, regions and implementations. `nodes`: the most decisions.
Branched branch(const Board& board, const std::optional<Solution>& best, std::uint64_t nodes);

/// Whether a is better than b by the objective: its two leading figures.
bool better(Objective objective, const Solution& a, const Solution& b);

/// Whether a solution meets the targets and the number of cards asked for.
bool meets(const Problem& problem, const Solution& solution);

/// For a predictable problem whose targets cannot be met: the resource that binds, by how much and on which layer;
/// the nearest targets that this cluster can meet, and the nearest cluster that meets these.
Error diagnose(const Board& board);

}  // namespace millrace::compiler::explore
