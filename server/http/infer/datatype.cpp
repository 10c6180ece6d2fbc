#include "server/http/infer/datatype.hpp"

#include <iterator>

namespace millrace::server::http {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
  Element element;
};

// In the order of Datatype.
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
static_assert(std::size(kTable) == static_cast<std::size_t>(Datatype::kBytes) + 1);

const Row& row_of(Datatype type) {
  return kTable[static_cast<std::size_t>(type)];
}

}  // namespace

std::optional<Datatype> parse_datatype(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kTable); ++i)
    if (kTable[i].name == text) return static_cast<Datatype>(i);
  return std::nullopt;
}

std::string_view to_string(Datatype type) {
  return row_of(type).name;
}

std::size_t element_bytes(Datatype type) {
  return row_of(type).bytes;
}

Element element_of(Datatype type) {
  return row_of(type).element;
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
