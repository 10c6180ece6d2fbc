#include "compiler/emit/known_answer.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/fast/executor.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/plan/known_answer.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;

constexpr std::uint64_t kSeed = 1;
constexpr std::int32_t kPlainRange =
    512;  // inputs that are not quantised at once: multiples of 1/128 in -4 to 4

/// Returns the values that the program's input can tell apart: what its first quantiser does not round or clamp.
KnownAnswer::Input range_of(const kernels::Program& program, kernels::TensorIndex input) {
  const auto of_type = [](const kernels::ElementType& type, std::int32_t zero_point, float step) {
    constexpr std::int64_t kMost = 1 << 15;
    return KnownAnswer::Input{static_cast<std::int32_t>(std::max(type.lowest(), -kMost)) - zero_point,
                              static_cast<std::int32_t>(std::min(type.highest(), 2 * kMost - 1)) - zero_point,
                              step};
  };
  const kernels::Tensor& tensor = program.tensors[input];
  if (tensor.type.is_integer()) return of_type(tensor.type, 0, 1);
  for (const kernels::Block& block : program.blocks) {
    const auto* const quantise = std::get_if<kernels::Quantise>(&block.operation);
    if (quantise == nullptr || block.inputs.front() != input || quantise->scale.empty()) continue;
    return of_type(program.tensors[block.outputs.front()].type, quantise->zero_point,
                   quantise->scale.front());
  }
  return {-kPlainRange, kPlainRange - 1, 1.0F / 128};
}

/// Whether every machine computes the same bytes. Operators in float32 use functions of the machine's libraries.
bool is_exact(const kernels::Program& program) {
  return std::all_of(program.blocks.begin(), program.blocks.end(), [](const kernels::Block& block) {
    return !std::holds_alternative<kernels::Softmax>(block.operation) &&
           !std::holds_alternative<kernels::FloatOperator>(block.operation);
  });
}

bool has_plugin(const kernels::Program& program) {
  return std::any_of(program.blocks.begin(), program.blocks.end(), [](const kernels::Block& block) {
    return std::holds_alternative<kernels::PluginOperator>(block.operation);
  });
}

/// A tensor between partitions.
struct Value {
  std::vector<std::byte> bytes;
  bool exact = true;
};
using Values = std::map<std::pair<std::string, std::string>, Value>;  // by producer: partition and port

/// Returns the value that the partition's input port reads.
const Value& incoming(const Deployment& plan, const Values& values, const Partition& partition,
                      const Port& port) {
  const auto channel = std::find_if(plan.channels.begin(), plan.channels.end(), [&](const Channel& one) {
    return one.consumer == PortRef{partition.name, port.name};
  });
  return values.at({channel->producer.partition, channel->producer.port});
}

void compute(const Deployment& plan, const Partition& partition, const kernels::Program& program,
             Values& values) {
  bool exact = partition.kind != PartitionKind::kHost || is_exact(program);
  std::vector<const std::byte*> inputs;
  for (const Port& port : partition.inputs) {
    const Value& value = incoming(plan, values, partition, port);
    exact = exact && value.exact;
    inputs.push_back(value.bytes.data());
  }
  std::vector<std::byte*> outputs;
  for (std::size_t i = 0; i < partition.outputs.size(); ++i) {
    Value& value = values[{partition.name, partition.outputs[i].name}];
    value.bytes.resize(program.tensors[program.outputs[i]].storage_bytes());
    value.exact = exact;
    outputs.push_back(value.bytes.data());
  }
  kernels::fast::Executor(program).run(inputs, outputs);
}

}  // namespace

std::optional<KnownAnswer> known_answer_of(const Deployment& plan,
                                           const std::map<std::string, kernels::Program>& programs) {
  Deployment described = plan;
  KnownAnswer& known = described.known_answer.emplace();
  known.seed = kSeed;
  for (const auto& [name, program] : programs)
    if (has_plugin(program)) return std::nullopt;
  for (const TensorSignature& input : plan.model.inputs) {
    const auto channel = std::find_if(plan.channels.begin(), plan.channels.end(), [&](const Channel& one) {
      return one.producer == PortRef{"", input.name};
    });
    if (!has_known_inputs(input.datatype) || channel == plan.channels.end()) return std::nullopt;
    const Partition& reader = *plan.find_partition(channel->consumer.partition);
    const kernels::Program& program = programs.at(reader.name);
    const auto port = std::find_if(reader.inputs.begin(), reader.inputs.end(),
                                   [&](const Port& one) { return one.name == channel->consumer.port; });
    known.inputs.push_back(
        range_of(program, program.inputs[static_cast<std::size_t>(port - reader.inputs.begin())]));
  }
  Values values;
  auto tensors = known_inputs(described);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    values[{"", plan.model.inputs[i].name}] = {std::move(tensors[i]), true};
  for (const Partition& partition : plan.partitions)
    compute(plan, partition, programs.at(partition.name), values);
  for (const Partition& partition : plan.partitions) {
    if (partition.kind == PartitionKind::kHost) continue;
    for (const Port& port : partition.outputs) {
      const PortRef end{partition.name, port.name};
      const bool read = std::any_of(plan.channels.begin(), plan.channels.end(), [&](const Channel& channel) {
        return channel.producer == end && passes_hosts(channel.transport);
      });
      const Value& value = values.at({partition.name, port.name});
      if (read && value.exact) known.results.push_back({end, sha256_hex(value.bytes)});
    }
  }
  if (known.results.empty()) return std::nullopt;
  return std::move(described.known_answer);
}

}  // namespace millrace::compiler::emit
