// Converts the options that `plan` and `compile` share into the compiler's options.
#pragma once

#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// Fills `options` from the command line's `what`. Returns kInvalidInput if the objective or a utilisation is
/// not valid.
Status fill(const PlanWhat& what, compiler::PlanOptions& options);

}  // namespace millrace::cli
