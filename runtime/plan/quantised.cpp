#include "runtime/plan/quantised.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace millrace::runtime::plan {
namespace {

using kernels::TensorIndex;

/// Returns `x` quantised exactly as kernels::Quantise does it.
std::int32_t quantised(float x, const QuantisedInput& to) {
  const double q = static_cast<double>(std::nearbyint(x / to.scale)) + to.zero_point;
  return static_cast<std::int32_t>(std::clamp<double>(q, to.lowest, to.highest));
}

float real(std::int32_t q, const QuantisedInput& from) {
  return static_cast<float>(q - from.zero_point) * from.scale;
}

bool comes_back(const QuantisedInput& input) {
  for (std::int32_t q = input.lowest; q <= input.highest; ++q) {
    const float x = real(q, input);
    if (!std::isfinite(x) || quantised(x, input) != q) return false;
  }
  return true;
}

std::optional<std::string> datatype_of(const kernels::ElementType& type) {
  using Kind = kernels::ElementType::Kind;
  if ((type.kind != Kind::kSigned && type.kind != Kind::kUnsigned) || type.bits > 16) return std::nullopt;
  return std::string(type.kind == Kind::kSigned ? "INT" : "UINT") + (type.bits > 8 ? "16" : "8");
}

/// Returns the only block that reads the tensor. Returns null if there are several, or if the tensor is an
/// output of the program.
const kernels::Block* only_reader(const kernels::Program& program, TensorIndex tensor) {
  if (std::find(program.outputs.begin(), program.outputs.end(), tensor) != program.outputs.end())
    return nullptr;
  const kernels::Block* found = nullptr;
  for (const auto& block : program.blocks)
    for (const TensorIndex input : block.inputs) {
      if (input != tensor) continue;
      if (found != nullptr) return nullptr;
      found = &block;
    }
  return found;
}

std::optional<QuantisedInput> first_integers(const kernels::Program& program, TensorIndex tensor) {
  const kernels::Block* block = only_reader(program, tensor);
  while (block != nullptr && std::holds_alternative<kernels::Rearrange>(block->operation))
    block = only_reader(program, block->outputs.front());
  const auto* quantise = block == nullptr ? nullptr : std::get_if<kernels::Quantise>(&block->operation);
  if (quantise == nullptr || quantise->scale.size() != 1) return std::nullopt;
  const kernels::ElementType type = program.tensors[block->outputs.front()].type;
  const auto datatype = datatype_of(type);
  if (!datatype) return std::nullopt;
  QuantisedInput out{*datatype, quantise->scale.front(), quantise->zero_point,
                     static_cast<std::int32_t>(type.lowest()), static_cast<std::int32_t>(type.highest())};
  if (!comes_back(out)) return std::nullopt;
  return out;
}

std::optional<QuantisedInput> quantised_input(const Deployment& deployment, const TensorSignature& input) {
  const Channel* channel = nullptr;
  for (const auto& one : deployment.channels) {
    if (!one.producer.partition.empty() || one.producer.port != input.name) continue;
    if (channel != nullptr) return std::nullopt;
    channel = &one;
  }
  if (channel == nullptr || input.datatype != "FP32") return std::nullopt;
  const Partition* partition = deployment.find_partition(channel->consumer.partition);
  if (partition == nullptr || partition->kind != PartitionKind::kHost) return std::nullopt;
  for (std::size_t i = 0; i < partition->inputs.size() && i < partition->program.inputs.size(); ++i)
    if (partition->inputs[i].name == channel->consumer.port)
      return first_integers(partition->program, partition->program.inputs[i]);
  return std::nullopt;
}

template <class T>
Result<std::vector<std::byte>> all_real(const QuantisedInput& input, std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / sizeof(T);
  std::vector<std::byte> out(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    T q{};
    std::memcpy(&q, bytes.data() + i * sizeof(T), sizeof(T));
    if (q < input.lowest || q > input.highest)
      return Error(ErrorCode::kInvalidInput, "element " + std::to_string(i) + " is " + std::to_string(q) +
                                                 "; the quantised input accepts " +
                                                 std::to_string(input.lowest) + " to " +
                                                 std::to_string(input.highest));
    const float x = real(q, input);
    std::memcpy(out.data() + i * sizeof(float), &x, sizeof x);
  }
  return out;
}

}  // namespace

std::vector<std::optional<QuantisedInput>> quantised_inputs(const Deployment& deployment) {
  std::vector<std::optional<QuantisedInput>> out;
  for (const auto& input : deployment.model.inputs) out.push_back(quantised_input(deployment, input));
  return out;
}

Result<std::vector<std::byte>> dequantised(const QuantisedInput& input, std::span<const std::byte> bytes) {
  if (input.datatype == "INT8") return all_real<std::int8_t>(input, bytes);
  if (input.datatype == "UINT8") return all_real<std::uint8_t>(input, bytes);
  if (input.datatype == "INT16") return all_real<std::int16_t>(input, bytes);
  return all_real<std::uint16_t>(input, bytes);
}

}  // namespace millrace::runtime::plan
