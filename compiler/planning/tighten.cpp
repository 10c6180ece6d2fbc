#include "compiler/planning/tighten.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/format.hpp"
#include "compiler/explore/replicas.hpp"

namespace millrace::compiler {
namespace {

std::uint64_t scaled(std::uint64_t amount, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(amount) * factor);
}

/// The cards that stand at this place of the pipeline: one in each replica.
std::vector<std::uint32_t> cards_at(const explore::Solution& solution, std::uint32_t place) {
  std::vector<std::uint32_t> cards{solution.card[place]};
  for (const auto& copy : solution.copies) cards.push_back(copy[place]);
  return cards;
}

/// One region: `region` is what the designs take of it, `searched` what the search counted, which leaves out
/// what joins the blocks. All cards of the kind get less. The cards themselves get less than the search
/// counted: where the joints are a large part of the region, the share alone would let the search find the
/// same plan again.
bool tighten_region(explore::Problem& problem, const std::vector<std::uint32_t>& cards, std::size_t which,
                    const explore::RegionUse& region, const explore::RegionUse& searched) {
  bool again = false;
  for (std::size_t k = 0; k < explore::kMemoryBytes; ++k) {
    if (region.used[k] <= region.available[k]) continue;
    again = true;
    const double factor =
        0.995 * static_cast<double>(region.available[k]) / static_cast<double>(region.used[k]);
    for (auto& card : problem.cards) {
      if (card.device != problem.cards[cards.front()].device) continue;
      auto& available = card.regions[which].available[k];
      available = scaled(available, factor);
    }
    for (const auto card : cards) {
      auto& available = problem.cards[card].regions[which].available[k];
      available = std::min(available, scaled(searched.used[k], factor));
    }
  }
  return again;
}

}  // namespace

std::string missed(const Predicted& plan) {
  return explore::missed(plan.problem().targets, plan.frames_per_second(), plan.latency_seconds);
}

std::string overfull(const Predicted& plan) {
  std::string out;
  for (const auto& place : plan.analysis.places)
    for (const auto& region : place.regions)
      for (std::size_t k = 0; k < explore::kMemoryBytes; ++k)
        if (region.used[k] > region.available[k])
          out += (out.empty() ? "card '" : "; card '") + plan.problem().cards[place.card].name +
                 "', region '" + region.name + "': " + std::to_string(region.used[k]) + " " +
                 explore::kind_name(k) + " are needed, " + std::to_string(region.available[k]) +
                 " are left to it";
  return out;
}

bool tighten_regions(const Predicted& plan, explore::Problem& problem) {
  if (overfull(plan).empty()) return false;
  const explore::Analysis searched = explore::analyse(plan.problem(), plan.solution);
  bool again = false;
  for (std::uint32_t place = 0; place < plan.analysis.places.size(); ++place) {
    const auto& figures = plan.analysis.places[place];
    for (std::size_t r = 0; r < figures.regions.size(); ++r)
      again = tighten_region(problem, cards_at(plan.solution, place), r, figures.regions[r],
                             searched.places[place].regions[r]) ||
              again;
  }
  return again;
}

bool tighten(const Predicted& plan, explore::Problem& problem) {
  bool again = tighten_regions(plan, problem);
  if (auto& target = problem.targets.frames_per_second;
      target && plan.frames_per_second() < *plan.problem().targets.frames_per_second) {
    again = true;
    *target *= *plan.problem().targets.frames_per_second / plan.frames_per_second() * 1.001;
  }
  if (auto& most = problem.targets.max_latency_seconds;
      most && plan.latency_seconds > *plan.problem().targets.max_latency_seconds) {
    again = true;
    *most *= *plan.problem().targets.max_latency_seconds / plan.latency_seconds * 0.999;
  }
  return again;
}

void Nearest::compare(const Predicted& plan) {
  const auto& targets = plan.problem().targets;
  double factor = 1;
  if (targets.frames_per_second)
    factor = std::max(factor, *targets.frames_per_second / plan.frames_per_second());
  if (targets.max_latency_seconds)
    factor = std::max(factor, plan.latency_seconds / *targets.max_latency_seconds);
  std::string missed = compiler::missed(plan);
  if (missed.empty() || (!missed_.empty() && factor >= factor_)) return;
  factor_ = factor;
  missed_ = std::move(missed);
}

Error Nearest::error(const explore::Problem& asked, const explore::Problem& tightened, bool explain) const {
  const std::string model = "model '" + asked.model + "': ";
  std::string reason;
  if (explain) {
    // First with the targets as asked: what joins the blocks may already exclude them.
    explore::Problem smaller = tightened;
    smaller.targets = asked.targets;
    auto found = explore::solve_replicated(smaller, true);
    if (found.ok()) found = explore::solve_replicated(tightened, true);
    if (!found.ok())
      reason =
          ". If FIFOs, width converters and waiting between blocks are counted: " + found.error().message();
  }
  if (missed_.empty())
    return Error(ErrorCode::kDoesNotFit,
                 model +
                     "FIFOs and width converters between the blocks need more than the cards have left; " +
                     "lower --target-fps, raise --max-utilisation, or give more cards" + reason);
  return Error(ErrorCode::kDoesNotFit, model + "no plan was found that holds when it is played clock by " +
                                           "clock; the nearest gives " + missed_ +
                                           ". Ask for no more than that, or give more or larger cards" +
                                           reason);
}

}  // namespace millrace::compiler
