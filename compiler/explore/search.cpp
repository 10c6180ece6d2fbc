#include "compiler/explore/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace millrace::compiler::explore {
namespace {

constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kMostRows = 20000;  // most chains of cards that are tried, equivalent ones included
constexpr std::size_t kMostRowSteps = 400'000;  // most steps to build chains of cards, dead ends included
constexpr int kRefinements = 24;                // bisection steps between two neighbouring possible intervals
constexpr std::size_t kMostFits = 32;           // most intervals whose IntervalFit is cached
constexpr double kProven = 1e-6;                // smaller gaps are rounding errors and count as 0
constexpr double kAnyInterval = 1e6;            // seconds; stands for no limit on the interval

std::vector<double> intervals_of(const Board& board) {
  std::set<double> clocks, found;
  for (const auto& card : board.problem.cards) clocks.insert(card.clock_hz);
  std::set<std::uint64_t> cycles;
  for (const auto& operation : board.problem.operations)
    for (const auto& way : operation.implementations) cycles.insert(way.interval_cycles);
  for (const double clock : clocks)
    for (const auto c : cycles) found.insert(static_cast<double>(c) / clock);
  std::set<double> widths;
  for (const auto& cable : board.problem.cables) widths.insert(cable.bytes_per_second);
  for (const double width : widths)
    for (const auto bytes : board.chain.live_bytes)
      if (bytes > 0 && std::isfinite(width)) found.insert(static_cast<double>(bytes) / width);
  return {found.begin(), found.end()};
}

}  // namespace

Search::Search(const Board& board)
    : board_(board),
      problem_(board.problem),
      kinds_(card_kinds(board.problem)),
      intervals_(intervals_of(board)),
      in_a_row_(reads_the_one_before(board.chain)) {
  for (const auto& operation : problem_.operations)
    for (const auto& way : operation.implementations)
      reads_memory_ = reads_memory_ || way.amounts[kMemoryBytes] > 0;
}

/// Returns the chains of `cards` different cards in which a cable joins each card to the next. Of chains with equal
/// cards and cables, returns only one.
const std::vector<Search::Order>& Search::rows(std::uint32_t cards) {
  if (const auto known = rows_.find(cards); known != rows_.end()) return known->second;
  auto& out = rows_[cards];
  std::set<std::vector<double>> seen;
  std::size_t tried = 0, steps = 0;
  Order order;
  const auto signature = [&] {
    std::vector<double> s;
    for (std::size_t i = 0; i < order.size(); ++i) {
      s.push_back(kinds_[order[i]]);
      for (std::size_t j = 0; j < i; ++j) {
        const Wire& wire = board_.wire(order[j], order[i]);
        s.insert(s.end(), {static_cast<double>(wire.cables), wire.bytes_per_second, wire.latency_seconds});
      }
    }
    return s;
  };
  const auto go = [&](const auto& self) -> void {
    if (order.size() == cards) {
      ++tried;
      if (seen.insert(signature()).second) out.push_back(order);
      return;
    }
    for (std::uint32_t c = 0; c < problem_.cards.size(); ++c) {
      if (tried >= kMostRows || ++steps > kMostRowSteps) {
        all_rows_ = false;
        return;
      }
      if (std::find(order.begin(), order.end(), c) != order.end()) continue;
      if (!order.empty() && board_.wire(order.back(), c).cables == 0) continue;
      order.push_back(c);
      self(self);
      order.pop_back();
    }
  };
  go(go);
  return out;
}

std::vector<std::uint32_t> Search::cables_of(const Order& order) const {
  std::vector<std::uint32_t> cables(order.size(), 0);
  for (std::size_t p = 0; p + 1 < order.size(); ++p) {
    const std::uint32_t n = board_.wire(order[p], order[p + 1]).cables;
    cables[p] += n;
    cables[p + 1] += n;
  }
  return cables;
}

/// Whether the cables from the card at position `place` to the next card can carry, within one interval, all tensors
/// that cross a cut in front of `layer`.
bool Search::passes(const IntervalFit& fit, const Order& order, std::size_t place, std::size_t layer) const {
  const std::uint64_t bytes = board_.chain.live_bytes[layer];
  return bytes == 0 ||
         static_cast<double>(bytes) <=
             board_.wire(order[place], order[place + 1]).bytes_per_second * fit.seconds() * kRounding;
}

