#include "compiler/front/tensor.hpp"

#include <charconv>
#include <cstring>
#include <utility>

#include "compiler/operators/operators.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler {
namespace {

using graph::Constant;
using graph::Type;

constexpr std::int64_t kMostElements = std::int64_t{1} << 29;
constexpr int kMostConstantAxes = 32;
constexpr std::size_t kLongestPath = 1024;

Result<std::uint64_t> parse_number(const std::string& text, const std::string& key) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return invalid("external data '" + key + "' is not a number");
  return value;
}

/// Refuses a path from which symbolic links lead in a circle, or to a file outside `directory`. A missing file is no error
/// here. `location` is the path as the model gives it.
Status follow_links(const std::filesystem::path& directory, const std::filesystem::path& path,
                    const std::string& location) {
  constexpr char kRemedy[] = "; put the file itself beside the model";
  std::error_code code;
  const auto home = std::filesystem::weakly_canonical(directory.empty() ? "." : directory, code);
  if (code) return {};
  const auto real = std::filesystem::weakly_canonical(path, code);
  if (code)
    return invalid("external data location '" + location + "' cannot be followed: " + code.message() +
                   kRemedy);
  if (*real.lexically_relative(home).begin() == "..")
    return invalid("external data location '" + location +
                   "' leads outside the model's directory through a symbolic link" + kRemedy);
  return {};
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
  if (location.size() > kLongestPath || location.find('\0') != std::string::npos || !is_utf8(location))
    return invalid(
        "its external data location is not a path: a path is UTF-8 without zero bytes, and has at most " +
        std::to_string(kLongestPath) + " bytes");
  const std::filesystem::path relative = std::filesystem::path(location).lexically_normal();
  if (location.empty() || relative.is_absolute() || *relative.begin() == "..")
    return invalid("external data location '" + location + "' is not a path below the model's directory");
  const std::filesystem::path path = directory / relative;
  MILLRACE_TRY(follow_links(directory, path, location));
  auto data = read_file_part(path, offset, bytes);
  if (data.ok()) return data;
  if (data.error().code() == ErrorCode::kNotFound)
    return Error(ErrorCode::kNotFound,
                 "its weights are in the file '" + location + "', which is missing from the model's folder");
  return data.error().within("its weights");
}

/// Reads numbers of type double as float32. PyTorch writes some constants, such as the root of a size, as doubles that a
/// Cast then makes float32. `raw` is null if the tensor has its numbers in a field.
Result<Constant> from_doubles(const onnx::TensorProto& tensor, const std::string* raw, std::size_t count) {
  Constant c;
  for (std::size_t i = 0; raw != nullptr && i < raw->size(); i += sizeof(double)) {
    double number = 0;
    std::memcpy(&number, raw->data() + i, sizeof number);
    c.floats.push_back(static_cast<float>(number));
  }
  if (raw == nullptr)
    for (const double number : tensor.double_data()) c.floats.push_back(static_cast<float>(number));
  if (c.floats.size() != count)
    return invalid("has " + std::to_string(c.floats.size()) + " elements of data, its shape needs " +
                   std::to_string(count));
  return c;
}

/// How many elements of a type share a byte.
std::size_t elements_per_byte(Type type) {
  return type.bits < 8 ? 8U / type.bits : 1;
}

/// Reads elements from a tensor's raw data. Elements of 2 or 4 bits share bytes; the first is in the lowest bits.
void from_raw(const std::string& raw, Type type, std::size_t count, Constant& c) {
  if (type.is_float()) {
    c.floats.resize(count);
    if (count > 0) std::memcpy(c.floats.data(), raw.data(), raw.size());
    return;
  }
  const std::size_t bytes = type.bits / 8U;
  const int spare_bits = 64 - type.bits;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    if (const std::size_t each = elements_per_byte(type); each > 1)
      bits = static_cast<unsigned char>(raw[i / each]) >> (i % each * type.bits);
    else
      std::memcpy(&bits, raw.data() + i * bytes, bytes);
    bits <<= spare_bits;  // shifting back extends with zeros or with the sign
    c.integers.push_back(type.kind == Type::Kind::kSigned ? static_cast<std::int64_t>(bits) >> spare_bits
                                                          : static_cast<std::int64_t>(bits >> spare_bits));
  }
}

Status from_fields(const onnx::TensorProto& tensor, Type type, std::size_t count, Constant& c) {
  const std::size_t each = elements_per_byte(type);
  const auto copy = [&](const auto& field, auto& out) -> Status {
    const auto have = static_cast<std::size_t>(field.size());
    if (have != (count + each - 1) / each)
      return invalid("has " + std::to_string(have * each) + " elements of data, its shape needs " +
                     std::to_string(count));
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
  if (each > 1) {
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

Error invalid(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

Result<Type> element_type(std::int32_t onnx_type) {
  if (const auto type = operators::type_of(onnx_type)) return *type;
  const std::string name = onnx::TensorProto_DataType_Name(onnx_type);
  return Error(ErrorCode::kUnsupported,
               "has elements of type " + (name.empty() ? "number " + std::to_string(onnx_type) : name) +
                   "; Millrace takes float32, bool and integers of 2, 4, 8, 16, 32 and 64 bits");
}

Status read_tensor(const onnx::TensorProto& tensor, const std::filesystem::path& directory,
                   graph::Value& value) {
  Constant constant;
  const bool is_double = tensor.data_type() == onnx::TensorProto::DOUBLE;
  value.type = Type::float32();
  if (!is_double) {
    MILLRACE_ASSIGN(value.type, element_type(tensor.data_type()));
  }
  if (tensor.has_segment()) return Error(ErrorCode::kUnsupported, "is stored in segments");
  if (tensor.dims_size() > kMostConstantAxes)
    return invalid("has " + std::to_string(tensor.dims_size()) + " axes; Millrace takes at most " +
                   std::to_string(kMostConstantAxes));
  std::int64_t count = 1;
  for (const std::int64_t d : tensor.dims()) {
    if (d < 0 || d > kMostElements) return invalid("has the impossible dimension " + std::to_string(d));
    count *= d;
    if (count > kMostElements) return invalid("has more than 2^29 elements");
    value.shape.push_back(d);
  }
  const auto n = static_cast<std::uint64_t>(count);
  const std::size_t each = elements_per_byte(value.type);
  const std::uint64_t bytes = is_double  ? n * sizeof(double)
                              : each > 1 ? (n + each - 1) / each
                                         : n * (value.type.bits / 8U);
  std::string external;
  const std::string* raw = nullptr;
  if (tensor.has_data_location() && tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    MILLRACE_ASSIGN(external, read_external(tensor, directory, bytes));
    raw = &external;
  } else if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != bytes)
      return invalid("has " + std::to_string(tensor.raw_data().size()) + " bytes of data, its shape needs " +
                     std::to_string(bytes));
    raw = &tensor.raw_data();
  }
  if (is_double) {
    MILLRACE_ASSIGN(constant, from_doubles(tensor, raw, n));
  } else if (raw != nullptr) {
    from_raw(*raw, value.type, n, constant);
  } else {
    MILLRACE_TRY(from_fields(tensor, value.type, n, constant));
  }
  value.constant = std::make_shared<const Constant>(std::move(constant));
  return {};
}

}  // namespace millrace::compiler
