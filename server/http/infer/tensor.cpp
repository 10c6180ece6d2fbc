#include "server/http/infer/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors travel little-endian");

/// A value whose C++ type is the type of the elements; std::visit uses only the type. The value is monostate for FP16,
/// BF16 and BYTES, which have no C++ type.
using Element = std::variant<std::monostate, bool, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                             std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>;

struct Row {
  std::string_view name;
  std::size_t bytes;  // size of one element; 0: elements have no fixed size
  Element element;
};

constexpr Row kTable[] = {
    {"BOOL", 1, bool{}},
    {"UINT8", 1, std::uint8_t{}},
    {"UINT16", 2, std::uint16_t{}},
    {"UINT32", 4, std::uint32_t{}},
    {"UINT64", 8, std::uint64_t{}},
    {"INT8", 1, std::int8_t{}},
    {"INT16", 2, std::int16_t{}},
    {"INT32", 4, std::int32_t{}},
    {"INT64", 8, std::int64_t{}},
    {"FP16", 2, {}},
    {"FP32", 4, float{}},
    {"FP64", 8, double{}},
    {"BF16", 2, {}},
    {"BYTES", 0, {}},
};

/// Returns the row of kTable for `datatype`, or the row of BYTES if the type is unknown.
const Row& row_of(std::string_view datatype) {
  return *std::find_if(std::begin(kTable), std::end(kTable) - 1,
                       [&](const Row& row) { return row.name == datatype; });
}

std::string text_of(const Number& number) {
  std::string out;
  std::visit(
      [&](auto value) {
        if constexpr (std::is_same_v<decltype(value), bool>)
          out = value ? "true" : "false";
        else
          append_number(out, value);
      },
      number);
  return out;
}

/// Converts the number to T. Returns false if T cannot represent it.
template <class T>
bool convert(const Number& number, T& out) {
  return std::visit(
      [&](auto value) {
        using From = decltype(value);
        if constexpr (std::is_same_v<From, bool> || std::is_same_v<T, bool>) {
          if constexpr (std::is_same_v<From, T>) out = value;
          return std::is_same_v<From, T>;
        } else if constexpr (std::is_floating_point_v<T>) {
          out = static_cast<T>(value);
          return std::isfinite(static_cast<double>(out));
        } else if constexpr (std::is_floating_point_v<From>) {
          return false;
        } else {
          if (!std::in_range<T>(value)) return false;
          out = static_cast<T>(value);
          return true;
        }
      },
      number);
}

template <class T>
Result<std::vector<std::byte>> convert_all(std::string_view datatype, const std::vector<Number>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value{};
    if (!convert(numbers[i], value))
      return Error(ErrorCode::kInvalidInput, ".data[" + std::to_string(i) + "] is " + text_of(numbers[i]) +
                                                 ", which is not a value of " + std::string(datatype));
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T>
Status append_all(std::string& out, std::span<const std::byte> bytes, const std::string& where) {
  const std::size_t count = bytes.size() / sizeof(T);
  out.reserve(out.size() + count * 8 + 2);
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) out += ',';
    if constexpr (std::is_same_v<T, bool>) {
      out += bytes[i] != std::byte{0} ? "true" : "false";
    } else {
      T value{};
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (std::is_floating_point_v<T>)
        if (!std::isfinite(value))
          return Error(ErrorCode::kUnsupported, where + "[" + std::to_string(i) + "] is " +
                                                    (std::isnan(value) ? "NaN" : "infinite") +
                                                    ", which JSON cannot represent; request binary_data");
      append_number(out, value);
    }
  }
  out += ']';
  return {};
}

}  // namespace

bool is_datatype(std::string_view datatype) {
  return row_of(datatype).name == datatype;
}

std::uint64_t elements_of(const runtime::plan::TensorSignature& signature) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : signature.shape) count *= static_cast<std::uint64_t>(dim);
  return count;
}

std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature, std::string_view datatype) {
  return elements_of(signature) * row_of(datatype).bytes;
}

std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature) {
  return bytes_of(signature, signature.datatype);
}

Result<std::vector<std::byte>> bytes_of_numbers(std::string_view datatype,
                                                const std::vector<Number>& numbers) {
  const auto convert = [&](auto element) -> Result<std::vector<std::byte>> {
    if constexpr (std::is_same_v<decltype(element), std::monostate>)
      return Error(ErrorCode::kInvalidInput,
                   ".data: " + std::string(datatype) + " must be sent as binary data, not as JSON numbers");
    else
      return convert_all<decltype(element)>(datatype, numbers);
  };
  return std::visit(convert, row_of(datatype).element);
}

Status append_numbers(std::string& out, std::string_view datatype, std::span<const std::byte> bytes,
                      const std::string& where) {
  const auto append = [&](auto element) -> Status {
    if constexpr (std::is_same_v<decltype(element), std::monostate>)
      return Error(ErrorCode::kUnsupported,
                   where + ": " + std::string(datatype) + " cannot be sent as JSON; request binary_data");
    else
      return append_all<decltype(element)>(out, bytes, where);
  };
  return std::visit(append, row_of(datatype).element);
}

Result<std::vector<double>> doubles_of(std::string_view datatype, std::span<const std::byte> bytes,
                                       const std::string& where) {
  const auto read = [&](auto element) -> Result<std::vector<double>> {
    using T = decltype(element);
    if constexpr (std::is_floating_point_v<T> ||
                  (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) < 8)) {
      std::vector<double> values(bytes.size() / sizeof(T));
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
        values[i] = static_cast<double>(element);
      }
      return values;
    } else {
      return Error(ErrorCode::kUnsupported,
                   where + ": classification of " + std::string(datatype) + " is not offered");
    }
  };
  return std::visit(read, row_of(datatype).element);
}

}  // namespace millrace::server::http
