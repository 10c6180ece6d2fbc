#include "compiler/explore/replicas.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/explore/groups.hpp"
#include "compiler/explore/search.hpp"
#include "compiler/explore/words.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kHair = 1 + 1e-7;
constexpr double kProven = 1e-6;  // a gap below this is rounding
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kAnyInterval = 1e6;  // seconds: no limit
constexpr double kWorthwhile = 1.01;  // times the rate: more is better

double rate_of(const Solution& solution) {
  return static_cast<double>(solution.replicas()) / solution.interval_seconds;
}

/// One pipeline on a group of cards: the best there is, and how much shorter an interval could still be.
struct Attempt {
  std::optional<Solution> found;
  double bound = 0;  // no interval on these cards is shorter; the limit, if infinite, where that excludes all
};

class Replicator {
 public:
  explicit Replicator(const Problem& problem)
      : problem_(problem), board_(problem), groups_(board_), section_(problem) {
    section_.replicas.reset();
  }

  Result<Solution> so_many(std::size_t copies, bool explain);

  /// For throughput: copies, or one pipeline that is quicker than they are. Nothing where copies reach no
  /// rate that will do.
  std::optional<Solution> most_frames();

  /// Copies on fewer cards than one pipeline takes, or as many and quicker. Nothing where there are none.
  std::optional<Solution> fewest_cards(const Solution* alone);

  /// As few copies as reach the target, of least latency.
  std::optional<Solution> least_latency();

 private:
  void cut_out(const Cards& cards, double limit);
  Attempt one(const Cards& cards, double limit);
  Attempt laid(const Cards& cards, double limit, std::size_t copies, std::size_t fewest);
  std::vector<std::uint32_t> sizes(std::size_t most) const;
  std::optional<Solution> quicker_alone(double rate, double& ceiling) const;
  std::optional<Solution> on_so_many(std::size_t cards);
  Solution settled(Solution solution) const;
  Error too_few(std::size_t copies) const;

  double target() const { return problem_.targets.frames_per_second.value_or(0); }
  double limit_of(std::size_t copies) const {
    return target() > 0 ? static_cast<double>(copies) / target() : kNoLimit;
  }

  const Problem& problem_;
  const Board board_;
  Groups groups_;
  Problem section_;     // the problem on a few of its cards
  bool proven_ = true;  // what was not found does not exist
};

