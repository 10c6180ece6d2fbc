// The input of a deployment's known frame (KnownAnswer in deployment.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plan {

/// Whether known_inputs() can make tensors of this datatype: FP32, and signed and unsigned integers of 8 and 16 bits.
bool has_known_inputs(const std::string& datatype);

/// Returns the tensors of the known frame, in the order of the model's inputs. They have the same bytes on every machine.
/// The deployment must have passed validate() and must have a known answer.
std::vector<std::vector<std::byte>> known_inputs(const Deployment& deployment);

}  // namespace millrace::runtime::plan
