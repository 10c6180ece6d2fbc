// A plan file followed instead of a search.
#pragma once

#include <optional>

#include "compiler/planning/lower.hpp"
#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The plan that options.plan describes. kInvalidInput: the file contradicts the model, the cluster or the
/// options. kDoesNotFit: put together, the plan exceeds a budget or misses a target.
Result<Chosen> follow(const Task& task);

}  // namespace millrace::compiler