/// The problem on these cards and no others, all of them used.
void Replicator::cut_out(const Cards& cards, double limit) {
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

/// The best pipeline that takes a frame every `limit` seconds or more often.
Attempt Replicator::one(const Cards& cards, double limit) {
  cut_out(cards, limit);
  const auto count = static_cast<std::uint32_t>(cards.size());
  const double longest = std::min(limit, kAnyInterval);
  Attempt out;
  std::optional<Board> board;
  std::optional<Search> search;
  if (is_predictable(section_)) {
    search.emplace(board.emplace(section_));
    if (!search->possible(count, longest)) return {std::nullopt, limit};
  }
  auto found = solve(section_, false);
  if (!found.ok()) {
    proven_ = false;
    if (search) out.bound = search->bound(count, longest);
    return out;
  }
  out.bound = found->interval_seconds / (1 + found->gap);
  for (auto& card : found->card) card = cards[card];
  out.found = std::move(*found);
  return out;
}

/// one(), and copies of it: at least `fewest` pipelines in all.
Attempt Replicator::laid(const Cards& cards, double limit, std::size_t copies, std::size_t fewest) {
  Attempt out = one(cards, limit);
  if (!out.found) return out;
  const auto places = groups_.places_for(*out.found, copies);
  if (places.size() < fewest) {
    proven_ = false;
    out.found.reset();
    return out;
  }
  out.found->card = places.front();
  out.found->copies.assign(places.begin() + 1, places.end());
  return out;
}

/// Numbers of cards one pipeline may have.
std::vector<std::uint32_t> Replicator::sizes(std::size_t most) const {
  most = std::min({most, problem_.cards.size(), board_.chain.size()});
  std::vector<std::uint32_t> out;
  for (std::uint32_t n = 1; n <= most; ++n)
    if (!problem_.partitions || *problem_.partitions == n) out.push_back(n);
  return out;
}

Solution Replicator::settled(Solution solution) const {
  solution.exact = solution.exact && proven_ && groups_.complete();
  return solution;
}

Error Replicator::too_few(std::size_t copies) const {
  return Error(ErrorCode::kDoesNotFit,
               "--replicas " + std::to_string(copies) + ": cluster '" + problem_.cluster + "' has not " +
                   std::to_string(copies) + " groups of " +
                   (problem_.partitions ? plural(*problem_.partitions, "card") : std::string("cards")) +
                   ", alike in kind and cabling, that each hold the model; ask for fewer");
}

Result<Solution> Replicator::so_many(std::size_t copies, bool explain) {
  const Objective objective = problem_.targets.objective;
  const bool predictable = is_predictable(problem_);
  const bool by_rate = objective != Objective::kLatency && predictable;
  std::vector<std::uint32_t> counts = sizes(problem_.cards.size() / copies);
  // Cuts that balance work take all the cards there are, as solve() does.
  if (!predictable) std::reverse(counts.begin(), counts.end());
  std::optional<Solution> best;
  Cards largest;
  for (const auto cards : counts) {
    if (best && (objective == Objective::kCards || !predictable)) break;
    for (const Cards& group : groups_.of(cards, copies)) {
      if (group.size() > largest.size()) largest = group;
      const double limit = best && by_rate ? best->interval_seconds / kHair : limit_of(copies);
      auto found = laid(group, limit, copies, copies).found;
      if (!found || (best && !by_rate && found->latency_seconds >= best->latency_seconds)) continue;
      best = std::move(found);
      if (!predictable) break;
    }
  }
  if (best) return settled(std::move(*best));
  if (largest.empty() || !explain) return too_few(copies);
  cut_out(largest, limit_of(copies));
  section_.partitions = problem_.partitions;
  const auto why = solve(section_, true);
  if (why.ok()) return too_few(copies);
  return why.error().within("--replicas " + std::to_string(copies) + ", each on " +
                            plural(largest.size(), "card"));
}

/// One pipeline over any cards with more frames a second than `rate`. `ceiling`: raised to what one could
/// have that was neither found nor excluded.
std::optional<Solution> Replicator::quicker_alone(double rate, double& ceiling) const {
  const double limit = 1 / (rate * kHair);
  Search search(board_);
  bool possible = false;
  for (const auto cards : sizes(problem_.cards.size()))
    if (search.possible(cards, limit)) {
      possible = true;
      ceiling = std::max(ceiling, 1 / search.bound(cards, limit));
    }
  if (!possible) return std::nullopt;
  Problem quicker = problem_;
  quicker.targets.frames_per_second = 1 / limit;
  auto found = solve(quicker, false);
  if (!found.ok()) return std::nullopt;
  return std::move(*found);
}

std::optional<Solution> Replicator::most_frames() {
  std::optional<Solution> best;
  double rate = target(), ceiling = 0;
  for (const auto cards : sizes(problem_.cards.size() / 2))
    for (const Cards& group : groups_.of(cards, 2)) {
      const std::size_t most = std::min<std::size_t>(groups_.most_copies(group), kMostReplicas);
      const double limit = rate > 0 ? static_cast<double>(most) / rate / (best ? kHair : 1) : kNoLimit;
      auto [found, bound] = laid(group, limit, most, 2);
      ceiling = std::max(ceiling, bound > 0 ? static_cast<double>(most) / bound : kNoLimit);
      if (!found || rate_of(*found) * kHair < rate) continue;  // a target may be met to the last bit
      rate = rate_of(*found);
      best = std::move(found);
    }
  if (!best) return best;
  if (auto alone = quicker_alone(rate, ceiling)) {
    rate = rate_of(*alone);
    best = std::move(alone);
  }
  best->gap = std::max(0.0, ceiling / rate - 1);
  best->exact = best->gap < kProven && groups_.complete();
  if (best->exact) best->gap = 0;
  return best;
}

/// The quickest copies that take so many cards together.
std::optional<Solution> Replicator::on_so_many(std::size_t cards) {
  std::optional<Solution> best;
  for (const auto each : sizes(cards / 2)) {
    const std::size_t copies = cards / each;
    if (copies * each != cards || copies > kMostReplicas) continue;
    for (const Cards& group : groups_.of(each, copies)) {
      auto found = laid(group, limit_of(copies), copies, copies).found;
      if (found && (!best || rate_of(*found) > rate_of(*best))) best = std::move(found);
    }
  }
  return best;
}

std::optional<Solution> Replicator::fewest_cards(const Solution* alone) {
  const std::size_t most = alone != nullptr ? alone->card.size() : problem_.cards.size();
  for (std::size_t cards = 2; cards <= most; ++cards) {
    auto best = on_so_many(cards);
    if (!best) continue;
    if (alone != nullptr && cards == most && rate_of(*best) <= rate_of(*alone)) return std::nullopt;
    return settled(std::move(*best));
  }
  return std::nullopt;
}

std::optional<Solution> Replicator::least_latency() {
  const std::size_t most = std::min<std::size_t>(problem_.cards.size(), kMostReplicas);
  std::optional<Solution> best;
  for (std::size_t copies = 2; copies <= most && !best; ++copies)
    for (const auto cards : sizes(problem_.cards.size() / copies))
      for (const Cards& group : groups_.of(cards, copies)) {
        auto found = laid(group, limit_of(copies), copies, copies).found;
        if (found && (!best || found->latency_seconds < best->latency_seconds)) best = std::move(found);
      }
  return best ? std::optional(settled(std::move(*best))) : best;
}

Status check_asked(const Problem& problem) {
  const std::size_t asked = *problem.replicas, cards = problem.cards.size();
  const std::string what = "--replicas " + std::to_string(asked) + ": ";
  if (asked == 0) return Error(ErrorCode::kInvalidInput, what + "at least one is needed");
  const std::size_t each = std::max<std::size_t>(1, problem.partitions.value_or(1));
  if (asked > cards / each)
    return Error(ErrorCode::kDoesNotFit,
                 what + (each == 1 ? std::string() : "each of " + plural(each, "card") + ", ") + "cluster '" +
                     problem.cluster + "' has " + plural(cards, "card") + "; ask for at most " +
                     std::to_string(std::max<std::size_t>(1, cards / each)) + ", or name a larger cluster");
  if (asked > kMostReplicas)
    return Error(ErrorCode::kInvalidInput,
                 what + "at most " + std::to_string(kMostReplicas) + " are possible");
  return {};
}

/// What copies reach at most, for a target that is not met.
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

/// Copies where the target needs them, or takes fewer cards with them.
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

}  // namespace

