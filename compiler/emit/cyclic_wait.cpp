// Runs the communication plan with counts of packets. If three frames pass under the worst behaviour (see
// find_cyclic_wait()), any number passes: a fourth frame meets the same state as the second one.
#include <algorithm>
#include <map>
#include <vector>

#include "compiler/emit/communication.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;

constexpr std::uint32_t kFrames = 3;

struct Wire {
  const Channel* channel = nullptr;
  std::uint64_t packets_a_frame = 0;
  std::uint64_t sent = 0, taken = 0;
  bool bounded() const { return channel->credits != 0; }
  bool has_room() const { return !bounded() || sent - taken < channel->credits; }
};

struct PortState {
  const PortPlan* plan = nullptr;
  std::vector<Wire*> wires;  // one a step
  std::uint64_t packets_a_frame = 0;
  std::uint64_t moved = 0;  // packets of the current frame
};

struct Node {
  const Partition* partition = nullptr;
  std::vector<PortState> inputs, outputs;
  std::uint64_t ticks = 0;  // lock-steps in which a frame's inputs are taken
  std::uint64_t tick = 0;
  std::uint32_t frame = 0;
};

class Simulation {
 public:
  explicit Simulation(const Deployment& d) {
    for (const auto& channel : d.channels) {
      Wire& wire = wires_[channel.id];
      wire.channel = &channel;
      const std::uint64_t packet =
          std::max<std::uint64_t>(channel.packet_bytes == 0 ? channel.frame_bytes : channel.packet_bytes, 1);
      wire.packets_a_frame = std::max<std::uint64_t>((channel.frame_bytes + packet - 1) / packet, 1);
      if (channel.producer.partition.empty())
        wire.sent = wire.packets_a_frame * kFrames;  // a client sends at once
    }
    for (const auto& partition : d.partitions) {
      Node node;
      node.partition = &partition;
      for (const auto& plan : d.communication) {
        if (plan.partition != partition.name) continue;
        PortState port{&plan, {}, 0, 0};
        for (const auto& step : plan.steps) {
          port.wires.push_back(&wires_[step.channel]);
          port.packets_a_frame += port.wires.back()->packets_a_frame;
        }
        const bool sends = !plan.steps.empty() && plan.steps[0].action == Action::kSend;
        (sends ? node.outputs : node.inputs).push_back(std::move(port));
      }
      for (const auto& port : node.inputs) node.ticks = std::max(node.ticks, port.packets_a_frame);
      nodes_.push_back(std::move(node));
    }
  }

  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& node : nodes_)
        while (advance(node)) moved = true;
    }
    std::string waits;
    for (auto& node : nodes_)
      if (node.frame < kFrames) waits += (waits.empty() ? "" : "; ") + waiting(node);
    return waits;
  }

 private:
  /// The wire of packet number `moved` of a frame: a port works through its steps in order.
  static Wire& wire_at(const PortState& port, std::uint64_t moved) {
    for (Wire* wire : port.wires) {
      if (moved < wire->packets_a_frame) return *wire;
      moved -= wire->packets_a_frame;
    }
    return *port.wires.back();
  }

  static std::uint64_t due(const Node& node,
                           const PortState& port) {  // packets taken when the next tick is done
    return ((node.tick + 1) * port.packets_a_frame + node.ticks - 1) / node.ticks;
  }

  static bool can_take(const Node& node, const PortState& port) {
    std::map<const Wire*, std::uint64_t> needed;
    for (std::uint64_t moved = port.moved; moved < due(node, port); ++moved) ++needed[&wire_at(port, moved)];
    return std::all_of(needed.begin(), needed.end(),
                       [](const auto& need) { return need.first->sent - need.first->taken >= need.second; });
  }

  static bool advance(Node& node) {
    if (node.frame == kFrames) return false;
    if (node.tick < node.ticks) {
      if (!std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const auto& port) { return can_take(node, port); }))
        return false;
      for (auto& port : node.inputs)
        for (const std::uint64_t until = due(node, port); port.moved < until; ++port.moved)
          ++wire_at(port, port.moved).taken;
      ++node.tick;
      return true;
    }
    bool moved = false, done = true;
    for (auto& port : node.outputs) {
      if (port.moved < port.packets_a_frame && wire_at(port, port.moved).has_room()) {
        ++wire_at(port, port.moved).sent;
        ++port.moved;
        moved = true;
      }
      done = done && port.moved == port.packets_a_frame;
    }
    if (done) {
      for (auto* ports : {&node.inputs, &node.outputs})
        for (auto& port : *ports) port.moved = 0;
      node.tick = 0;
      ++node.frame;
      return true;
    }
    return moved;
  }

  static std::string waiting(const Node& node) {
    const std::string who = "partition '" + node.partition->name + "' waits ";
    for (const auto& port : node.inputs)
      if (node.tick < node.ticks && !can_take(node, port))
        return who + "for data of channel '" + wire_at(port, port.moved).channel->name + "'";
    for (const auto& port : node.outputs)
      if (port.moved < port.packets_a_frame && !wire_at(port, port.moved).has_room()) {
        const Channel& channel = *wire_at(port, port.moved).channel;
        return who + "for credits of channel '" + channel.name + "' (" + std::to_string(channel.credits) +
               " packets)";
      }
    return who + "for another partition";
  }

  std::map<std::uint32_t, Wire> wires_;
  std::vector<Node> nodes_;
};

}  // namespace

std::string find_cyclic_wait(const Deployment& deployment) {
  return Simulation(deployment).run();
}

}  // namespace millrace::compiler::emit
