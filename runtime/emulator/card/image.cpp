#include "runtime/emulator/card/image.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/cache.hpp"
#include "runtime/plugins/models.hpp"
#include "runtime/rtl/build.hpp"

namespace millrace::runtime::emulator {

namespace abi = plan::abi;

namespace {

Error wrong(std::string message) {
  return Error(ErrorCode::kInvalidInput, "image: " + std::move(message));
}

Result<UnitKind> kind_of(const std::string& unit) {
  static const std::map<std::string, UnitKind> kinds = {
      {abi::kIngressKernel, UnitKind::kIngress},
      {abi::kEgressKernel, UnitKind::kEgress},
      {abi::kParametersKernel, UnitKind::kParameters},
      {abi::kSupervisorKernel, UnitKind::kSupervisor},
      {abi::kControlKernel, UnitKind::kControl},
      {"millrace_nop", UnitKind::kEmpty},  // does nothing; measures the cost of starting and waiting
  };
  const auto kind = kinds.find(unit.substr(0, unit.find(':')));
  if (kind == kinds.end())
    return wrong("compute unit '" + unit + "' belongs to a kernel that emulated cards do not have");
  return kind->second;
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

/// Marks the compute unit of a port or partition as used and returns its queue of commands. `name` has the
/// form "kernel:{cu}". In the image's list of units, the same unit is called "kernel:cu".
Result<CommandQueue*> claim_unit(std::string name, const std::string& who, LoadedImage& image) {
  name.erase(name.find('{'), 1);
  name.pop_back();
  for (auto& unit : image.units) {
    if (unit->name != name) continue;
    unit->used = true;
    return &unit->queue;
  }
  return wrong(who + " names compute unit '" + name + "', which IP_LAYOUT does not have");
}

Result<Partition::Channel> connect(const plan::ImagePort& port, const kernels::Tensor& tensor,
                                   LoadedImage& image, CardServices& services) {
  if (tensor.storage_bytes() > services.memory.bytes() || tensor.storage_bytes() > 0x7fffffffu)
    return wrong("port '" + port.name + "': a frame of " + std::to_string(tensor.storage_bytes()) +
                 " bytes is too large");
  if (port.kind == plan::PortKind::kIngress || port.kind == plan::PortKind::kEgress) {
    MILLRACE_ASSIGN(auto* const unit, claim_unit(port.compute_unit, "port '" + port.name + "'", image));
    return Partition::Channel{unit, nullptr};
  }
  if (image.links.size() <= port.link_index) image.links.resize(port.link_index + 1);
  auto& row = image.links[port.link_index];
  row = std::make_unique<LinkPort>(services.fabric, services.card, port.kind == plan::PortKind::kLinkSend,
                                   services.udp_links);
  return Partition::Channel{nullptr, row.get()};
}

/// Opens the partition's simulation from this machine's cache. Code is never loaded from an image.
Result<std::unique_ptr<rtl::Executor>> open_simulation(const plan::ImageRecord& record,
                                                       const plan::ImagePartition& partition,
                                                       const kernels::Program& program, std::uint32_t card) {
  MILLRACE_ASSIGN(const Cache cache, Cache::open());
  MILLRACE_ASSIGN(const auto entry, rtl::find_simulation(cache, record.content_digest, partition.name));
  MILLRACE_ASSIGN(auto simulation, rtl::Simulation::open(entry, 1 + card));
  if (!partition.rtl_digest.empty() && partition.rtl_digest != simulation->design().digest)
    return wrong("partition '" + partition.name +
                 "': the simulation in the cache was built from different SystemVerilog");
  MILLRACE_TRY(rtl::check_ports(simulation->design(), program));
  return std::make_unique<rtl::Executor>(std::move(simulation), program);
}

/// Adds a partition. Its ports are the program's inputs, then its outputs. An output that feeds several
/// channels has one port for each channel; these ports have the same name and are adjacent.
Status add_partition(const plan::EmulationData& data, std::size_t index, const plan::Pace& pace,
                     LoadedImage& image, CardServices& services) {
  const plan::ImageRecord& record = data.record;
  const plan::ImagePartition& partition = record.partitions[index];
  const kernels::Program& program = data.programs[index];
  std::vector<Partition::Channel> inputs;
  std::vector<std::vector<Partition::Channel>> outputs;
  for (std::size_t i = 0; i < partition.ports.size(); ++i) {
    const auto& port = partition.ports[i];
    const bool input = i < program.inputs.size();
    if (!input && (outputs.empty() || port.name != partition.ports[i - 1].name)) outputs.emplace_back();
    const auto tensor = input ? program.inputs[i] : program.outputs[outputs.size() - 1];
    MILLRACE_ASSIGN(const auto channel, connect(port, program.tensors[tensor], image, services));
    (input ? inputs : outputs.back()).push_back(channel);
  }
  std::unique_ptr<rtl::Executor> simulation;
  if (services.rtl) {
    MILLRACE_ASSIGN(simulation, open_simulation(record, partition, program, services.card));
  }
  Partition::Parameters parameters{partition.program_digest, nullptr};
  if (!partition.parameters_unit.empty()) {
    MILLRACE_ASSIGN(parameters.unit,
                    claim_unit(partition.parameters_unit, "partition '" + partition.name + "'", image));
  }
  image.partitions.emplace_back(program, services, std::move(inputs), std::move(outputs),
                                std::move(parameters), std::move(simulation), pace);
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedImage>> build_image(const ImageHeader& header, std::span<const std::byte> data,
                                                 CardServices& services) {
  auto image = std::make_unique<LoadedImage>();
  MILLRACE_TRY(add_units(header, *image));
  const bool needs_program = std::any_of(image->units.begin(), image->units.end(),
                                         [](const auto& unit) { return unit->kind != UnitKind::kEmpty; });
  if (data.empty()) {
    if (needs_program)
      return wrong("has no section EMULATION_DATA; the image was not made for emulated cards");
    return image;
  }
  MILLRACE_ASSIGN(auto decoded, plan::decode_emulation_data(data));
  MILLRACE_ASSIGN(const auto paces, plan::decode_paces(data));
  for (std::size_t i = 0; i < decoded.programs.size(); ++i) {
    if (!services.rtl) MILLRACE_TRY(plugins::load_models(decoded.programs[i]));
    MILLRACE_TRY(add_partition(decoded, i, paces[i], *image, services));
  }
  for (const auto& unit : image->units)
    if (!unit->used && (unit->kind == UnitKind::kIngress || unit->kind == UnitKind::kEgress ||
                        unit->kind == UnitKind::kParameters))
      return wrong("compute unit '" + unit->name + "' belongs to no port or partition");
  return image;
}

}  // namespace millrace::runtime::emulator
