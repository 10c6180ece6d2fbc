// Encodes and decodes descriptions of a model's tensors, as COOKIE datagrams contain them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace::server::udp::wire {

struct TensorDescription {
  std::string name;
  std::string datatype;  // name in the Open Inference Protocol, such as "FP32"
  std::vector<std::uint32_t> shape;
  bool operator==(const TensorDescription&) const = default;
};

struct Signature {
  std::vector<TensorDescription> inputs, outputs;
  bool operator==(const Signature&) const = default;
};

/// Encodes the signature. Returns nothing for more than 255 tensors, more than 255 dimensions or an unknown datatype.
std::vector<std::byte> encode(const Signature& signature);

/// Decodes a signature. Returns false if the bytes contradict themselves.
bool decode(std::span<const std::byte> bytes, Signature& out);

/// Whether every tensor has elements and all tensors have `bytes` bytes in total. If not, trust no tensor's size.
bool sums_to(std::span<const TensorDescription> tensors, std::uint64_t bytes);

/// Returns the bytes of one element, or 0 for BYTES and for an unknown datatype.
std::size_t datatype_bytes(const std::string& datatype);

}  // namespace millrace::server::udp::wire
