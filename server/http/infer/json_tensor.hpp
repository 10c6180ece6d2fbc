// Tensor data between JSON numbers and bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/http/infer/datatype.hpp"
#include "server/http/infer/infer_json.hpp"

namespace millrace::server::http {

/// Numbers -> little-endian elements. A number that the type does not hold exactly in kind and range (300 as
/// UINT8, 1.5 as INT8, true as FP32, 1e39 as FP32) is kInvalidInput; reals round to the nearest FP32. FP16,
/// BF16 and BYTES are refused: they travel as binary data. `where` begins the message.
Result<std::vector<std::byte>> bytes_of_numbers(Datatype type, const std::vector<Number>& numbers,
                                                const std::string& where);

/// Appends the elements as a flat JSON array. kUnsupported where JSON has no form for them: NaN, infinities,
/// FP16, BF16.
Status append_numbers(std::string& out, Datatype type, std::span<const std::byte> bytes,
                      const std::string& where);

}  // namespace millrace::server::http
