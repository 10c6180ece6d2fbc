// Writes and reads plan.yaml, a plan that a person can read and edit. compiler/README.md describes the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/planning/lower.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler {

/// Returns the text of the plan file for a plan that has a prediction.
std::string plan_file(const Plan& plan);

struct PlanFile {
  Lowered lowered;  // with candidates for the file's foldings
  explore::Choice choice;
  std::vector<std::vector<std::uint32_t>> copies;  // the cards of each replica after the first
};

/// Reads the splits and host blocks from a plan file. The blocks of `program` are not split. kInvalidInput names the
/// file, the line and what is wrong.
Result<Changes> read_changes(const std::filesystem::path& file, const kernels::Program& program);

/// Reads the choices in the file task.options.plan for a model that was lowered with read_changes(). Asks the
/// generators for foldings that they did not propose. kInvalidInput names the file, the line and what is wrong.
Result<PlanFile> read_plan_file(const Task& task, Lowered lowered);

}  // namespace millrace::compiler
