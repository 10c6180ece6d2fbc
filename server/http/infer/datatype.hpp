// The element types of the Open Inference Protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "runtime/plan/deployment.hpp"

namespace millrace::server::http {

enum class Datatype {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kFp32,
  kFp64,
  kBf16,
  kBytes,
};

std::optional<Datatype> parse_datatype(std::string_view text);
std::string_view to_string(Datatype type);

/// 0 for BYTES, whose elements have no fixed size.
std::size_t element_bytes(Datatype type);

/// Elements and bytes of one frame of a tensor. A signature whose datatype is not of fixed size has 0 bytes.
std::uint64_t elements_of(const runtime::plan::TensorSignature& signature);
std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature);

/// A zero of the C++ type of the elements, to visit; monostate for FP16, BF16 and BYTES, which have none.
using Element = std::variant<std::monostate, bool, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                             std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>;
Element element_of(Datatype type);

}  // namespace millrace::server::http
