// Converts the options that `plan` and `compile` share into the compiler's options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// Fills `options` from the command line's `what`. Returns kInvalidInput if the objective or a utilisation is
/// not valid.
Status fill(const PlanWhat& what, compiler::PlanOptions& options);

/// Splits the values of the option --plugins ("a.py,b.py", or the option several times) into the files that they name,
/// in order. Returns kInvalidInput if an entry is empty, names no file, or is given twice.
Result<std::vector<std::filesystem::path>> plugin_files(const std::vector<std::string>& values);

}  // namespace millrace::cli
