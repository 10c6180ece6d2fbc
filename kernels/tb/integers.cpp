#include "kernels/tb/integers.hpp"

#include <cstring>
#include <stdexcept>

#include "kernels/reference/reference.hpp"

namespace millrace::kernels::tb {
namespace {

reference::Buffer store(const Operand& operand, const Values& values) {
  const std::size_t size = operand.type.storage_bytes();
  reference::Buffer buffer(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(buffer.data() + i * size, &values[i], size);
  return buffer;
}

Values restore(const Operand& operand, const reference::Buffer& buffer) {
  const std::size_t size = operand.type.storage_bytes();
  Values values(buffer.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t raw = 0;
    std::memcpy(&raw, buffer.data() + i * size, size);
    const auto shift = static_cast<unsigned>(64 - 8 * size);
    values[i] = operand.type.kind == ElementType::Kind::kUnsigned
                    ? static_cast<std::int64_t>(raw)
                    : static_cast<std::int64_t>(raw << shift) >> shift;
  }
  return values;
}

}  // namespace

ElementType element_type(int kind, int bits) {
  const auto kinds = {ElementType::Kind::kUnsigned, ElementType::Kind::kSigned, ElementType::Kind::kBipolar};
  return {*(kinds.begin() + kind), static_cast<std::uint8_t>(bits)};
}

std::int64_t random_value(ElementType type, Rng& rng) {
  if (type.kind == ElementType::Kind::kBipolar) return rng.chance(0.5) ? 1 : -1;
  if (rng.chance(0.1)) return rng.chance(0.5) ? type.lowest() : type.highest();
  return rng.between(type.lowest(), type.highest());
}

Values random_values(ElementType type, std::size_t count, Rng& rng) {
  // Sometimes fill a whole frame with one extreme, so that sums reach their limits.
  if (rng.chance(0.1)) return Values(count, rng.chance(0.5) ? type.lowest() : type.highest());
  Values values(count);
  for (auto& value : values) value = random_value(type, rng);
  return values;
}

std::int64_t field(ElementType type, std::int64_t value) {
  return type.kind == ElementType::Kind::kBipolar ? (value > 0 ? 1 : 0) : value;
}

Beats to_beats(const Values& values, ElementType type, unsigned lanes) {
  Values fields(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) fields[i] = field(type, values[i]);
  return to_beats(fields, lanes, type.bits);
}

Values run_reference(Operation operation, const std::vector<Operand>& inputs,
                     const std::vector<Values>& values, Operand output) {
  Program program;
  program.name = "bench";
  Block block;
  block.name = "block";
  block.operation = std::move(operation);
  std::vector<reference::Buffer> buffers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    program.tensors.push_back({"in" + std::to_string(i), inputs[i].type, inputs[i].shape, {}, 0});
    program.inputs.push_back(static_cast<TensorIndex>(i));
    block.inputs.push_back(static_cast<TensorIndex>(i));
    buffers.push_back(store(inputs[i], values[i]));
  }
  const auto result = static_cast<TensorIndex>(inputs.size());
  program.tensors.push_back({"out", output.type, output.shape, {}, 0});
  program.outputs.push_back(result);
  block.outputs.push_back(result);
  program.blocks.push_back(std::move(block));
  if (const std::string problem = validate(program); !problem.empty()) throw std::logic_error(problem);
  return restore(output, reference::run(program, buffers).front());
}

}  // namespace millrace::kernels::tb
