#include "compiler/explore/partition.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "compiler/explore/format.hpp"
#include "compiler/explore/groups.hpp"
#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kEqualRates = 1 + 1e-7;
constexpr double kProven = 1e-6;  // smaller gaps are rounding errors and count as 0
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kAnyInterval = 1e6;  // seconds; stands for no limit on the interval

double rate_of(const Solution& solution) {
  return static_cast<double>(solution.replicas()) / solution.interval_seconds;
}

class Replicator {
 public:
  explicit Replicator(const Problem& problem)
      : problem_(problem), board_(problem), search_(board_), groups_(board_), section_(problem) {}

  Result<Solution> so_many(std::size_t copies, bool explain) {
    std::optional<Solution> best;
    Cards largest;
    for (const auto cards : sizes(problem_.cards.size() / copies)) {
      if (best && problem_.targets.objective == Objective::kCards) break;
      improve(best, cards, copies);
      if (const auto groups = groups_.of(cards, copies); !groups.empty()) largest = groups.front();
    }
    if (best) return with_gap(std::move(*best));
    if (largest.empty() || !explain) return too_few(copies);
    cut_out(largest, limit_of(copies));
    section_.partitions = problem_.partitions;
    const auto why = solve(section_, true);
    if (why.ok()) return too_few(copies);
    return why.error().within("--replicas " + std::to_string(copies) + ", each on " +
                              plural(largest.size(), "card"));
  }

  /// Returns the copies of a pipeline that together have the highest rate, or one pipeline if it is faster. Returns
  /// nothing if all of them miss the target rate.
  std::optional<Solution> most_frames() {
    std::optional<Solution> best;
    double rate = target();
    for (const auto cards : sizes(problem_.cards.size() / 2))
      for (const Cards& group : groups_.of(cards, 2)) {
        const std::size_t most = std::min<std::size_t>(groups_.most_copies(group), kMostReplicas);
        const double limit =
            rate > 0 ? static_cast<double>(most) / rate / (best ? kEqualRates : 1) : kNoLimit;
        auto found = with_copies(group, limit, most, 2);
        if (!found || rate_of(*found) * kEqualRates < rate)
          continue;  // kEqualRates: a rate may equal the target exactly
        rate = rate_of(*found);
        best = std::move(found);
      }
    if (!best) return best;
    if (auto alone = quicker_alone(rate)) best = std::move(alone);
    return with_gap(std::move(*best));
  }

  /// Returns copies of a pipeline that together use fewer cards than one pipeline, or as many cards but with a higher
  /// rate. Returns nothing if there are none. `alone` is the pipeline, or null if none meets the target.
  std::optional<Solution> fewest_cards(const Solution* alone) {
    const std::size_t most = alone != nullptr ? alone->card.size() : problem_.cards.size();
    for (std::size_t cards = 2; cards <= most; ++cards) {
      std::optional<Solution> best;
      for (const auto each : sizes(cards / 2))
        if (cards % each == 0 && cards / each <= kMostReplicas) improve(best, each, cards / each);
      const bool as_many = alone != nullptr && cards == most;
      if (as_many && (!best || with_host(rate_of(*best)) <= with_host(rate_of(*alone)))) best = *alone;
      if (!best) continue;
      if (alone == nullptr || !alone->exact) allow_alone(cards);
      return with_gap(std::move(*best));
    }
    return std::nullopt;
  }

  /// Returns a solution with the smallest number of copies of a pipeline that reaches the target rate. Of several such
  /// solutions, returns the one with the lowest latency.
  std::optional<Solution> least_latency() {
    const std::size_t most = std::min<std::size_t>(problem_.cards.size(), kMostReplicas);
    std::optional<Solution> best;
    for (std::size_t copies = 2; copies <= most && !best; ++copies)
      for (const auto cards : sizes(problem_.cards.size() / copies)) improve(best, cards, copies);
    if (!best) return best;
    allow_alone(problem_.cards.size());
    return with_gap(std::move(*best));
  }

  /// Returns `alone`, the solution with one pipeline, with its gap (its distance from the best solution that was not
  /// ruled out). Called if no copies are better.
  Solution beside(Solution alone) {
    allow(alone.card.size(), rate_of(alone) * (1 + alone.gap), alone.latency_seconds / (1 + alone.gap));
    return with_gap(std::move(alone));
  }

