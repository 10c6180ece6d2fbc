// The integer types that a client may send instead of a model's float inputs.
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

/// The integers that a client may send for one input. An integer q represents (q - zero_point) * scale.
struct QuantisedInput {
  std::string datatype;  // "INT8", "UINT8", "INT16", "UINT16"
  float scale = 1;
  std::int32_t zero_point = 0;
  std::int32_t lowest = 0, highest = 0;  // range of allowed integers; may be narrower than the datatype's
};

/// Returns the integers that can be sent for each of model.inputs. An input accepts integers if it is
/// float32, is first quantised with one scale (a rearrangement may come before), and every allowed integer is
/// unchanged after dequantising and quantising.
std::vector<std::optional<QuantisedInput>> quantised_inputs(const Deployment& deployment);

/// Converts integers of the input's datatype to float32, both as little-endian bytes. `bytes` must contain whole
/// elements. Returns kInvalidInput, naming the element's index, for an element outside of lowest..highest.
Result<std::vector<std::byte>> dequantised(const QuantisedInput& input, std::span<const std::byte> bytes);

}  // namespace millrace::runtime::plan
