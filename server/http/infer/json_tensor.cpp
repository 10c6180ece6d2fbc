#include "server/http/infer/json_tensor.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors travel little-endian");

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

/// Returns false if T does not hold the number.
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
Result<std::vector<std::byte>> convert_all(Datatype type, const std::vector<Number>& numbers,
                                           const std::string& where) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value{};
    if (!convert(numbers[i], value))
      return Error(ErrorCode::kInvalidInput, where + ".data[" + std::to_string(i) + "] is " +
                                                 text_of(numbers[i]) + ", which is not a value of " +
                                                 std::string(to_string(type)));
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
                                                    ", which JSON cannot carry; ask for binary_data");
      append_number(out, value);
    }
  }
  out += ']';
  return {};
}

}  // namespace

Result<std::vector<std::byte>> bytes_of_numbers(Datatype type, const std::vector<Number>& numbers,
                                                const std::string& where) {
  const auto convert = [&](auto element) -> Result<std::vector<std::byte>> {
    if constexpr (std::is_same_v<decltype(element), std::monostate>)
      return Error(ErrorCode::kInvalidInput, where + ".data: " + std::string(to_string(type)) +
                                                 " travels as binary data, not as JSON numbers");
    else
      return convert_all<decltype(element)>(type, numbers, where);
  };
  return std::visit(convert, element_of(type));
}

Status append_numbers(std::string& out, Datatype type, std::span<const std::byte> bytes,
                      const std::string& where) {
  const auto append = [&](auto element) -> Status {
    if constexpr (std::is_same_v<decltype(element), std::monostate>)
      return Error(ErrorCode::kUnsupported,
                   where + ": " + std::string(to_string(type)) + " has no JSON form; ask for binary_data");
    else
      return append_all<decltype(element)>(out, bytes, where);
  };
  return std::visit(append, element_of(type));
}

}  // namespace millrace::server::http