  /// Returns the solution with its gap, which is its distance from the best solution that was not ruled out.
  Solution with_gap(Solution solution) {
    const Objective objective = problem_.targets.objective;
    const std::size_t used = solution.card.size() * solution.replicas();
    if (!groups_.complete()) allow_copies(objective == Objective::kCards ? used : problem_.cards.size());
    const double by_rate = with_host(ceiling_) / with_host(rate_of(solution)) - 1;
    const double by_cards = static_cast<double>(used) / static_cast<double>(std::min(used, fewest_)) - 1;
    solution.gap = std::max(0.0, by_latency() ? solution.latency_seconds / lowest_latency_ - 1
                                 : objective == Objective::kCards ? std::max(by_rate, by_cards)
                                                                  : by_rate);
    if (solution.gap < kProven) solution.gap = 0;
    solution.exact = solution.gap == 0 && (!by_latency() || (proven_ && groups_.complete())) &&
                     (objective != Objective::kThroughput || needs_all(used, rate_of(solution)));
    return solution;
  }

  /// Whether it is proven that fewer than `used` cards cannot reach `rate`.
  bool needs_all(std::size_t used, double rate) {
    for (const auto cards : sizes(used - 1)) {
      const std::size_t copies =
          problem_.replicas.value_or(std::min<std::size_t>((used - 1) / cards, kMostReplicas));
      if (copies * cards < used && search_.possible(cards, static_cast<double>(copies) / rate * kEqualRates))
        return false;
    }
    return true;
  }

 private:
  /// Sets section_ to the problem for a cluster of exactly these cards, with an interval of at most `limit` seconds.
  void cut_out(const Cards& cards, double limit) {
    std::map<std::uint32_t, std::uint32_t> now;
    section_.cards.clear();
    section_.cables.clear();
    for (const auto card : cards) {
      now[card] = static_cast<std::uint32_t>(section_.cards.size());
      section_.cards.push_back(problem_.cards[card]);
    }
    for (Cable cable : problem_.cables) {
      if (!now.contains(cable.a) || !now.contains(cable.b)) continue;
      cable.a = now.at(cable.a);
      cable.b = now.at(cable.b);
      section_.cables.push_back(cable);
    }
    section_.partitions = static_cast<std::uint32_t>(cards.size());
    section_.targets.frames_per_second.reset();
    if (limit < kNoLimit) section_.targets.frames_per_second = 1 / limit;
  }

  /// Returns the best pipeline on these cards with an interval of at most `limit` seconds, with up to `copies` copies
  /// in total. Returns nothing if the cluster has room for fewer than `fewest` copies.
  std::optional<Solution> with_copies(const Cards& cards, double limit, std::size_t copies,
                                      std::size_t fewest) {
    cut_out(cards, limit);
    const Board board(section_);
    Search search(board);
    const auto count = static_cast<std::uint32_t>(cards.size());
    if (!search.possible(count, std::min(limit, kAnyInterval))) return std::nullopt;
    auto found = solve(section_, false);
    if (!found.ok()) {
      allow_unless_impossible(search, count, copies, limit);
      proven_ = false;
      return std::nullopt;
    }
    if (by_latency())
      allow(copies * count, kNoLimit, found->latency_seconds / (1 + found->gap));
    else
      allow(copies * count, static_cast<double>(copies) / found->interval_seconds * (1 + found->gap), 0);
    for (auto& card : found->card) card = cards[card];
    const auto places = groups_.places_for(*found, copies);
    if (places.size() < fewest) {
      proven_ = false;
      return std::nullopt;
    }
    found->card = places.front();
    found->copies.assign(places.begin() + 1, places.end());
    return std::move(*found);
  }

  /// Returns the numbers of cards, up to `most`, that one pipeline may use.
  std::vector<std::uint32_t> sizes(std::size_t most) const {
    most = std::min({most, problem_.cards.size(), board_.chain.size()});
    std::vector<std::uint32_t> out;
    for (std::uint32_t n = 1; n <= most; ++n)
      if (!problem_.partitions || *problem_.partitions == n) out.push_back(n);
    return out;
  }

  /// Returns one pipeline, over any cards, whose rate is higher than `rate`, or nothing.
  std::optional<Solution> quicker_alone(double rate) {
    const double limit = 1 / (rate * kEqualRates);
    bool possible = false;
    for (const auto cards : sizes(problem_.cards.size()))
      possible = allow_unless_impossible(search_, cards, 1, limit) || possible;
    if (!possible) return std::nullopt;
    Problem quicker = problem_;
    quicker.targets.frames_per_second = 1 / limit;
    auto found = solve(quicker, false);
    if (!found.ok()) return std::nullopt;
    return std::move(*found);
  }

