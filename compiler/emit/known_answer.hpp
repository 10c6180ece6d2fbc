// Computes the known answer of a deployment (KnownAnswer in runtime/plan/deployment.hpp).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernels/program/program.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::emit {

/// Computes one frame of random inputs in software. `programs` are the partitions' programs with all parameters, by the
/// partition's name. Returns nothing if the plan cannot have a known answer (runtime/plan/README.md gives the reasons).
std::optional<runtime::plan::KnownAnswer> known_answer_of(
    const runtime::plan::Deployment& plan, const std::map<std::string, kernels::Program>& programs);

}  // namespace millrace::compiler::emit
