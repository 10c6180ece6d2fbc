#include "server/http/infer/datatype.hpp"

#include <array>

namespace millrace::server::http {
namespace {

struct Row {
  Datatype type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Row, 14> kTable = {{
    {Datatype::kBool, "BOOL", 1},
    {Datatype::kUint8, "UINT8", 1},
    {Datatype::kUint16, "UINT16", 2},
    {Datatype::kUint32, "UINT32", 4},
    {Datatype::kUint64, "UINT64", 8},
    {Datatype::kInt8, "INT8", 1},
    {Datatype::kInt16, "INT16", 2},
    {Datatype::kInt32, "INT32", 4},
    {Datatype::kInt64, "INT64", 8},
    {Datatype::kFp16, "FP16", 2},
    {Datatype::kFp32, "FP32", 4},
    {Datatype::kFp64, "FP64", 8},
    {Datatype::kBf16, "BF16", 2},
    {Datatype::kBytes, "BYTES", 0},
}};

}  // namespace

std::optional<Datatype> parse_datatype(std::string_view text) {
  for (const Row& row : kTable)
    if (row.name == text) return row.type;
  return std::nullopt;
}

std::string_view to_string(Datatype type) {
  return kTable[static_cast<std::size_t>(type)].name;
}

std::size_t element_bytes(Datatype type) {
  return kTable[static_cast<std::size_t>(type)].bytes;
}

std::uint64_t elements_of(const runtime::plan::TensorSignature& signature) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : signature.shape) count *= static_cast<std::uint64_t>(dim);
  return count;
}

std::uint64_t bytes_of(const runtime::plan::TensorSignature& signature) {
  const auto type = parse_datatype(signature.datatype);
  return type ? elements_of(signature) * element_bytes(*type) : 0;
}

}  // namespace millrace::server::http