  /// Replaces `best` if `copies` copies of a pipeline, on `cards` cards each, are better.
  void improve(std::optional<Solution>& best, std::size_t cards, std::size_t copies) {
    for (const Cards& group : groups_.of(cards, copies)) {
      const bool by_rate = best && !by_latency();
      auto found = with_copies(
          group, by_rate ? static_cast<double>(copies) / rate_of(*best) / kEqualRates : limit_of(copies),
          copies, copies);
      if (found && (!best || by_rate || found->latency_seconds < best->latency_seconds))
        best = std::move(found);
    }
  }

  /// Records that each possible single pipeline on at most `most` cards was not ruled out.
  void allow_alone(std::size_t most) {
    for (const auto cards : sizes(most))
      if (allow_unless_impossible(search_, cards, 1, limit_of(1))) proven_ = false;
  }

  /// Records that solutions with several copies of a pipeline, on at most `most` cards in total, were not ruled out.
  /// Does not check whether the cluster has such groups of equal cards.
  void allow_copies(std::size_t most) {
    for (const auto cards : sizes(most / 2))
      for (std::size_t copies = 2; copies <= std::min<std::size_t>(most / cards, kMostReplicas); ++copies)
        if (problem_.replicas.value_or(copies) == copies)
          allow_unless_impossible(search_, cards, copies, limit_of(copies));
  }

  Error too_few(std::size_t copies) const {
    return Error(ErrorCode::kDoesNotFit,
                 "--replicas " + std::to_string(copies) + ": cluster '" + problem_.cluster +
                     "' does not have " + std::to_string(copies) + " groups of " +
                     (problem_.partitions ? plural(*problem_.partitions, "card") : std::string("cards")) +
                     "; all groups of cards need the same devices and cables, "
                     "and every group must hold the whole model; "
                     "request fewer replicas");
  }

  bool by_latency() const { return problem_.targets.objective == Objective::kLatency; }

  /// Returns the rate, limited to the rate at which the host can do its work between cards.
  double with_host(double rate) const {
    const double host = host_seconds(problem_);
    return host > 0 ? std::min(rate, 1 / host) : rate;
  }

  double target() const { return problem_.targets.frames_per_second.value_or(0); }
  double limit_of(std::size_t copies) const {
    return target() > 0 ? static_cast<double>(copies) / target() : kNoLimit;
  }

  /// Records that a solution with `copies` copies of a pipeline, each on `cards` cards, was not ruled out. Returns
  /// false and records nothing if such a solution is impossible.
  bool allow_unless_impossible(Search& search, std::uint32_t cards, std::size_t copies, double limit) {
    limit = std::min(limit, kAnyInterval);
    if (!search.possible(cards, limit)) return false;
    allow(copies * cards, static_cast<double>(copies) / search.bound(cards, limit),
          by_latency() ? search.floor_of_latency() : 0);
    return true;
  }

  void allow(std::size_t cards, double rate, double latency) {
    fewest_ = std::min(fewest_, cards);
    ceiling_ = std::max(ceiling_, rate);
    lowest_latency_ = std::min(lowest_latency_, latency);
  }

  const Problem& problem_;
  const Board board_;
  Search search_;  // for one pipeline over any cards
  Groups groups_;
  Problem section_;     // the problem restricted to a few of its cards
  bool proven_ = true;  // whether every solution that was not found is proven impossible

  // The fewest cards, highest rate and lowest latency of all solutions that were not ruled out.
  std::size_t fewest_ = std::numeric_limits<std::size_t>::max();
  double ceiling_ = 0, lowest_latency_ = kNoLimit;
};

Status check_asked(const Problem& problem) {
  const std::size_t asked = *problem.replicas, cards = problem.cards.size();
  const std::string what = "--replicas " + std::to_string(asked) + ": ";
  if (asked == 0) return Error(ErrorCode::kInvalidInput, what + "at least one is needed");
  const std::size_t each = std::max<std::size_t>(1, problem.partitions.value_or(1));
  if (asked > cards / each)
    return Error(ErrorCode::kDoesNotFit,
                 what + (each == 1 ? std::string() : "each of " + plural(each, "card") + ", ") + "cluster '" +
                     problem.cluster + "' has " + plural(cards, "card") + "; request at most " +
                     std::to_string(std::max<std::size_t>(1, cards / each)) + ", or name a larger cluster");
  if (asked > kMostReplicas)
    return Error(ErrorCode::kInvalidInput,
                 what + "at most " + std::to_string(kMostReplicas) + " are possible");
  return {};
}

