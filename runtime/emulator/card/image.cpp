#include "runtime/emulator/card/image.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/base/cache.hpp"
#include "runtime/rtl/build.hpp"

namespace millrace::runtime::emulator {

namespace abi = plan::abi;

namespace {

/// A kernel that does nothing, for measuring the cost of a start and a wait.
constexpr std::string_view kEmptyKernel = "millrace_nop";

Error wrong(std::string message) {
  return Error(ErrorCode::kInvalidInput, "image: " + std::move(message));
}

Result<UnitKind> kind_of(std::string_view name) {
  const auto kernel = name.substr(0, name.find(':'));
  if (kernel == abi::kIngressKernel) return UnitKind::kIngress;
  if (kernel == abi::kEgressKernel) return UnitKind::kEgress;
  if (kernel == abi::kParametersKernel) return UnitKind::kParameters;
  if (kernel == abi::kSupervisorKernel) return UnitKind::kSupervisor;
  if (kernel == abi::kControlKernel) return UnitKind::kControl;
  if (kernel == kEmptyKernel) return UnitKind::kEmpty;
  return wrong("compute unit '" + std::string(name) +
               "' belongs to a kernel that emulated cards do not have");
}

Status add_units(const ImageHeader& header, LoadedImage& image) {
  for (std::uint32_t i = 0; i < header.units; ++i) {
    auto unit = std::make_unique<Unit>();
    unit->name.assign(header.unit[i].name, strnlen(header.unit[i].name, sizeof header.unit[i].name));
    MILLRACE_ASSIGN(unit->kind, kind_of(unit->name));
    for (const auto& other : image.units)
      if (other->name == unit->name || (other->kind == unit->kind && (unit->kind == UnitKind::kSupervisor ||
                                                                      unit->kind == UnitKind::kControl)))
        return wrong("compute units '" + other->name + "' and '" + unit->name + "' exclude each other");
    if (unit->kind == UnitKind::kSupervisor) image.supervisor = unit.get();
    image.units.push_back(std::move(unit));
  }
  return {};
}

/// Claims the unit "kernel:cu" for "kernel:{cu}". Only one port or partition may claim a unit.
Result<CommandQueue*> claim_unit(std::string name, UnitKind kind, const std::string& who,
                                 LoadedImage& image) {
  std::erase_if(name, [](char c) { return c == '{' || c == '}'; });
  for (auto& unit : image.units) {
    if (unit->name != name || unit->kind != kind) continue;
    if (unit->used) return wrong(who + ": compute unit '" + name + "' is already in use");
    unit->used = true;
    return &unit->queue;
  }
  return wrong(who + " names compute unit '" + name + "', which IP_LAYOUT does not have");
}

class PartitionBuilder {
 public:
  PartitionBuilder(LoadedImage& image, std::string content_digest, std::byte* fabric, std::uint32_t card,
                   CardServices& services)
      : image_(image),
        content_digest_(std::move(content_digest)),
        fabric_(fabric),
        card_(card),
        services_(services) {}

  Status add(const plan::ImagePartition& record, const kernels::Program& program) {
    if (program.inputs.empty() || program.outputs.empty())
      return wrong("partition '" + record.name + "' has a program without inputs or outputs");
    if (record.ports.size() < program.inputs.size())
      return wrong("partition '" + record.name + "' has fewer ports than its program has inputs");
    std::vector<Partition::Channel> inputs;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      MILLRACE_ASSIGN(const auto channel, connect(record.ports[i], program.tensors[program.inputs[i]], true));
      inputs.push_back(channel);
    }
    // A port that feeds several channels appears once for each channel, one entry after the other.
    std::vector<std::vector<Partition::Channel>> outputs;
    const std::string* last = nullptr;
    for (std::size_t i = program.inputs.size(); i < record.ports.size(); ++i) {
      const auto& port = record.ports[i];
      if (last == nullptr || port.name != *last) outputs.emplace_back();
      last = &port.name;
      if (outputs.size() > program.outputs.size())
        return wrong("partition '" + record.name + "' has more output ports than its program has outputs");
      MILLRACE_ASSIGN(const auto channel,
                      connect(port, program.tensors[program.outputs[outputs.size() - 1]], false));
      outputs.back().push_back(channel);
    }
    if (outputs.size() != program.outputs.size())
      return wrong("partition '" + record.name + "' has fewer output ports than its program has outputs");
    std::unique_ptr<rtl::Executor> simulation;
    if (services_.rtl) {
      MILLRACE_ASSIGN(simulation, open_simulation(record, program));
    }
    Partition::Parameters parameters{record.program_digest, nullptr};
    if (!record.parameters_unit.empty()) {
      MILLRACE_ASSIGN(parameters.unit, claim_unit(record.parameters_unit, UnitKind::kParameters,
                                                  "partition '" + record.name + "'", image_));
    }
    image_.partitions.emplace_back(program, services_, std::move(inputs), std::move(outputs),
                                   std::move(parameters), std::move(simulation));
    return {};
  }