Result<Solution> solve_replicated(const Problem& problem, bool explain) {
  if (problem.replicas) MILLRACE_TRY(check_asked(problem));
  // What is wrong with the problem itself, solve() says.
  const bool several = problem.replicas.value_or(1) > 1;
  if (problem.replicas && !several) {
    Problem one = problem;
    one.replicas.reset();
    return solve(one, explain);
  }
  const bool usable = check(problem).empty() && problem.cards.size() > 1 && problem.partitions != 0U &&
                      check_given(problem).ok() && !layers(problem).empty();
  if (!usable) return solve(problem, explain);
  if (several) return Replicator(problem).so_many(*problem.replicas, explain);
  if (problem.partitions || !is_predictable(problem)) return solve(problem, explain);
  if (problem.targets.objective != Objective::kThroughput) return for_target(problem, explain);
  if (auto found = Replicator(problem).most_frames()) return std::move(*found);
  return solve(problem, explain);
}

bool may_be_better(const Problem& problem, const Solution& solution) {
  if (problem.targets.objective == Objective::kLatency) return true;
  const bool by_cards = problem.targets.objective == Objective::kCards;
  const std::size_t used = solution.card.size() * solution.replicas();
  const std::size_t most = by_cards ? used : problem.cards.size();
  const Board board(problem);
  Search search(board);
  for (std::uint32_t cards = 1; cards <= std::min(most, board.chain.size()); ++cards) {
    if (problem.partitions && *problem.partitions != cards) continue;
    for (std::size_t all = cards; all <= most; all += cards) {  // so many copies need no more than this
      const std::size_t copies = all / cards;
      if (problem.replicas ? copies != *problem.replicas : copies > kMostReplicas) continue;
      const double target = problem.targets.frames_per_second.value_or(0);
      const double rate = by_cards && all < used ? target : std::max(target, rate_of(solution) * kWorthwhile);
      if (search.possible(cards, rate > 0 ? static_cast<double>(copies) / rate : kAnyInterval)) return true;
    }
  }
  return false;
}

std::string check_copies(const Problem& problem, const Solution& solution) {
  if (solution.copies.empty()) return {};
  const Board board(problem);
  const Groups groups(board);
  std::set<std::uint32_t> used(solution.card.begin(), solution.card.end());
  for (const Cards& copy : solution.copies) {
    if (copy.size() != solution.card.size())
      return "a replica has " + plural(copy.size(), "card") + ", the first one " +
             std::to_string(solution.card.size());
    for (std::size_t place = 0; place < copy.size(); ++place) {
      if (copy[place] >= problem.cards.size()) return "a replica has a card that does not exist";
      const Card &card = problem.cards[copy[place]], &first = problem.cards[solution.card[place]];
      if (!used.insert(copy[place]).second) return "card '" + card.name + "' is used twice";
      if (!groups.same_kind(copy[place], solution.card[place]))
        return "card '" + card.name + "' (" + card.device + ") stands for '" + first.name + "' (" +
               first.device + ") in a replica and is not of its kind";
    }
    for (const Hop& hop : solution.hops)
      if (!groups.same_wire(copy[hop.from], copy[hop.to], solution.card[hop.from], solution.card[hop.to]))
        return "cards '" + problem.cards[copy[hop.from]].name + "' and '" + problem.cards[copy[hop.to]].name +
               "' of a replica are not cabled as '" + problem.cards[solution.card[hop.from]].name +
               "' and '" + problem.cards[solution.card[hop.to]].name + "' are";
  }
  return {};
}

}  // namespace millrace::compiler::explore
