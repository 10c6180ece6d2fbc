// The search for the best solution of a predictable problem. Private to this folder.
//
// At a given interval every operation is built in the cheapest ways that are quick enough, and a dynamic
// program over (cards in a row, layers) says whether the model fits; bisection over the intervals that can
// occur finds the shortest. The same with every doubt taken for yes bounds it from below. Small problems,
// latencies and clusters whose cables are no plain rows are gone through by branch and bound (branch.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

  ~Search();

  /// Nothing where the targets cannot be met. Of what is as good, what has weights on the chip.
  std::optional<Solution> run();

  /// Several with short latencies, whatever the target's is.
  std::vector<Solution> short_latencies();

  /// The shortest interval with exactly so many cards, at most `limit` seconds.
  std::optional<Solution> shortest(std::uint32_t cards, double limit);

  /// Nothing with so many cards has a shorter interval than this; `below` where only what is not shorter
  /// could be excluded.
  double bound(std::uint32_t cards, double below);

  /// Whether nothing speaks against so many cards at this interval; false is proven.
  bool possible(std::uint32_t cards, double seconds);

  /// No latency is shorter than this, with however many cards.
  double floor_of_latency() const;

  /// Something with exactly so many cards and at most this interval (and the target's latency).
  std::optional<Solution> feasible(std::uint32_t cards, double seconds);

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
  /// The assignment's solution where it meets interval and latency, quicker built if it has to be.
  std::optional<Solution> accept(Assignment assignment, double seconds) const;
  std::optional<Solution> best();
  std::optional<Solution> shortest_in_time(std::uint32_t cards, double limit);
  /// Looks for a shorter interval than that of `best`; below the one numbered `low` none is known.
  Solution narrowed(std::uint32_t cards, Solution best, std::ptrdiff_t low);
  std::vector<Solution> short_latencies(std::uint32_t cards, double limit);
  std::optional<Solution> shortest_latency(std::uint32_t cards, double limit);
  double limit() const;  // the longest interval, in seconds
  /// The search without the target's latency.
  Search& untimed();
  std::vector<std::uint32_t> card_numbers() const;
  std::optional<Solution> fewest_cards(double limit);
  std::optional<Solution> most_frames(double limit);
  std::optional<Solution> least_latency(double limit);
  /// How far above the best there is it may be, by the objective.
  double gap_of(const Solution& found);

  /// Kept, because the same intervals are asked about for each number of cards.
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
  struct Untimed;
  std::unique_ptr<Untimed> untimed_;
};

/// The same places, built quicker with what is left: lowers latency step by step, cheapest first. `limit`:
/// the longest interval an operation may have, in seconds.
void speed_up(const Board& board, Assignment& assignment, double limit);

/// The same solution, with operations built in ways that read nothing from memory where there is room for
/// them and neither the interval nor, where that is the objective, the latency grows.
Solution spare_memory(const Board& board, const Solution& solution);

struct Branched {
  std::optional<Solution> better;  // than the one given, by the objective
  bool complete = false;           // there is none better still
};

/// `nodes`: decisions at most.
Branched branch(const Board& board, const std::optional<Solution>& best, std::uint64_t nodes);

/// Whether a is better than b by the objective: its two leading figures.
bool better(Objective objective, const Solution& a, const Solution& b);

/// Whether it meets the targets, number of cards included.
bool meets(const Problem& problem, const Solution& solution);

/// For a predictable problem whose targets cannot be met: the resource that binds, by how much and on which layer;
/// the nearest targets that this cluster can meet, and the nearest cluster that meets these.
Error diagnose(const Board& board);

}  // namespace millrace::compiler::explore
