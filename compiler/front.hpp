// From a model file to a program: reading, importing, lowering. Private to this folder.
#pragma once

#include "compiler/plan.hpp"
#include "compiler/steps.hpp"

namespace millrace::compiler {

/// The model's name, and the names of steps in `dump_after`.
Status check_front(const PlanOptions& options, const std::string& name);

/// Fills `model` but for its name; `assume` is taken where the model is float. The program is valid. `notes`:
/// what lowering had to say of single nodes, in words.
Result<kernels::Program> read_model(const PlanOptions& options, runtime::plan::ModelInfo& model,
                                    std::vector<std::string>& notes, Steps& steps);

}  // namespace millrace::compiler