/// Makes an assignment from cuts. `cuts` contains the first layer of each partition, and at the end the number of
/// layers.
Assignment Search::assignment(IntervalFit& fit, const Order& order,
                              const std::vector<std::size_t>& cuts) const {
  Assignment out;
  out.card = order;
  out.place.assign(board_.chain.size(), 0);
  out.region.assign(board_.chain.size(), 0);
  out.implementation.assign(problem_.operations.size(), 0);
  const auto cables = cables_of(order);
  for (std::size_t p = 0; p < order.size(); ++p) {
    for (std::size_t i = cuts[p]; i < cuts[p + 1]; ++i) out.place[i] = static_cast<std::uint32_t>(p);
    fit.choose(order[p], cables[p], cuts[p], cuts[p + 1], out);
  }
  return out;
}

/// Returns the assignment whose cuts are crossed by the fewest bytes, or nothing if the layers do not fit.
std::optional<Assignment> Search::arrange(IntervalFit& fit, const Order& order) const {
  const std::size_t count = board_.chain.size(), places = order.size();
  std::vector<std::vector<std::uint64_t>> best(places + 1, std::vector<std::uint64_t>(count + 1, kFar));
  std::vector<std::vector<std::size_t>> begin(places + 1, std::vector<std::size_t>(count + 1, 0));
  const auto cables = cables_of(order);
  best[0][0] = 0;
  for (std::size_t p = 0; p < places; ++p)
    for (std::size_t i = p; i < count; ++i) {
      if (best[p][i] == kFar) continue;
      const bool last = p + 1 == places;
      const std::size_t far = fit.farthest(order[p], cables[p], i, Unknown::kDoesNotFit);
      for (std::size_t j = last ? count : i + 1; j <= far && (last || j < count); ++j) {
        if (!last && !passes(fit, order, p, j)) continue;
        const std::uint64_t bytes = last ? 0 : board_.chain.live_bytes[j];
        if (best[p][i] + bytes < best[p + 1][j]) {
          best[p + 1][j] = best[p][i] + bytes;
          begin[p + 1][j] = i;
        }
      }
    }
  if (best[places][count] == kFar) return std::nullopt;
  std::vector<std::size_t> cuts(places + 1, count);
  for (std::size_t p = places; p > 0; --p) cuts[p - 1] = begin[p][cuts[p]];
  return assignment(fit, order, cuts);
}

/// Fills the cards from the first on, to find how many layers fit on the first n cards. Then chooses the cuts from
/// the last to the first, each as late as possible while every card keeps at least one layer.
std::optional<Assignment> Search::fill(IntervalFit& fit, const Order& order) const {
  const std::size_t count = board_.chain.size(), places = order.size();
  const auto cables = cables_of(order);
  const auto far = [&](std::size_t place, std::size_t layer) {
    return fit.farthest(order[place], cables[place], layer, Unknown::kDoesNotFit);
  };
  std::vector<std::size_t> reached = {0};
  for (std::size_t p = 0; p + 1 < places; ++p) {
    std::size_t to = std::min(far(p, reached[p]), count - 1);
    while (to > reached[p] && !passes(fit, order, p, to)) --to;
    reached.push_back(to);
  }
  if (far(places - 1, reached.back()) < count) return std::nullopt;
  std::vector<std::size_t> cuts(places + 1, count);
  cuts[0] = 0;
  for (std::size_t p = places - 1; p > 0; --p) {
    std::size_t from = std::min(reached[p], cuts[p + 1] - 1);
    while (from > 0 && !passes(fit, order, p - 1, from)) --from;
    if (from == 0 || far(p, from) < cuts[p + 1]) return arrange(fit, order);
    cuts[p] = from;
  }
  if (far(0, 0) < cuts[1]) return arrange(fit, order);
  return assignment(fit, order, cuts);
}

/// Whether all layers fit on the cards if cables have no limit and every packing that was not proved impossible counts
/// as a fit.
bool Search::reaches_end(IntervalFit& fit, const Order& order) const {
  std::size_t at = 0;
  for (std::size_t p = 0; p < order.size() && at < board_.chain.size(); ++p)
    at = fit.farthest(order[p], 0, at, Unknown::kFits);
  return at == board_.chain.size();
}

