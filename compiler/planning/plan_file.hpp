// plan.yaml: a plan as a person reads and edits it. The format is described in compiler/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/planning/lower.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler {

/// The text of a plan's file. The plan is predicted.
std::string plan_file(const Plan& plan);

struct PlanFile {
  Lowered lowered;  // with candidates for the file's foldings
  explore::Choice choice;
  std::vector<std::vector<std::uint32_t>> copies;  // the cards of further replicas
};

/// The splits and host blocks of a file for `program`, whose blocks are not split. kInvalidInput, naming
/// file, line and what is wrong.
Result<Changes> read_changes(const std::filesystem::path& file, const kernels::Program& program);

/// What options.plan chooses for a model that is lowered with read_changes(). The generators are asked for
/// foldings that they did not propose. kInvalidInput, naming file, line and what is wrong.
Result<PlanFile> read_plan_file(const Task& task, Lowered lowered);

}  // namespace millrace::compiler
