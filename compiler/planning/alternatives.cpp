#include "compiler/planning/alternatives.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler {
namespace {

using explore::operator+=;

constexpr std::size_t kMostIdle = 3;   // the search ends after this many numbers of cards without improvement
constexpr std::size_t kMostCards = 9;  // most numbers of cards that are tried
constexpr std::size_t kMostEffort = 500;  // operations times cards; above this the searches take too long

Alternative made(const explore::Problem& problem, const explore::Solution& solution) {
  Alternative out;
  out.replicas = static_cast<std::uint32_t>(solution.replicas());
  out.cards = static_cast<std::uint32_t>(solution.card.size()) * out.replicas;
  out.objective = problem.targets.objective;
  out.interval_seconds = std::max(solution.interval_seconds, out.replicas * explore::host_seconds(problem));
  out.latency_seconds = solution.latency_seconds;
  out.exact = solution.exact;
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    if (!problem.operations[i].host)
      out.used += problem.operations[i].implementations[solution.implementation[i]].amounts;
  for (auto& amount : out.used) amount *= out.replicas;
  return out;
}

/// Adds an alternative to the list `all`. If the list already has one for the same objective and number of cards, keeps
/// the faster of the two.
void take_faster(std::vector<Alternative>& all, const Alternative& copies) {
  for (auto& way : all) {
    if (way.cards != copies.cards || way.objective != copies.objective) continue;
    const bool exact = way.exact && copies.exact;
    if (way.frames_per_second() * (1 + 1e-9) < copies.frames_per_second()) way = copies;
    way.exact = exact;
    return;
  }
  all.push_back(copies);
}

/// Returns the copies of a pipeline that together have the highest rate on `cards` cards.
std::optional<Alternative> replicated(const explore::Problem& problem, std::uint32_t cards) {
  std::optional<Alternative> best;
  for (std::uint32_t replicas = 2; replicas <= cards; ++replicas) {
    if (cards % replicas != 0) continue;
    explore::Problem copies = problem;
    copies.partitions = cards / replicas;
    copies.replicas = replicas;
    copies.targets = {};
    copies.targets.objective = explore::Objective::kThroughput;
    const auto solution = explore::solve_replicated(copies, false);
    if (!solution.ok() || !explore::verify(copies, *solution).empty()) continue;
    const Alternative way = made(copies, *solution);
    const bool exact = way.exact && (!best || best->exact);
    if (!best || best->frames_per_second() < way.frames_per_second()) best = way;
    best->exact = exact;
  }
  return best;
}

}  // namespace

Alternatives find_alternatives(const Predicted& plan) {
  Alternatives out;
  explore::Problem problem = plan.problem();
  const auto operations =
      static_cast<std::size_t>(std::count_if(problem.operations.begin(), problem.operations.end(),
                                             [](const auto& operation) { return !operation.host; }));
  const std::size_t cards = std::min(kMostCards, problem.cards.size());
  if (operations * cards > kMostEffort) {
    out.left_out =
        "not searched: the model is large, and each number of cards would need a long search of its own; "
        "run plan with --partitions N to see the plan for N cards";
    return out;
  }
  problem.replicas.reset();  // this loop tries one pipeline; replicated() tries copies
  double interval = std::numeric_limits<double>::infinity(), latency = interval;
  std::size_t idle = 0;  // how many successive numbers of cards improved nothing
  std::uint32_t n = 1;
  for (; n <= cards && (idle < kMostIdle || n <= plan.cards()); ++n) {
    ++idle;
    for (const auto objective : {explore::Objective::kThroughput, explore::Objective::kLatency}) {
      problem.partitions = n;
      problem.targets = {};
      problem.targets.objective = objective;
      const auto solution = explore::solve(problem, false);
      if (!solution.ok() || !explore::verify(problem, *solution).empty()) continue;
      out.found.push_back(made(problem, *solution));
      const auto& way = out.found.back();
      if (way.interval_seconds < interval || way.latency_seconds < latency) idle = 0;
      interval = std::min(interval, way.interval_seconds);
      latency = std::min(latency, way.latency_seconds);
    }
    if (const auto copies = replicated(problem, n)) take_faster(out.found, *copies);
  }
  if (n <= problem.cards.size())
    out.left_out = "more than " + std::to_string(n - 1) + " cards were not searched" +
                   (idle >= kMostIdle ? ", for the last of them brought nothing" : "");
  std::sort(out.found.begin(), out.found.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.cards, -a.frames_per_second(), a.latency_seconds) <
           std::tuple(b.cards, -b.frames_per_second(), b.latency_seconds);
  });
  return out;
}

}  // namespace millrace::compiler