/// Whether all layers fit on any selection of `cards` cards in its best order, under the assumptions of reaches_end().
/// Computes for each selection of kinds of cards how many layers fit on it.
bool Search::reaches_end_in_any_order(IntervalFit& fit, std::uint32_t cards) const {
  std::map<std::uint32_t, std::uint32_t> there;
  for (const auto kind : kinds_) ++there[kind];
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> kinds(there.begin(), there.end());
  using Selection = std::vector<std::uint32_t>;  // number of cards of each kind
  std::map<Selection, std::size_t> reached = {{Selection(kinds.size(), 0), 0}};
  for (std::uint32_t n = 0; n < cards; ++n) {
    std::map<Selection, std::size_t> next;
    for (const auto& [taken, at] : reached)
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        if (taken[k] == kinds[k].second) continue;
        const std::size_t to = fit.farthest(kinds[k].first, 0, at, Unknown::kFits);
        if (to == board_.chain.size()) return true;
        Selection with = taken;
        ++with[k];
        auto& best = next[with];
        best = std::max(best, to);
      }
    reached = std::move(next);
  }
  return false;
}

IntervalFit& Search::fit_at(double seconds) {
  const auto known = fits_.find(seconds);
  if (known != fits_.end()) return known->second;
  if (fits_.size() >= kMostFits) fits_.clear();
  return fits_
      .emplace(std::piecewise_construct, std::forward_as_tuple(seconds),
               std::forward_as_tuple(board_, kinds_, seconds))
      .first->second;
}

bool Search::possible(std::uint32_t cards, double seconds) {
  if (cards > board_.chain.size()) return false;
  IntervalFit& at = fit_at(seconds);
  if (!reaches_end_in_any_order(at, cards)) return false;
  if (!in_a_row_) return true;
  const auto& orders = rows(cards);
  return !all_rows_ || std::any_of(orders.begin(), orders.end(),
                                   [&](const Order& order) { return reaches_end(at, order); });
}

std::optional<Solution> Search::accept(Assignment assignment, double seconds,
                                       std::optional<double> latency) const {
  auto solution = board_.assess(assignment);
  if (!solution || solution->interval_seconds > seconds * kRounding) return std::nullopt;
  if (!latency || solution->latency_seconds <= *latency) return solution;
  speed_up(board_, assignment, seconds);
  auto quicker = board_.assess(assignment);
  if (quicker && quicker->latency_seconds <= *latency && quicker->interval_seconds <= seconds * kRounding)
    return quicker;
  return std::nullopt;
}

std::optional<Solution> Search::feasible(std::uint32_t cards, double seconds, std::optional<double> latency) {
  if (cards > board_.chain.size() || cards > problem_.cards.size()) return std::nullopt;
  IntervalFit& at = fit_at(seconds);
  for (const auto& order : rows(cards)) {
    auto filled = fill(at, order);
    if (!filled) continue;
    if (auto kept = accept(std::move(*filled), seconds, latency)) return kept;
    auto arranged = arrange(at, order);
    if (!arranged) continue;
    if (auto kept = accept(std::move(*arranged), seconds, latency)) return kept;
  }
  return std::nullopt;
}

std::optional<Solution> Search::shortest_untimed(std::uint32_t cards, double limit) {
  auto best = feasible(cards, limit, {});
  return best ? std::optional(narrowed(cards, std::move(*best), 0, {})) : best;
}

Solution Search::narrowed(std::uint32_t cards, Solution best, std::ptrdiff_t low,
                          std::optional<double> latency) {
  const auto end = [&] {
    return std::lower_bound(intervals_.begin(), intervals_.end(), best.interval_seconds / kRounding) -
           intervals_.begin();
  };
  // Bisect between intervals_[low], below which the search found no solution, and intervals_[high], for which it found
  // `best`.
  std::ptrdiff_t high = end();
  while (low < high) {
    const std::ptrdiff_t middle = low + (high - low) / 2;
    if (auto found = feasible(cards, intervals_[static_cast<std::size_t>(middle)], latency)) {
      best = std::move(*found);
      high = std::min(middle, end());
    } else {
      low = middle + 1;
    }
  }
  // The shortest interval may lie between two entries of intervals_, because the bandwidth of a memory can
  // limit it. So bisect further.
  double below = low > 0 ? intervals_[static_cast<std::size_t>(low - 1)] : 0;
  for (int i = 0; reads_memory_ && i < kRefinements; ++i) {
    const double middle = (below + best.interval_seconds) / 2;
    if (auto found = feasible(cards, middle, latency))
      best = std::move(*found);
    else
      below = middle;
  }
  // Among the cuts that reach this interval, choose those that are crossed by the fewest bytes.
  auto arranged = arrange(fit_at(best.interval_seconds), best.card);
  if (!arranged) return best;
  auto leaner = accept(std::move(*arranged), best.interval_seconds, latency);
  return leaner && leaner->crossing_bytes < best.crossing_bytes ? std::move(*leaner) : best;
}

