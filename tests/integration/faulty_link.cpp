#include "faulty_link.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>

#include "kernels/program/packing.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::tests {
namespace {

namespace plan = runtime::plan;

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(result).value();
}

/// Returns the programs of all partitions in a deployment's images, by the partition's name.
std::map<std::string, kernels::Program> programs_on_cards(const plan::LoadedDeployment& deployment) {
  std::map<std::string, kernels::Program> out;
  for (const auto& [name, file] : deployment.images) {
    const auto view = value_of(plan::parse_xclbin(file));
    const auto data = value_of(plan::decode_emulation_data(view.find(plan::kSectionEmulationData)->bytes));
    for (std::size_t i = 0; i < data.programs.size(); ++i)
      out[data.record.partitions[i].name] = data.programs[i];
  }
  return out;
}

/// Changes one byte of a tensor in its packed form (without padding between elements), as cables transport it.
void corrupt(const plan::Channel& channel, std::uint64_t elements, std::uint64_t byte, std::byte flipped,
             std::vector<std::byte>& tensor) {
  std::vector<std::byte> packed(kernels::packed_bytes(channel.type, elements));
  kernels::pack(channel.type, tensor, packed);
  packed[byte % packed.size()] ^= flipped;
  kernels::unpack(channel.type, packed, tensor);
}

}  // namespace

FaultyLink::FaultyLink(const std::filesystem::path& deployment)
    : deployment_(value_of(plan::load_deployment(deployment))) {
  const auto on_cards = programs_on_cards(deployment_);
  for (const auto& partition : deployment_.plan.partitions)
    programs_.push_back(partition.kind == plan::PartitionKind::kHost ? partition.program
                                                                     : on_cards.at(partition.name));
}

std::vector<std::uint32_t> FaultyLink::channels(bool only_cables) const {
  std::vector<std::uint32_t> out;
  for (const auto& channel : deployment_.plan.channels) {
    const bool inner = !channel.producer.partition.empty() && !channel.consumer.partition.empty();
    if (inner && (!only_cables || channel.transport != plan::Transport::kHost)) out.push_back(channel.id);
  }
  return out;
}

const std::string& FaultyLink::name_of(std::uint32_t channel) const {
  return deployment_.plan.channels.at(channel).name;
}

std::vector<FaultyLink::Buffer> FaultyLink::run(const std::vector<Buffer>& inputs, const Fault* fault) const {
  std::map<std::string, Buffer> made;  // by "<partition>.<port>"; the model's inputs have an empty partition
  for (std::size_t i = 0; i < inputs.size(); ++i)
    made["." + deployment_.plan.model.inputs[i].name] = inputs[i];
  const auto arrived = [&](const plan::PortRef& consumer, const plan::Port* port) {
    for (const auto& channel : deployment_.plan.channels) {
      if (channel.consumer != consumer) continue;
      Buffer tensor = made.at(channel.producer.partition + "." + channel.producer.port);
      if (fault != nullptr && fault->channel == channel.id)
        corrupt(channel, port->elements(), fault->byte, fault->flipped, tensor);
      return tensor;
    }
    throw std::runtime_error("no channel to " + consumer.partition + "." + consumer.port);
  };
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    const auto& partition = deployment_.plan.partitions[p];
    std::vector<Buffer> taken;
    for (const auto& port : partition.inputs) taken.push_back(arrived({partition.name, port.name}, &port));
    auto outputs = kernels::reference::run(programs_[p], taken);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      made[partition.name + "." + partition.outputs[o].name] = std::move(outputs[o]);
  }
  std::vector<Buffer> out;
  for (const auto& tensor : deployment_.plan.model.outputs)
    out.push_back(arrived({"", tensor.name}, nullptr));
  return out;
}

std::uint32_t FaultyLink::frames_that_change(std::uint32_t channel, std::uint32_t frames,
                                             std::uint32_t seed) const {
  std::mt19937 random(seed);
  std::uint32_t changed = 0;
  for (std::uint32_t frame = 0; frame < frames; ++frame) {
    std::vector<Buffer> inputs;
    for (const auto& tensor : deployment_.plan.model.inputs) {
      Buffer& bytes = inputs.emplace_back(tensor.bytes());
      for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
        const float value = static_cast<float>(random() % 4001) / 1000.F - 2.F;
        std::memcpy(bytes.data() + i, &value, sizeof value);
      }
    }
    const Fault fault{channel, random(), static_cast<std::byte>(1 + random() % 255)};
    changed += run(inputs, &fault) != run(inputs, nullptr) ? 1 : 0;
  }
  return changed;
}

}  // namespace millrace::tests
