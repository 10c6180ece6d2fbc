// Which integers a model's inputs become first: what a client may send instead of the input's own type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plan {

/// An integer q stands for (q - zero_point) * scale.
struct QuantisedInput {
  std::string datatype;  // "INT8", "UINT8", "INT16", "UINT16"
  float scale = 1;
  std::int32_t zero_point = 0;
  std::int32_t lowest = 0, highest = 0;  // of fewer bits than the datatype has: what is allowed
};

/// For each of model.inputs: its integers, where the first thing that happens to a float32 input, moving its
/// elements aside, is to become integers of one scale, and each of them comes back from its real number
/// unchanged (looked at one by one).
std::vector<std::optional<QuantisedInput>> quantised_inputs(const Deployment& deployment);

/// Integers of the datatype -> float32, as little-endian bytes. kInvalidInput where one is outside lowest to
/// highest, naming its index. `bytes` must hold whole elements.
Result<std::vector<std::byte>> dequantised(const QuantisedInput& input, std::span<const std::byte> bytes);

}  // namespace millrace::runtime::plan
