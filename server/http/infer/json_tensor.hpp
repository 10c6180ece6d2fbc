// Converts tensor data from JSON numbers to bytes and back.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/http/infer/datatype.hpp"
#include "server/http/infer/infer_json.hpp"

namespace millrace::server::http {

/// Converts numbers to little-endian elements. kInvalidInput for a number of another kind or outside the type's range
/// (300 as UINT8, 1.5 as INT8, true as FP32, 1e39 as FP32), and for FP16, BF16 and BYTES, which travel as binary data
/// only. Reals round to the nearest FP32. The message begins with `where`.
Result<std::vector<std::byte>> bytes_of_numbers(Datatype type, const std::vector<Number>& numbers,
                                                const std::string& where);

/// Appends the elements as a flat JSON array. kUnsupported if JSON has no form for them: NaN, infinities, FP16,
/// BF16.
Status append_numbers(std::string& out, Datatype type, std::span<const std::byte> bytes,
                      const std::string& where);

}  // namespace millrace::server::http
