// The terms of a plan's resources that no measurement supports.
#pragma once

#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The terms that cost() extrapolates for the hardware of a plan that is predicted: its blocks as they are
/// folded, what joins them where the plan was played, and its ports to the host. Sorted, each once. Errors as
/// Generator::build()'s.
Result<std::vector<generators::Extrapolation>> extrapolations(const generators::Catalog& catalog,
                                                              const Predicted& plan);

}  // namespace millrace::compiler