double Search::bound(std::uint32_t cards, double below) {
  std::ptrdiff_t low = 0;
  std::ptrdiff_t high =
      std::lower_bound(intervals_.begin(), intervals_.end(), below / kRounding) - intervals_.begin();
  while (low < high) {
    const std::ptrdiff_t middle = low + (high - low) / 2;
    if (possible(cards, intervals_[static_cast<std::size_t>(middle)]))
      high = middle;
    else
      low = middle + 1;
  }
  const bool beyond = static_cast<std::size_t>(low) == intervals_.size() ||
                      intervals_[static_cast<std::size_t>(low)] > below / kRounding;
  double yes = beyond ? below : intervals_[static_cast<std::size_t>(low)];
  if (!reads_memory_) return yes;
  double no = low > 0 ? intervals_[static_cast<std::size_t>(low - 1)] : 0;
  for (int i = 0; i < kRefinements; ++i) {
    const double middle = (no + yes) / 2;
    (possible(cards, middle) ? yes : no) = middle;
  }
  return no;
}

std::vector<std::uint32_t> Search::card_numbers() const {
  if (problem_.partitions) return {*problem_.partitions};
  std::vector<std::uint32_t> out;
  for (std::uint32_t n = 1; n <= std::min(problem_.cards.size(), board_.chain.size()); ++n) out.push_back(n);
  return out;
}

double Search::gap_of(const Solution& found) {
  if (problem_.targets.objective == Objective::kLatency)
    return std::max(0.0, found.latency_seconds / floor_of_latency() - 1);
  const bool by_cards = problem_.targets.objective == Objective::kCards;
  const auto used = static_cast<std::uint32_t>(found.card.size());
  std::uint32_t fewest = used;
  double least = found.interval_seconds;
  for (const auto cards : card_numbers()) {
    if (by_cards && cards > used) break;
    if (by_cards && cards < used && !possible(cards, limit())) continue;
    fewest = std::min(fewest, cards);
    least = std::min(least, bound(cards, least));
  }
  const double gap = std::max(0.0, found.interval_seconds / least - 1);
  return by_cards ? std::max(gap, static_cast<double>(used) / fewest - 1) : gap;
}

std::optional<Solution> Search::best_in_rows() {
  const Objective objective = problem_.targets.objective;
  std::optional<Solution> best;
  for (const auto cards : card_numbers()) {
    auto found = objective == Objective::kLatency
                     ? shortest_latency(cards, limit())
                     : shortest(cards, best ? best->interval_seconds * (1 - 1e-7) : limit());
    if (found && meets(problem_, *found) && (!best || better(objective, *found, *best)))
      best = std::move(found);
    if (best && objective == Objective::kCards) break;
  }
  if (!best) return best;
  best->gap = gap_of(*best);
  best->exact = objective != Objective::kLatency && best->gap < kProven;
  for (const auto cards : card_numbers())
    if (objective == Objective::kThroughput && best->exact && cards < best->card.size())
      best->exact = !possible(cards, best->interval_seconds);
  return best;
}

std::optional<Solution> Search::run() {
  auto found = best();
  return found && reads_memory_ ? spare_memory(board_, *found) : found;
}

double Search::limit() const {
  return problem_.targets.frames_per_second ? 1 / *problem_.targets.frames_per_second : kAnyInterval;
}

std::optional<Solution> Search::best() {
  std::optional<Solution> best = best_in_rows();
  if (best && best->exact && !problem_.targets.max_latency_seconds) {
    best->gap = 0;
    return best;
  }
  Branched branched = branch(board_, best, kBranchNodes);
  if (branched.better) {
    best = std::move(branched.better);
    if (!branched.complete) best->gap = gap_of(*best);
  }
  if (best) best->exact = branched.complete;
  if (best && branched.complete) best->gap = 0;
  return best;
}

}  // namespace millrace::compiler::explore