/// Appends to the error about a missed target the highest rate that several copies of a pipeline reach.
Error with_most(Error error, const Problem& problem) {
  Problem free = problem;
  free.targets.frames_per_second.reset();
  free.targets.objective = Objective::kThroughput;
  const auto most = Replicator(free).most_frames();
  if (!most || most->copies.empty()) return error;
  return Error(error.code(), error.message() + "; " + plural(most->replicas(), "replica") + " on " +
                                 plural(most->replicas() * most->card.size(), "card") + " reach " +
                                 rate_down(rate_of(*most)) + " frames/s");
}

/// Returns copies of a pipeline if only copies reach the target rate or if copies need fewer cards, else one pipeline.
Result<Solution> for_target(const Problem& problem, bool explain) {
  auto alone = solve(problem, false);
  if (!alone.ok() && alone.error().code() != ErrorCode::kDoesNotFit) return alone;
  const bool wanted = problem.targets.frames_per_second.has_value();
  const bool latency = problem.targets.objective == Objective::kLatency;
  if (alone.ok() && (!wanted || latency || alone->card.size() == 1)) return alone;
  if (wanted) {
    Replicator replicator(problem);
    auto found =
        latency ? replicator.least_latency() : replicator.fewest_cards(alone.ok() ? &*alone : nullptr);
    if (found) return std::move(*found);
  }
  if (alone.ok() || !explain) return alone;
  auto explained = solve(problem, true);
  if (explained.ok() || !wanted) return explained;
  return with_most(explained.error(), problem);
}

/// Returns a solution with the same rate as `most` on fewer cards if the search finds one, otherwise `most`.
Solution on_fewer_cards(const Problem& problem, Replicator& replicator, Solution most) {
  Problem lean = problem;
  lean.targets.objective = Objective::kCards;
  lean.targets.frames_per_second = rate_of(most);
  auto fewer = for_target(lean, false);
  const bool better =
      fewer.ok() && fewer->card.size() * fewer->replicas() < most.card.size() * most.replicas();
  return better ? replicator.with_gap(std::move(*fewer)) : most;
}

/// Implements solve_replicated(), but ignores the time that the host needs between cards.
Result<Solution> solve_on_cards(const Problem& problem, bool explain) {
  // If the problem itself is invalid, solve() reports the error.
  const bool usable = check(problem).empty() && problem.cards.size() > 1 && problem.partitions != 0U &&
                      check_targets(problem.targets).ok() && !layers(problem).empty();
  const bool several = problem.replicas.value_or(1) > 1;
  if (!usable || (!several && (problem.replicas || problem.partitions))) return solve(problem, explain);
  if (several) return Replicator(problem).so_many(*problem.replicas, explain);
  if (problem.targets.objective != Objective::kThroughput) return for_target(problem, explain);
  Replicator replicator(problem);
  if (auto found = replicator.most_frames()) {
    const bool quickest = found->gap == 0, fewest = found->exact;
    return quickest && !fewest ? on_fewer_cards(problem, replicator, std::move(*found)) : std::move(*found);
  }
  MILLRACE_ASSIGN(auto alone, solve(problem, explain));
  return replicator.beside(std::move(alone));
}

/// Returns the solution with the fewest cards that keep up with the host's work between cards. Returns nothing if the
/// objective is not throughput, if the host has no such work, or if the cards are slower than the host.
std::optional<Solution> as_quick_as_host(const Problem& problem) {
  const double host = host_seconds(problem);
  if (host == 0 || problem.targets.objective != Objective::kThroughput) return std::nullopt;
  Problem enough = problem;
  enough.targets.objective = Objective::kCards;
  auto& rate = enough.targets.frames_per_second;
  rate = std::max(1 / host, rate.value_or(0));
  auto found = solve_on_cards(enough, false);
  if (!found.ok()) return std::nullopt;
  found->gap = 0;
  found->exact = Replicator(enough).needs_all(found->card.size() * found->replicas(), *rate);
  return std::move(*found);
}

}  // namespace

Result<Solution> solve_replicated(const Problem& problem, bool explain) {
  if (problem.replicas) MILLRACE_TRY(check_asked(problem));
  if (auto found = as_quick_as_host(problem)) return std::move(*found);
  auto found = solve_on_cards(problem, explain);
  // If the host limits the rate, the solution may not be optimal: the search did not check whether fewer cards reach
  // the same rate.
  if (found.ok() && problem.targets.objective == Objective::kThroughput &&
      rate_of(*found) * host_seconds(problem) > 1)
    found->exact = false;
  return found;
}

}  // namespace millrace::compiler::explore
