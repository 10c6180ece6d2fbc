// A model's tensors, as a COOKIE datagram carries them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace::server::udp::wire {

struct TensorDescription {
  std::string name;
  std::string datatype;  // Open Inference Protocol: "FP32"
  std::vector<std::uint32_t> shape;
  bool operator==(const TensorDescription&) const = default;
};

struct Signature {
  std::vector<TensorDescription> inputs, outputs;
  bool operator==(const Signature&) const = default;
};

/// Empty if it cannot be encoded: over 255 tensors or dimensions, or an unknown datatype.
std::vector<std::byte> encode(const Signature& signature);

/// False if the bytes contradict themselves.
bool decode(std::span<const std::byte> bytes, Signature& out);

/// Whether every tensor has elements and all have `bytes` together. If not, trust no tensor's size.
bool sums_to(std::span<const TensorDescription> tensors, std::uint64_t bytes);

/// Bytes of one element; 0 for an unknown datatype and for BYTES.
std::size_t datatype_bytes(const std::string& datatype);

}  // namespace millrace::server::udp::wire
