// The best of several ways to state a model: with layers split, blocks on the host, weights in memory.
#pragma once

#include "compiler/planning/lower.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The best plan that a search finds. kDoesNotFit: no plan fits the cluster; the message says whether more
/// cables would help. kInvalidInput: options contradict the model.
Result<Predicted> choose(const Task& task);

}  // namespace millrace::compiler
