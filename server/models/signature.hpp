// What changes for clients where one version of a model takes another's place.
#pragma once

#include <string>

#include "runtime/plan/deployment.hpp"

namespace millrace::server::models {

/// How the inputs and outputs of `next` differ from those of `now`, in names, datatypes, shapes and order:
/// "input 'x' was FP32 [1,8], is INT8 [1,8]; output 'z' is new". Empty where they are the same, so that a
/// client of the one is a client of the other. Printable, and at most 8 differences: the rest is counted.
std::string signature_difference(const runtime::plan::ModelInfo& now, const runtime::plan::ModelInfo& next);

}  // namespace millrace::server::models
