// A tensor's elements: their types in the Open Inference Protocol, as bytes and as JSON numbers.
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

// Here `datatype` is a name as the protocol has it: "FP32".

bool is_datatype(std::string_view datatype);

std::uint64_t elements_of(const runtime::plan::TensorSignature& signature);

/// The bytes of one frame of the tensor, in its own type or in another one. 0 if the type's elements have no fixed size.
std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature);
std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature, std::string_view datatype);

/// A JSON number as it was written (integers stay exact), or a JSON boolean.
using Number = std::variant<std::int64_t, std::uint64_t, double, bool>;

/// Converts numbers to little-endian elements. kInvalidInput for a number of another kind or outside the type's range
/// (300 as UINT8, 1.5 as INT8, true as FP32, 1e39 as FP32), and for FP16, BF16 and BYTES, which travel as binary data
/// only. Reals round to the nearest FP32. The message begins with ".data", to be put behind the tensor's name.
Result<std::vector<std::byte>> bytes_of_numbers(std::string_view datatype,
                                                const std::vector<Number>& numbers);

/// Appends the elements as a flat JSON array. kUnsupported if JSON has no form for them: NaN, infinities, FP16,
/// BF16. The message begins with `where`.
Status append_numbers(std::string& out, std::string_view datatype, std::span<const std::byte> bytes,
                      const std::string& where);

/// The elements as doubles. kUnsupported for types that a double does not hold exactly, and for BOOL. The message
/// begins with `where`.
Result<std::vector<double>> doubles_of(std::string_view datatype, std::span<const std::byte> bytes,
                                       const std::string& where);

}  // namespace millrace::server::http
