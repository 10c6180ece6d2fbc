// Helps tests to write programs of one block by hand.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/program/program.hpp"
#include "kernels/reference/reference.hpp"

namespace millrace::tests {

constexpr kernels::ElementType kInt8{kernels::ElementType::Kind::kSigned, 8};
constexpr kernels::ElementType kUint8{kernels::ElementType::Kind::kUnsigned, 8};
constexpr kernels::ElementType kInt16{kernels::ElementType::Kind::kSigned, 16};
constexpr kernels::ElementType kInt32{kernels::ElementType::Kind::kSigned, 32};
constexpr kernels::ElementType kFloat{kernels::ElementType::Kind::kFloat32, 32};
constexpr kernels::ElementType kBipolar{kernels::ElementType::Kind::kBipolar, 1};

struct Shaped {
  kernels::ElementType type;
  std::vector<std::uint32_t> shape;
};

inline kernels::Program one_block(kernels::Operation operation, std::vector<Shaped> inputs, Shaped output) {
  kernels::Program program;
  program.name = "small";
  kernels::Block block;
  block.name = "block";
  block.operation = std::move(operation);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    program.tensors.push_back({"in" + std::to_string(i), inputs[i].type, inputs[i].shape, {}, 0});
    program.inputs.push_back(static_cast<kernels::TensorIndex>(i));
  }
  program.tensors.push_back({"out", output.type, output.shape, {}, 0});
  program.outputs = {static_cast<kernels::TensorIndex>(inputs.size())};
  block.inputs = program.inputs;
  block.outputs = program.outputs;
  program.blocks = {std::move(block)};
  return program;
}

template <class T>
kernels::reference::Buffer bytes_of(const std::vector<T>& values) {
  kernels::reference::Buffer bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const kernels::reference::Buffer& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Returns a requantisation that divides by 2^shift, rounds to nearest, and clamps to `lowest` .. `highest`.
inline kernels::Requantise shift_right(std::uint8_t shift, std::int32_t lowest = -128,
                                       std::int32_t highest = 127) {
  kernels::Requantise r;
  r.multiplier = {1};
  r.offset = {shift == 0 ? 0 : std::int64_t{1} << (shift - 1)};
  r.shift = {shift};
  r.lowest = lowest;
  r.highest = highest;
  return r;
}

}  // namespace millrace::tests
