// Converts the elements of tensors between bytes and JSON numbers, for each data type of the Open Inference Protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::server::http {

// In this file `datatype` is a name of the protocol, such as "FP32".

bool is_datatype(std::string_view datatype);

std::uint64_t elements_of(const runtime::plan::TensorSignature& signature);

/// Returns the size in bytes of one frame of the tensor, in its own data type or in `datatype`. Returns 0 if elements
/// of the type have no fixed size.
std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature);
std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature, std::string_view datatype);

/// A JSON number or boolean. A number that is written as an integer is kept exactly.
using Number = std::variant<std::int64_t, std::uint64_t, double, bool>;

/// Converts numbers to little-endian elements. A real is rounded to the nearest FP32. Returns kInvalidInput if the type
/// cannot represent a number (300 as UINT8, 1.5 as INT8, true as FP32, 1e39 as FP32), and for FP16, BF16 and BYTES,
/// which clients must send as binary data. The message begins with ".data"; the caller adds the tensor's name in front.
Result<std::vector<std::byte>> bytes_of_numbers(std::string_view datatype,
                                                const std::vector<Number>& numbers);

/// Appends the elements as a flat JSON array. Returns kUnsupported for NaN, infinities, FP16, BF16 and BYTES, which are
/// sent as binary data only. The message begins with `where`.
Status append_numbers(std::string& out, std::string_view datatype, std::span<const std::byte> bytes,
                      const std::string& where);

/// Returns the elements as doubles. Returns kUnsupported for 64-bit integers, FP16, BF16, BYTES and BOOL. The message
/// begins with `where`.
Result<std::vector<double>> doubles_of(std::string_view datatype, std::span<const std::byte> bytes,
                                       const std::string& where);

}  // namespace millrace::server::http