 private:
  /// Opens the simulation in this machine's cache. No code is ever loaded from an image.
  Result<std::unique_ptr<rtl::Executor>> open_simulation(const plan::ImagePartition& record,
                                                         const kernels::Program& program) const {
    MILLRACE_ASSIGN(const Cache cache, Cache::open());
    MILLRACE_ASSIGN(const auto entry, rtl::find_simulation(cache, content_digest_, record.name));
    MILLRACE_ASSIGN(auto simulation, rtl::Simulation::open(entry, 1 + card_));
    if (!record.rtl_digest.empty() && record.rtl_digest != simulation->design().digest)
      return wrong("partition '" + record.name + "': the simulation in the cache is of other SystemVerilog");
    MILLRACE_TRY(rtl::check_ports(simulation->design(), program));
    return std::make_unique<rtl::Executor>(std::move(simulation), program);
  }

  Result<Partition::Channel> connect(const plan::ImagePort& port, const kernels::Tensor& tensor, bool input) {
    if (port.type != tensor.type || port.elements != tensor.elements())
      return wrong("port '" + port.name + "' has " + std::to_string(port.elements) + " x " +
                   to_string(port.type) + ", its tensor '" + tensor.name + "' " +
                   std::to_string(tensor.elements()) + " x " + to_string(tensor.type));
    if (tensor.storage_bytes() > services_.memory.bytes() || tensor.storage_bytes() > 0x7fffffffu)
      return wrong("port '" + port.name + "': a frame of " + std::to_string(tensor.storage_bytes()) +
                   " bytes is too large");
    const auto host = input ? plan::PortKind::kIngress : plan::PortKind::kEgress;
    const auto link = input ? plan::PortKind::kLinkReceive : plan::PortKind::kLinkSend;
    Partition::Channel channel;
    if (port.kind == host) {
      MILLRACE_ASSIGN(channel.unit,
                      claim_unit(port.compute_unit, input ? UnitKind::kIngress : UnitKind::kEgress,
                                 "port '" + port.name + "'", image_));
    } else if (port.kind == link) {
      MILLRACE_ASSIGN(channel.link, claim_link(port));
    } else {
      return wrong("port '" + port.name + "' has a kind that does not match its direction");
    }
    return channel;
  }

  Result<LinkPort*> claim_link(const plan::ImagePort& port) {
    if (port.link_index >= abi::kMaxLinkPorts)
      return wrong("port '" + port.name + "': link table row " + std::to_string(port.link_index) + " of " +
                   std::to_string(abi::kMaxLinkPorts));
    if (image_.links.size() <= port.link_index) image_.links.resize(port.link_index + 1);
    auto& row = image_.links[port.link_index];
    if (row != nullptr)
      return wrong("port '" + port.name + "': link table row " + std::to_string(port.link_index) +
                   " is another port's");
    row = std::make_unique<LinkPort>(fabric_, card_, port.kind == plan::PortKind::kLinkSend);
    return row.get();
  }

  LoadedImage& image_;
  const std::string content_digest_;
  std::byte* fabric_;
  std::uint32_t card_;
  CardServices& services_;
};

}  // namespace

Result<std::unique_ptr<LoadedImage>> build_image(const ImageHeader& header, std::span<const std::byte> data,
                                                 std::byte* fabric, std::uint32_t card,
                                                 CardServices& services) {
  auto image = std::make_unique<LoadedImage>();
  MILLRACE_TRY(add_units(header, *image));
  const bool needs_program = std::any_of(image->units.begin(), image->units.end(),
                                         [](const auto& unit) { return unit->kind != UnitKind::kEmpty; });
  if (data.empty()) {
    if (needs_program) return wrong("has no section EMULATION_DATA; it was not made for emulated cards");
    return image;
  }
  MILLRACE_ASSIGN(const auto decoded, plan::decode_emulation_data(data));
  if (decoded.record.abi_version != abi::kAbiVersion)
    return wrong("has ABI version " + std::to_string(decoded.record.abi_version) + ", this card " +
                 std::to_string(abi::kAbiVersion) + "; compile the model again");
  if (decoded.programs.size() != decoded.record.partitions.size())
    return wrong("does not have one program for each partition");
  PartitionBuilder builder(*image, decoded.record.content_digest, fabric, card, services);
  for (std::size_t i = 0; i < decoded.programs.size(); ++i)
    MILLRACE_TRY(builder.add(decoded.record.partitions[i], decoded.programs[i]));
  for (const auto& unit : image->units)
    if (!unit->used && (unit->kind == UnitKind::kIngress || unit->kind == UnitKind::kEgress ||
                        unit->kind == UnitKind::kParameters))
      return wrong("compute unit '" + unit->name + "' belongs to no port or partition");
  return image;
}

}  // namespace millrace::runtime::emulator
