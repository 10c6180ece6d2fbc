#include "compiler/planning/search.hpp"

#include <algorithm>

#include "compiler/explore/partition.hpp"
#include "compiler/planning/plan_file.hpp"
#include "compiler/planning/split_channels.hpp"

namespace millrace::compiler {
namespace {

/// Checks that the options do not contradict the plan file.
Status check_agreement(const PlanOptions& options, const Changes& file) {
  const auto refused = [&](const std::string& option, const char* key) {
    return Error(ErrorCode::kInvalidInput,
                 option + ": " + options.plan.string() + " has it otherwise; edit its '" + key + "'");
  };
  for (const Split& wanted : options.splits)
    if (std::find(file.splits.begin(), file.splits.end(), wanted) == file.splits.end())
      return refused("--split " + wanted.block + "=" + std::to_string(wanted.parts), "splits");
  for (const auto& wanted : options.host_blocks)
    if (std::find(file.host_blocks.begin(), file.host_blocks.end(), wanted) == file.host_blocks.end())
      return refused("--host " + wanted, "host");
  return {};
}

/// Returns the figures that a search finds without the plan file. Returns nothing if the search finds no plan, for
/// example because the options name blocks that exist only after the file's splits.
Result<std::optional<Unedited>> search_without_file(const Task& task) {
  const auto found = choose(task);
  if (found.ok())
    return std::optional(Unedited{found->cards(), found->frames_per_second(), found->latency_seconds});
  if (found.error().code() == ErrorCode::kInternal) return found.error();
  return std::optional<Unedited>();
}

/// Lowers the model with the plan file's splits and host blocks.
Result<Lowered> lower_as_written(const Task& task, const Changes& changes) {
  MILLRACE_ASSIGN(const LoweredPtr made, lower(task, changes));
  Lowered lowered = *made;
  if (const auto& without = lowered.candidates.without; !without.empty())
    return Error(ErrorCode::kInvalidInput, task.options.plan.string() + ": there is no hardware for " +
                                               joined(blocks_of(without)) +
                                               "; name what has none under 'host'");
  MILLRACE_TRY(check_host(task, lowered));
  return lowered;
}

/// Whether the plan file stores the weights of some block outside the FPGA image.
bool loads_constants(const Lowered& lowered, const explore::Choice& choice) {
  for (std::uint32_t i = 0; i < lowered.problem.operations.size(); ++i) {
    const auto& operation = lowered.problem.operations[i];
    if (operation.host) continue;
    const auto& way = operation.implementations[choice.implementation[i]];
    if (lowered.candidates.of_block[i][way.candidate].folding.weights != generators::Placement::kBaked)
      return true;
  }
  return false;
}

Result<explore::Solution> followed_solution(const PlanOptions& options, const explore::Problem& asked,
                                            const PlanFile& file) {
  explore::Problem problem = asked;  // the problem for one replica
  if (auto& target = problem.targets.frames_per_second)
    *target /= static_cast<double>(1 + file.copies.size());
  MILLRACE_ASSIGN(explore::Solution solution, explore::solution_of(problem, file.choice));
  solution.copies = file.copies;
  if (const auto wrong = explore::check_copies(asked, solution); !wrong.empty())
    return Error(ErrorCode::kInvalidInput, options.plan.string() + ": replicas: " + wrong);
  if (options.replicas && *options.replicas != solution.replicas())
    return Error(ErrorCode::kInvalidInput, "--replicas " + std::to_string(*options.replicas) + ": " +
                                               options.plan.string() + " has " +
                                               std::to_string(solution.replicas()) + "; edit its 'replicas'");
  if (const auto wrong = explore::verify(asked, solution); !wrong.empty())
    return Error(ErrorCode::kInternal, "the plan built from the plan file is invalid: " + wrong);
  return solution;
}

}  // namespace

Result<Predicted> follow(const Task& task) {
  const PlanOptions& options = task.options;
  MILLRACE_ASSIGN(const Changes changes, read_changes(options.plan, task.model.program));
  MILLRACE_TRY(check_agreement(options, changes));
  MILLRACE_ASSIGN(const auto unedited, search_without_file(task));
  MILLRACE_ASSIGN(Lowered lowered, lower_as_written(task, changes));
  MILLRACE_ASSIGN(PlanFile file, read_plan_file(task, std::move(lowered)));
  // Cards need room for the unit that loads constants only if the plan file stores constants outside the FPGA images.
  file.lowered.loader = loads_constants(file.lowered, file.choice);
  MILLRACE_ASSIGN(file.lowered.problem.cards, cards_of(task, file.lowered.program, file.lowered.loader));
  MILLRACE_ASSIGN(explore::Solution solution, followed_solution(options, file.lowered.problem, file));
  Attempt attempt{std::make_shared<const Lowered>(std::move(file.lowered)), std::move(solution)};
  MILLRACE_ASSIGN(Predicted plan, predicted(task, std::move(attempt)));
  if (const std::string wrong = overfull(plan); !wrong.empty())
    return Error(ErrorCode::kDoesNotFit, options.plan.string() + ": put together, it does not fit: " + wrong +
                                             "; edit the plan, or raise --max-utilisation");
  if (const std::string wrong = missed(plan); !wrong.empty())
    return Error(ErrorCode::kDoesNotFit, options.plan.string() +
                                             ": simulated clock by clock, the plan gives " + wrong +
                                             "; edit the plan, or lower the targets");
  plan.followed = Followed{unedited};
  return plan;
}

}  // namespace millrace::compiler
