#include "runtime/emulator/shim/machine.hpp"

#include <cstdlib>

namespace millrace::runtime::emulator {

Machine& Machine::instance() {
  static Machine& machine = *new Machine;
  return machine;
}

Machine::Machine() {
  const char* text = std::getenv("MILLRACE_EMULATION");
  if (text == nullptr) return;
  const auto topology = parse_topology(text);
  const auto status = topology.ok() ? build(*topology) : Status(topology.error());
  if (status.ok()) return;
  cards_.clear();
  problem_ = status.error().message();
}

Status Machine::build(const Topology& topology) {
  MILLRACE_ASSIGN(fabric_,
                  SharedMemory::create("millrace-fabric",
                                       fabric_bytes(static_cast<std::uint32_t>(topology.cables.size()))));
  auto& fabric = fabric_.as<Fabric>();
  fabric.magic = kProtocolMagic;
  fabric.cards = static_cast<std::uint32_t>(topology.cards.size());
  fabric.cables = static_cast<std::uint32_t>(topology.cables.size());
  fabric.spin_nanoseconds =
      static_cast<std::uint32_t>(std::chrono::nanoseconds(topology.options.spin).count());
  fabric.rtl = topology.options.rtl ? 1 : 0;
  for (std::size_t i = 0; i < topology.cables.size(); ++i) {
    fabric.cable[i][0] = {topology.cables[i].a.card, topology.cables[i].a.connector};
    fabric.cable[i][1] = {topology.cables[i].b.card, topology.cables[i].b.connector};
  }
  for (std::uint32_t i = 0; i < topology.cards.size(); ++i) {
    MILLRACE_ASSIGN(auto control, SharedMemory::create("millrace-control", kControlBytes));
    MILLRACE_ASSIGN(auto memory, SharedMemory::create("millrace-memory", topology.cards[i].memory_bytes));
    MILLRACE_ASSIGN(auto image, SharedMemory::create("millrace-image", sizeof(ImageHeader)));
    cards_.push_back(std::make_unique<EmulatedCard>(i, topology, fabric_, monitor_, std::move(control),
                                                    std::move(memory), std::move(image)));
  }
  return {};
}

}  // namespace millrace::runtime::emulator
