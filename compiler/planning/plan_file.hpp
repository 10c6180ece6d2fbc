// plan.yaml: a plan as a person reads and edits it. The format is described in README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler {

/// The text of a plan's file; the plan is predicted.
std::string plan_file(const Plan& plan);

struct PlanFile {
  explore::Choice choice;
  std::vector<std::vector<std::uint32_t>> copies;  // cards of further replicas, as the file has them
};

/// Splits layers of the plan's program as a file has them, and notes that in the plan's splits; gives the
/// blocks that it puts on the host. kInvalidInput, naming file, line and what is wrong.
Result<std::vector<std::string>> read_plan_changes(const std::filesystem::path& file, Plan& plan);

/// After read_plan_changes(): what a file chooses for the plan's program and problem. A folding that no
/// generator proposed is asked for and added to candidates and problem. `may_place`: a block's weights may be
/// elsewhere than the program has them. kInvalidInput, naming file, line and what is wrong.
Result<PlanFile> read_plan_file(const std::filesystem::path& file, const generators::Catalog& catalog,
                                Plan& plan, bool may_place);

}  // namespace millrace::compiler
