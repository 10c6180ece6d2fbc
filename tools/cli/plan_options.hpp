// What `plan` and `compile` take alike, as the compiler's options.
#pragma once

#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// kInvalidInput: an objective or a utilisation that is none.
Status fill(const PlanWhat& what, compiler::PlanOptions& options);

}  // namespace millrace::cli
