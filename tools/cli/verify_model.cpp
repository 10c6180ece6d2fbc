#include "tools/cli/verify_model.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "kernels/fast/executor.hpp"
#include "runtime/base/npy.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/parameters.hpp"

namespace millrace::cli {

namespace plan = runtime::plan;

namespace {

constexpr std::uint32_t kEmulationData = 21;  // axlf_section_kind EMULATION_DATA

/// Returns NumPy's type string, such as "<f4", for the stored elements of a tensor.
std::string descr_of(kernels::ElementType type) {
  if (type.kind == kernels::ElementType::Kind::kFloat32) return "<f4";
  const std::string letter = type.kind == kernels::ElementType::Kind::kUnsigned ? "u" : "i";
  const std::size_t bytes = type.storage_bytes();
  return (bytes == 1 ? "|" : "<") + letter + std::to_string(bytes);
}

std::string file_name(std::string name) {
  for (char& c : name) {
    if (c == '/' || c == '\\' || c == ':' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return name.substr(0, 120);
}

const kernels::Block* producer_of(const kernels::Program& program, kernels::TensorIndex tensor) {
  for (const kernels::Block& block : program.blocks) {
    if (std::find(block.outputs.begin(), block.outputs.end(), tensor) != block.outputs.end()) return &block;
  }
  return nullptr;
}

/// Whether the operator's result changes by at most a step if each element of its input tensors changes by at most a
/// step.
bool keeps_steps(const kernels::FloatOperator& op) {
  static const std::set<std::string_view> kKeep = {
      "Clip",     "Concat",    "Expand",  "Flatten", "Gather",    "GlobalMaxPool",
      "Identity", "Max",       "MaxPool", "Min",     "ReduceMax", "Relu",
      "Reshape",  "ReduceMin", "Slice",   "Squeeze", "Transpose", "Unsqueeze"};
  if (op.type != "Add" && op.type != "Sub") return kKeep.contains(op.type);
  return std::count_if(op.operands.begin(), op.operands.end(), [](const auto& operand) {
           return operand.kind == kernels::FloatOperand::Kind::kTensor;
         }) == 1;
}

std::optional<Difference> compare_partition(const std::string& name, const kernels::Program& program,
                                            const std::vector<Buffer>& inputs) {
  std::map<kernels::TensorIndex, Buffer> wanted;
  kernels::reference::run(program, inputs, [&](kernels::TensorIndex t, const Buffer& b) { wanted[t] = b; });

  std::vector<const std::byte*> in;
  for (const Buffer& input : inputs) in.push_back(input.data());
  std::vector<Buffer> outputs;
  for (const kernels::TensorIndex index : program.outputs)
    outputs.emplace_back(program.tensors[index].storage_bytes());
  std::vector<std::byte*> out;
  for (Buffer& output : outputs) out.push_back(output.data());

  std::map<kernels::TensorIndex, Buffer> got;
  const auto keep = [&](kernels::TensorIndex tensor, std::span<const std::byte> bytes) {
    got[tensor].assign(bytes.begin(), bytes.end());
  };
  kernels::fast::Executor executor(program);
  executor.run(in, out, keep);
  for (std::size_t i = 0; i < outputs.size(); ++i) keep(program.outputs[i], outputs[i]);
  return earliest_difference(name, program, wanted, got);
}

}  // namespace

std::optional<Difference> earliest_difference(const std::string& partition, const kernels::Program& program,
                                              const std::map<kernels::TensorIndex, Buffer>& wanted,
                                              const std::map<kernels::TensorIndex, Buffer>& got) {
  std::optional<Difference> found;
  std::size_t found_at = program.blocks.size();
  for (const auto& [tensor, left] : got) {
    const Buffer& right = wanted.at(tensor);
    const auto at = std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first;
    const kernels::Block* const block = producer_of(program, tensor);
    if (at == left.end() || block == nullptr) continue;
    const auto place = static_cast<std::size_t>(block - program.blocks.data());
    if (found && place >= found_at) continue;
    found_at = place;
    const kernels::Tensor& described = program.tensors[tensor];
    found = Difference{partition, described.name, block->name, block->nodes,
                       static_cast<std::uint64_t>(at - left.begin()) / described.type.storage_bytes()};
  }
  return found;
}

Result<ReferenceModel> ReferenceModel::make(const plan::LoadedDeployment& deployment,
                                            const std::function<Status(kernels::Program&)>& load) {
  ReferenceModel model;
  model.deployment_ = &deployment.plan;
  std::map<std::string, plan::EmulationData> decoded;
  for (const auto& [name, bytes] : deployment.images) {
    MILLRACE_ASSIGN(const plan::XclbinView view, plan::parse_xclbin(bytes));
    const plan::XclbinSection* const section = view.find(kEmulationData);
    if (section == nullptr) {
      return Error(ErrorCode::kUnsupported,
                   "image '" + name + "' has no EMULATION_DATA, which verify needs for the expected outputs");
    }
    auto data = plan::decode_emulation_data(section->bytes);
    if (!data.ok()) return data.error().within("image '" + name + "'");
    decoded[name] = std::move(*data);
  }
  for (const plan::Partition& partition : deployment.plan.partitions) {
    if (partition.kind == plan::PartitionKind::kHost) {
      model.programs_.push_back(partition.program);
      continue;
    }
    if (const auto file = deployment.parameters.find(partition.name); file != deployment.parameters.end()) {
      auto program = plan::decode_parameters(file->second, partition.program_digest);
      if (!program.ok()) return program.error().within("partition '" + partition.name + "'");
      model.programs_.push_back(std::move(*program));
      continue;
    }
    const plan::EmulationData& data = decoded[partition.image];
    const auto held = std::find_if(data.record.partitions.begin(), data.record.partitions.end(),
                                   [&](const plan::ImagePartition& p) { return p.name == partition.name; });
    if (held == data.record.partitions.end()) {
      return Error(ErrorCode::kCorrupt,
                   "image '" + partition.image + "' does not hold partition '" + partition.name + "'");
    }
    model.programs_.push_back(data.programs[static_cast<std::size_t>(held - data.record.partitions.begin())]);
  }
  for (kernels::Program& program : model.programs_) MILLRACE_TRY(load(program));
  for (const plan::Channel& channel : deployment.plan.channels) {
    if (channel.slice.offset != 0 || channel.slice.stride != 1) {
      return Error(ErrorCode::kUnsupported,
                   "channel '" + channel.name +
                       "' carries a slice of a tensor, but verify supports only whole tensors");
    }
    model.sources_[{channel.consumer.partition, channel.consumer.port}] = {channel.producer.partition,
                                                                           channel.producer.port};
  }
  return model;
}

std::map<ReferenceModel::Key, Buffer> ReferenceModel::evaluate(const std::vector<Buffer>& inputs,
                                                               const Visit& visit) const {
  std::map<Key, Buffer> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[{"", deployment_->model.inputs[i].name}] = inputs[i];
  for (std::size_t index = 0; index < programs_.size(); ++index) {
    const plan::Partition& partition = deployment_->partitions[index];
    std::vector<Buffer> in;
    for (const plan::Port& port : partition.inputs)
      in.push_back(values.at(sources_.at({partition.name, port.name})));
    if (visit) visit(index, in);
    std::vector<Buffer> out = kernels::reference::run(programs_[index], in);
    for (std::size_t i = 0; i < partition.outputs.size(); ++i) {
      values[{partition.name, partition.outputs[i].name}] = std::move(out[i]);
    }
  }
  return values;
}

const kernels::Program& ReferenceModel::program(const std::string& partition) const {
  const auto found = std::find_if(deployment_->partitions.begin(), deployment_->partitions.end(),
                                  [&](const plan::Partition& p) { return p.name == partition; });
  return programs_[static_cast<std::size_t>(found - deployment_->partitions.begin())];
}

std::vector<Buffer> ReferenceModel::run(const std::vector<Buffer>& inputs) const {
  const std::map<Key, Buffer> values = evaluate(inputs, {});
  std::vector<Buffer> outputs;
  for (const plan::TensorSignature& output : deployment_->model.outputs) {
    outputs.push_back(values.at(sources_.at({"", output.name})));
  }
  return outputs;
}

std::optional<Difference> ReferenceModel::first_difference(const std::vector<Buffer>& inputs) const {
  std::optional<Difference> found;
  evaluate(inputs, [&](std::size_t index, const std::vector<Buffer>& in) {
    if (!found) found = compare_partition(deployment_->partitions[index].name, programs_[index], in);
  });
  return found;
}

Status ReferenceModel::dump(const std::vector<Buffer>& inputs, const std::filesystem::path& directory) const {
  Status written;
  evaluate(inputs, [&](std::size_t index, const std::vector<Buffer>& in) {
    if (!written.ok()) return;
    const std::filesystem::path folder = directory / file_name(deployment_->partitions[index].name);
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) {
      written = Error(ErrorCode::kEnvironment, folder.string() + ": cannot be made: " + failed.message() +
                                                   "; give --dump-tensors a directory that can be written");
      return;
    }
    const kernels::Program& program = programs_[index];
    kernels::reference::run(program, in, [&](kernels::TensorIndex tensor, const Buffer& bytes) {
      if (!written.ok()) return;
      const kernels::Tensor& described = program.tensors[tensor];
      NpyArray array{descr_of(described.type), {described.shape.begin(), described.shape.end()}, bytes};
      std::string number = std::to_string(tensor);
      number.insert(0, number.size() < 3 ? 3 - number.size() : 0, '0');
      written = write_npy(folder / (number + "_" + file_name(described.name) + ".npy"), array);
    });
  });
  return written;
}

std::optional<OutputStep> ReferenceModel::output_step(std::size_t index) const {
  return step_behind({"", deployment_->model.outputs[index].name});
}

std::optional<OutputStep> ReferenceModel::step_behind(const Key& consumer) const {
  const auto source = sources_.find(consumer);
  if (source == sources_.end()) return std::nullopt;
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    const plan::Partition& partition = deployment_->partitions[p];
    if (partition.name != source->second.first) continue;
    for (std::size_t i = 0; i < partition.outputs.size(); ++i)
      if (partition.outputs[i].name == source->second.second) return step_of(p, programs_[p].outputs[i]);
  }
  return std::nullopt;  // the value is an input of the model
}

std::optional<OutputStep> ReferenceModel::step_of(std::size_t partition, kernels::TensorIndex tensor) const {
  const kernels::Program& program = programs_[partition];
  if (program.tensors[tensor].type.is_integer()) return OutputStep{};
  const kernels::Block* const block = producer_of(program, tensor);
  if (block == nullptr) {
    const auto input = std::find(program.inputs.begin(), program.inputs.end(), tensor);
    if (input == program.inputs.end()) return std::nullopt;
    const plan::Partition& described = deployment_->partitions[partition];
    const auto port = static_cast<std::size_t>(input - program.inputs.begin());
    return step_behind({described.name, described.inputs.at(port).name});
  }
  if (const auto* const end = std::get_if<kernels::Dequantise>(&block->operation); end != nullptr)
    return OutputStep{*std::max_element(end->scale.begin(), end->scale.end()), false};
  const auto* const host = std::get_if<kernels::FloatOperator>(&block->operation);
  if (host != nullptr && host->type != "Softmax" && !keeps_steps(*host)) return std::nullopt;
  // Operators without a defined step have been handled above. Among the other blocks, only a softmax changes the
  // distance between values; the output of any block but a softmax has the step of the block's inputs.
  std::optional<OutputStep> step;
  for (const kernels::TensorIndex input : block->inputs) {
    const auto one = step_of(partition, input);
    if (!one || (step && step->softmax != one->softmax)) return std::nullopt;
    step = {std::max(step ? step->scale : 0, one->scale), one->softmax};
  }
  const bool softmax =
      host != nullptr ? host->type == "Softmax" : std::holds_alternative<kernels::Softmax>(block->operation);
  if (!softmax) return step;
  if (!step || step->softmax) return std::nullopt;
  return OutputStep{step->scale, true};
}

}  // namespace millrace::cli
