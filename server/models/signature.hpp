// How the inputs and outputs of two versions of a model differ.
#pragma once

#include <string>

#include "runtime/plan/deployment.hpp"

namespace millrace::server::models {

/// Returns how names, datatypes, shapes and order of the inputs and outputs differ, as printable text: "input 'x' was
/// FP32 [1,8], is INT8 [1,8]; output 'z' is new". Lists at most 8 differences and counts the rest. Returns an empty
/// text if both signatures are the same.
std::string signature_difference(const runtime::plan::ModelInfo& now, const runtime::plan::ModelInfo& next);

}  // namespace millrace::server::models
