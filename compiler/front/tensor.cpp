#include "compiler/front/tensor.hpp"

#include <charconv>
#include <cstring>
#include <utility>

#include "compiler/operators/operators.hpp"
#include "runtime/base/file.hpp"

namespace millrace::compiler {
namespace {

using graph::Constant;
using graph::Type;

constexpr std::int64_t kMostElements = std::int64_t{1} << 29;

Error invalid(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

const char* type_name(std::int32_t type) {
  static constexpr const char* kNames[] = {
      "undefined",      "float32",    "uint8",          "int8",       "uint16",   "int16",
      "int32",          "int64",      "string",         "bool",       "float16",  "float64",
      "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",     "float4e2m1"};
  return type >= 0 && type < static_cast<std::int32_t>(std::size(kNames)) ? kNames[type]
                                                                          : "of an unknown kind";
}

Result<std::uint64_t> parse_number(const std::string& text, const std::string& key) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return invalid("external data '" + key + "' is not a number");
  return value;
}

/// Whether symbolic links lead from `path` to a place outside `directory`. False if the path does not exist.
bool leads_outside(const std::filesystem::path& directory, const std::filesystem::path& path) {
  std::error_code code;
  const auto home = std::filesystem::weakly_canonical(directory.empty() ? "." : directory, code);
  if (code) return false;
  const auto real = std::filesystem::weakly_canonical(path, code);
  return !code && *real.lexically_relative(home).begin() == "..";
}

Result<std::string> read_external(const onnx::TensorProto& tensor, const std::filesystem::path& directory,
                                  std::uint64_t bytes) {
  std::string location;
  std::uint64_t offset = 0;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      MILLRACE_ASSIGN(offset, parse_number(entry.value(), "offset"));
    }
    if (entry.key() == "length") {
      MILLRACE_ASSIGN(const std::uint64_t length, parse_number(entry.value(), "length"));
      if (length != bytes)
        return invalid("external data has " + std::to_string(length) + " bytes, its shape needs " +
                       std::to_string(bytes));
    }
  }
  const std::filesystem::path relative = std::filesystem::path(location).lexically_normal();
  if (location.empty() || relative.is_absolute() || *relative.begin() == "..")
    return invalid("external data location '" + location + "' is not a path below the model's directory");
  const std::filesystem::path path = directory / relative;
  if (leads_outside(directory, path))
    return invalid(
        "external data location '" + location +
        "' leads outside the model's directory through a symbolic link; put the file itself beside "
        "the model");
  auto data = read_file_part(path, offset, bytes);
  if (data.ok()) return data;
  if (data.error().code() == ErrorCode::kNotFound)
    return Error(ErrorCode::kNotFound,
                 "its weights are in the file '" + location + "', which is missing beside the model");
  return data.error().within("its weights");
}

template <class T>
void widen(const std::string& raw, std::vector<std::int64_t>& out) {
  if constexpr (sizeof(T) == 1) {  // models have millions of these, so do not zero them first
    const auto* first = reinterpret_cast<const T*>(raw.data());
    out.assign(first, first + raw.size());
    return;
  }
  out.resize(raw.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<std::int64_t>(value);
  }
}

/// A byte holds two elements, the first in its low half.
void widen_nibbles(const std::string& raw, bool is_signed, std::size_t count,
                   std::vector<std::int64_t>& out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(raw[i / 2]);
    const int nibble = i % 2 == 0 ? byte & 15 : byte >> 4;
    out.push_back(is_signed && nibble > 7 ? nibble - 16 : nibble);
  }
}

void from_raw(const std::string& raw, Type type, std::size_t count, Constant& c) {
  if (type.is_float()) {
    c.floats.resize(count);
    if (count > 0) std::memcpy(c.floats.data(), raw.data(), raw.size());
    return;
  }
  const bool is_signed = type.kind == Type::Kind::kSigned;
  if (type.bits == 4)
    widen_nibbles(raw, is_signed, count, c.integers);
  else if (type.bits == 8)
    is_signed ? widen<std::int8_t>(raw, c.integers) : widen<std::uint8_t>(raw, c.integers);
  else if (type.bits == 16)
    is_signed ? widen<std::int16_t>(raw, c.integers) : widen<std::uint16_t>(raw, c.integers);
  else if (type.bits == 32)
    is_signed ? widen<std::int32_t>(raw, c.integers) : widen<std::uint32_t>(raw, c.integers);
  else
    widen<std::int64_t>(raw, c.integers);
}

Status from_fields(const onnx::TensorProto& tensor, Type type, std::size_t count, Constant& c) {
  const bool halves = type.bits == 4;  // two elements per entry
  const auto copy = [&](const auto& field, auto& out) -> Status {
    const auto have = static_cast<std::size_t>(field.size());
    if (have != (halves ? (count + 1) / 2 : count))
      return invalid("has " + std::to_string(halves ? have * 2 : have) +
                     " elements of data, its shape needs " + std::to_string(count));
    out.assign(field.begin(), field.end());
    return {};
  };
  if (type.is_float()) return copy(tensor.float_data(), c.floats);
  if (type.bits == 64) {
    MILLRACE_TRY(copy(tensor.int64_data(), c.integers));
  } else if (type == Type::natural(32)) {
    MILLRACE_TRY(copy(tensor.uint64_data(), c.integers));
    for (std::int64_t& v : c.integers) v &= 0xFFFFFFFF;
  } else {
    MILLRACE_TRY(copy(tensor.int32_data(), c.integers));
  }
  if (halves) {
    std::string raw;
    for (const std::int64_t v : std::exchange(c.integers, {})) raw += static_cast<char>(v & 255);
    from_raw(raw, type, count, c);
  }
  for (const std::int64_t v : c.integers)
    if (v < type.lowest() || v > type.highest())
      return invalid("holds the value " + std::to_string(v) + ", outside " + to_string(type));
  return {};
}

}  // namespace

Result<Type> element_type(std::int32_t onnx_type) {
  if (const auto type = operators::type_of(onnx_type)) return *type;
  return Error(ErrorCode::kUnsupported,
               std::string("has elements ") + type_name(onnx_type) +
                   "; Millrace takes float32, bool and integers of 4, 8, 16, 32 and 64 bits");
}

Result<TensorData> read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& directory) {
  TensorData result;
  MILLRACE_ASSIGN(result.type, element_type(tensor.data_type()));
  if (tensor.has_segment()) return Error(ErrorCode::kUnsupported, "is stored in segments");
  std::int64_t count = 1;
  for (const std::int64_t d : tensor.dims()) {
    if (d < 0 || d > kMostElements) return invalid("has the impossible dimension " + std::to_string(d));
    count *= d;
    if (count > kMostElements) return invalid("has more than 2^29 elements");
    result.shape.push_back(d);
  }
  const auto n = static_cast<std::uint64_t>(count);
  const std::uint64_t bytes = result.type.bits == 4 ? (n + 1) / 2 : n * (result.type.bits / 8U);
  if (tensor.has_data_location() && tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    MILLRACE_ASSIGN(const std::string raw, read_external(tensor, directory, bytes));
    from_raw(raw, result.type, n, result.constant);
  } else if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != bytes)
      return invalid("has " + std::to_string(tensor.raw_data().size()) + " bytes of data, its shape needs " +
                     std::to_string(bytes));
    from_raw(tensor.raw_data(), result.type, n, result.constant);
  } else {
    MILLRACE_TRY(from_fields(tensor, result.type, n, result.constant));
  }
  return result;
}

}  // namespace millrace::compiler
