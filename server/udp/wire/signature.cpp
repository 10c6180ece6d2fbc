#include "server/udp/wire/signature.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp::wire {
namespace {

struct Datatype {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<Datatype, 13> kDatatypes{{{"BOOL", 1},
                                               {"UINT8", 1},
                                               {"UINT16", 2},
                                               {"UINT32", 4},
                                               {"UINT64", 8},
                                               {"INT8", 1},
                                               {"INT16", 2},
                                               {"INT32", 4},
                                               {"INT64", 8},
                                               {"FP16", 2},
                                               {"FP32", 4},
                                               {"FP64", 8},
                                               {"BF16", 2}}};

std::size_t find(std::string_view name) {
  const auto at =
      std::find_if(kDatatypes.begin(), kDatatypes.end(), [&](const Datatype& d) { return d.name == name; });
  return static_cast<std::size_t>(at - kDatatypes.begin());
}

bool append(const TensorDescription& tensor, std::vector<std::byte>& out) {
  const std::size_t datatype = find(tensor.datatype);
  if (datatype == kDatatypes.size() || tensor.shape.size() > 255 || tensor.name.size() > 0xFFFF) return false;
  const std::size_t start = out.size();
  out.resize(start + 4 + tensor.shape.size() * 4 + tensor.name.size());
  const std::span<std::byte> record(out.data() + start, out.size() - start);
  store<std::uint8_t>(record, 0, static_cast<std::uint8_t>(datatype + 1));
  store<std::uint8_t>(record, 1, static_cast<std::uint8_t>(tensor.shape.size()));
  store<std::uint16_t>(record, 2, static_cast<std::uint16_t>(tensor.name.size()));
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    store<std::uint32_t>(record, 4 + i * 4, tensor.shape[i]);
  std::memcpy(record.data() + 4 + tensor.shape.size() * 4, tensor.name.data(), tensor.name.size());
  return true;
}

bool take(std::span<const std::byte>& rest, TensorDescription& out) {
  if (rest.size() < 4) return false;
  const auto datatype = load<std::uint8_t>(rest, 0);
  const std::size_t rank = load<std::uint8_t>(rest, 1);
  const std::size_t name = load<std::uint16_t>(rest, 2);
  if (datatype < 1 || datatype > kDatatypes.size() || rest.size() < 4 + rank * 4 + name) return false;
  out.datatype = kDatatypes[datatype - 1U].name;
  out.shape.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) out.shape[i] = load<std::uint32_t>(rest, 4 + i * 4);
  out.name.assign(reinterpret_cast<const char*>(rest.data()) + 4 + rank * 4, name);
  rest = rest.subspan(4 + rank * 4 + name);
  return true;
}

}  // namespace

std::size_t datatype_bytes(const std::string& datatype) {
  const std::size_t at = find(datatype);
  return at == kDatatypes.size() ? 0 : kDatatypes[at].bytes;
}

std::vector<std::byte> encode(const Signature& signature) {
  if (signature.inputs.size() > 255 || signature.outputs.size() > 255) return {};
  std::vector<std::byte> out{static_cast<std::byte>(signature.inputs.size()),
                             static_cast<std::byte>(signature.outputs.size())};
  for (const auto* tensors : {&signature.inputs, &signature.outputs})
    for (const TensorDescription& tensor : *tensors)
      if (!append(tensor, out)) return {};
  return out;
}

bool decode(std::span<const std::byte> bytes, Signature& out) {
  if (bytes.size() < 2) return false;
  out.inputs.resize(load<std::uint8_t>(bytes, 0));
  out.outputs.resize(load<std::uint8_t>(bytes, 1));
  std::span<const std::byte> rest = bytes.subspan(2);
  for (auto* tensors : {&out.inputs, &out.outputs})
    for (TensorDescription& tensor : *tensors)
      if (!take(rest, tensor)) return false;
  return rest.empty();
}

bool sums_to(std::span<const TensorDescription> tensors, std::uint64_t bytes) {
  std::uint64_t left = bytes;
  for (const TensorDescription& tensor : tensors) {
    std::uint64_t size = datatype_bytes(tensor.datatype);
    for (const std::uint32_t n : tensor.shape) {
      if (n == 0 || size > left / n) return false;  // divide, because the product could overflow
      size *= n;
    }
    if (size == 0 || size > left) return false;
    left -= size;
  }
  return left == 0;
}

}  // namespace millrace::server::udp::wire
