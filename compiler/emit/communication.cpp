#include "compiler/emit/communication.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "kernels/program/packing.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;

constexpr std::uint64_t kUsualCredits = 16, kMostCredits = 1U << 30U;
constexpr std::uint64_t kMostUdpCredits = 1U << 16U;  // runtime/link/README.md

std::uint64_t packets(std::uint64_t frame_bytes, std::uint64_t packet_bytes) {
  return (frame_bytes + packet_bytes - 1) / packet_bytes;
}

/// The port that produces a tensor; `port` is null for an input of the model.
struct Producer {
  PortRef end;
  const Port* port = nullptr;
};

std::map<std::string, Producer> producers_of(const Deployment& d) {
  std::map<std::string, Producer> producers;
  for (const auto& tensor : d.model.inputs) producers[tensor.name] = {{"", tensor.name}, nullptr};
  for (const auto& partition : d.partitions)
    for (const auto& port : partition.outputs) producers[port.tensor] = {{partition.name, port.name}, &port};
  return producers;
}

std::string label(const PortRef& end) {
  return (end.partition.empty() ? "model" : end.partition) + "." + end.port;
}

bool on_host(const Deployment& d, const PortRef& end) {
  const Partition* partition = d.find_partition(end.partition);
  return partition == nullptr || partition->kind == PartitionKind::kHost;
}

std::string card_of(const Deployment& d, const PortRef& end, const Binding& binding) {
  const auto found = binding.find(d.find_partition(end.partition)->endpoint);
  return found == binding.end() ? std::string() : found->second;
}

bool joins(const Cable& cable, const std::string& card, const std::string& other) {
  return (cable.a.card == card && cable.b.card == other) || (cable.a.card == other && cable.b.card == card);
}

/// Returns the first cable between the two ends of a channel, or null.
const Cable* cable_of(const Deployment& d, const Channel& channel, const Cluster& cluster,
                      const Binding& binding) {
  const std::string from = card_of(d, channel.producer, binding), to = card_of(d, channel.consumer, binding);
  const auto found = std::find_if(cluster.cables.begin(), cluster.cables.end(),
                                  [&](const Cable& cable) { return joins(cable, from, to); });
  return found == cluster.cables.end() ? nullptr : &*found;
}

void add_channel(Deployment& d, const PortRef& producer, const PortRef& consumer, const Port& port,
                 const Cluster& cluster, const Binding& binding) {
  Channel channel;
  channel.id = static_cast<std::uint32_t>(d.channels.size());
  channel.producer = producer;
  channel.consumer = consumer;
  channel.name = label(producer) + ">" + label(consumer);
  channel.type = port.type;
  channel.slice = {0, port.elements(), 1, 1};
  if (on_host(d, producer) || on_host(d, consumer)) {
    channel.transport = Transport::kHost;
    channel.frame_bytes = port.storage_bytes();
  } else {
    // If no cable joins the two cards, check_communication() reports the error later.
    const Cable* const cable = cable_of(d, channel, cluster, binding);
    if (cable != nullptr && cable->protocol == CableProtocol::kMpi) {
      channel.transport = Transport::kMpi;
      channel.frame_bytes = port.storage_bytes();
      d.channels.push_back(std::move(channel));
      return;
    }
    const bool udp = cable != nullptr && cable->protocol == CableProtocol::kUdp;
    channel.transport = udp ? Transport::kUdp : Transport::kAurora;
    channel.frame_bytes = kernels::packed_bytes(port.type, port.elements());
    channel.packet_bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(channel.frame_bytes, udp ? cable->packet_bytes() : kPacketBytes));
  }
  d.channels.push_back(std::move(channel));
}

Status add_channels(Deployment& d, const Cluster& cluster, const Binding& binding) {
  const auto producers = producers_of(d);
  for (const auto& partition : d.partitions)
    for (const auto& port : partition.inputs) {
      const auto made = producers.find(port.tensor);
      if (made == producers.end())
        return Error(ErrorCode::kInternal, "nothing produces tensor '" + port.tensor + "'");
      add_channel(d, made->second.end, {partition.name, port.name}, port, cluster, binding);
    }
  for (const auto& tensor : d.model.outputs) {
    const auto made = producers.find(tensor.name);
    if (made == producers.end() || made->second.port == nullptr)
      return Error(ErrorCode::kUnsupported,
                   "model output '" + tensor.name +
                       "' is not computed: this output is an input of the model or a constant");
    add_channel(d, made->second.end, {"", tensor.name}, *made->second.port, cluster, binding);
  }
  return {};
}

/// Returns the credits with which a UDP channel keeps its cable busy during a round trip: twice the number of packets
/// that are then on their way, because a receiver acknowledges packets only after a quarter of the credits.
std::uint64_t round_trip_credits(const Channel& channel, const Cable& cable) {
  const double bits = 2 * cable.latency_ns * cable.gigabits_per_second;
  const double packet_bits = 8.0 * static_cast<double>(channel.packet_bytes + kDatagramOverheadBytes);
  return 2 * static_cast<std::uint64_t>(std::ceil(bits / packet_bits));
}

/// Sets the credits of channels between cards. A packet's credit returns only when the whole packet is read. Credits
/// for two frames let one frame arrive while the previous one is read. Large frames get only kUsualCredits.
///
/// If a partition has several input channels, each gets credits for n + 1 frames. Here n is the number of steps from
/// the channel's producer to its consumer on the longest path through the partitions: 1 for neighbours, more for a
/// channel that skips partitions. Such a channel stores its frames while the partitions that it skips compute the same
/// frames. A UDP channel also gets the credits that a round trip through the network needs.
void set_credits(Deployment& d, const Cluster& cluster, const Binding& binding) {
  std::map<std::string, std::uint32_t> depth;  // partitions on the longest path from the model's inputs
  for (const auto& partition : d.partitions) {
    std::uint32_t& mine = depth[partition.name];
    for (const auto& channel : d.channels)
      if (channel.consumer.partition == partition.name && !channel.producer.partition.empty())
        mine = std::max(mine, depth[channel.producer.partition] + 1);
  }
  for (auto& channel : d.channels) {
    if (passes_hosts(channel.transport)) continue;
    const std::uint64_t frame = packets(channel.frame_bytes, channel.packet_bytes);
    const auto joined = std::count_if(d.channels.begin(), d.channels.end(), [&](const Channel& other) {
      return other.consumer.partition == channel.consumer.partition;
    });
    const std::uint32_t apart = depth[channel.consumer.partition] - depth[channel.producer.partition];
    const std::uint64_t wanted =
        joined > 1 ? frame * (1 + std::uint64_t{apart}) : std::min(2 * frame, kUsualCredits);
    channel.credits = static_cast<std::uint32_t>(std::min(wanted, kMostCredits));
    if (channel.transport != Transport::kUdp) continue;
    const std::uint64_t ahead = round_trip_credits(channel, *cable_of(d, channel, cluster, binding));
    channel.credits = static_cast<std::uint32_t>(std::min(wanted + ahead, kMostUdpCredits));
  }
}

void add_port_plan(Deployment& d, const Partition& partition, const Port& port, Action action) {
  PortPlan plan{partition.endpoint, partition.name, port.name, {}};
  const PortRef self{partition.name, port.name};
  for (const auto& channel : d.channels)
    if ((action == Action::kSend ? channel.producer : channel.consumer) == self)
      plan.steps.push_back({action, channel.id, channel.frame_bytes});
  d.communication.push_back(std::move(plan));
}

// The check for cyclic waits counts the packets of a few frames. If three frames pass under the worst behaviour
// (see find_cyclic_wait()), every later frame passes too: from the second frame on, every frame meets the same state.

constexpr std::uint32_t kFrames = 3;

struct Wire {
  const Channel* channel = nullptr;
  std::uint64_t sent = 0, taken = 0;  // packets so far
  bool has_room() const { return channel->credits == 0 || sent - taken < channel->credits; }
};

/// The packets of a frame that pass a port, in order.
struct PortState {
  std::vector<Wire*> packets;
  std::size_t moved = 0;  // packets of the current frame that were sent or taken
  Wire& next() const { return *packets[moved]; }
};

struct Node {
  const Partition* partition = nullptr;
  std::vector<PortState> inputs, outputs;
  std::uint64_t ticks = 0;  // number of lock-steps in which the partition takes a frame's inputs
  std::uint64_t tick = 0;
  std::uint32_t frame = 0;

  /// The partition takes its inputs in `ticks` equal steps. Returns how many packets of the frame must have passed the
  /// port after the next step.
  std::size_t due(const PortState& port) const {
    return ((tick + 1) * port.packets.size() + ticks - 1) / ticks;
  }

  bool can_take(const PortState& port) const {
    std::map<const Wire*, std::uint64_t> needed;
    for (std::size_t moved = port.moved; moved < due(port); ++moved) ++needed[port.packets[moved]];
    return std::all_of(needed.begin(), needed.end(),
                       [](const auto& need) { return need.first->sent - need.first->taken >= need.second; });
  }

  bool advance() {
    if (frame == kFrames) return false;
    if (tick < ticks) {
      if (!std::all_of(inputs.begin(), inputs.end(), [&](const auto& port) { return can_take(port); }))
        return false;
      for (auto& port : inputs)
        for (const std::size_t until = due(port); port.moved < until; ++port.moved) ++port.next().taken;
      ++tick;
      return true;
    }
    bool moved = false, done = true;
    for (auto& port : outputs) {
      if (port.moved < port.packets.size() && port.next().has_room()) {
        ++port.next().sent;
        ++port.moved;
        moved = true;
      }
      done = done && port.moved == port.packets.size();
    }
    if (!done) return moved;
    for (auto* ports : {&inputs, &outputs})
      for (auto& port : *ports) port.moved = 0;
    tick = 0;
    ++frame;
    return true;
  }

  std::string waiting() const {
    const std::string who = "partition '" + partition->name + "' waits ";
    for (const auto& port : inputs)
      if (tick < ticks && !can_take(port))
        return who + "for data of channel '" + port.next().channel->name + "'";
    for (const auto& port : outputs)
      if (port.moved < port.packets.size() && !port.next().has_room()) {
        const Channel& channel = *port.next().channel;
        return who + "for credits of channel '" + channel.name + "' (" + std::to_string(channel.credits) +
               " packets)";
      }
    return who + "for another partition";
  }
};

std::uint64_t packets_of(const Channel& channel) {
  const std::uint64_t packet =
      std::max<std::uint64_t>(channel.packet_bytes == 0 ? channel.frame_bytes : channel.packet_bytes, 1);
  return std::max<std::uint64_t>(packets(channel.frame_bytes, packet), 1);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// Checks that the cables from one card to another, over UDP or not, can carry channels with these bytes for each frame.
Status check_cables(const Cluster& cluster, const std::string& from, const std::string& to, bool udp,
                    const std::vector<std::uint64_t>& loads, double frames_per_second) {
  std::vector<const Cable*> cables;
  for (const auto& cable : cluster.cables)
    if (joins(cable, from, to) && (cable.protocol == CableProtocol::kUdp) == udp) cables.push_back(&cable);
  const std::string between = "between cards '" + from + "' and '" + to + "'";
  if (cables.empty())
    return Error(ErrorCode::kDoesNotFit, "cluster '" + cluster.name + "' has no cable " + between +
                                             ", but the plan sends tensors between these cards; "
                                             "add a cable or cut the model elsewhere (--partitions)");
  const std::size_t most = cables.size() * abi::kMaxTags;
  if (loads.size() > most)
    return Error(ErrorCode::kDoesNotFit, std::to_string(loads.size()) + " channels " + between + ", but " +
                                             std::to_string(cables.size()) + " cable(s) carry " +
                                             std::to_string(most) +
                                             " channels in each direction; "
                                             "cut the model elsewhere (--partitions) or add a cable");
  const Cable& slowest = **std::min_element(cables.begin(), cables.end(), [](const Cable* a, const Cable* b) {
    return a->gigabits_per_second < b->gigabits_per_second;
  });
  // Each channel uses the cable that has the least load so far.
  std::vector<std::uint64_t> carried(cables.size(), 0);
  for (const auto load : loads) *std::min_element(carried.begin(), carried.end()) += load;
  const double gigabits_a_frame =
      8e-9 * static_cast<double>(*std::max_element(carried.begin(), carried.end()));
  const double needed = frames_per_second * gigabits_a_frame;
  // If a cable limits the frame rate, its load equals its capacity except for rounding errors.
  if (needed <= slowest.gigabits_per_second * (1 + 1e-6)) return {};
  const std::string limit = slowest.limit.empty() ? "" : " because of " + slowest.limit;
  const std::string remedy = slowest.limit.empty()
                                 ? "or use cables of at least " + number(needed) + " Gbit/s"
                                 : "or use devices whose links carry at least " + number(needed) + " Gbit/s";
  return Error(
      ErrorCode::kDoesNotFit,
      "at " + std::to_string(static_cast<std::uint64_t>(std::ceil(frames_per_second))) +
          " frames/s, cable '" + slowest.name + "' " + between + " would have to carry " + number(needed) +
          " Gbit/s, but it carries " + number(slowest.gigabits_per_second) + limit +
          "; lower the rate to at most " +
          std::to_string(static_cast<std::uint64_t>(slowest.gigabits_per_second / gigabits_a_frame)) +
          " frames/s, "
          "cut the model elsewhere (--partitions), add a cable, " +
          remedy);
}

}  // namespace

std::uint64_t bytes_on_wire(const Channel& channel) {
  return channel.transport == Transport::kUdp
             ? frame_bytes_on_udp(channel.frame_bytes, channel.packet_bytes)
             : frame_bytes_on_wire(channel.frame_bytes, channel.packet_bytes);
}

Status plan_communication(Deployment& deployment, const Cluster& cluster, const Binding& binding) {
  deployment.channels.clear();
  deployment.communication.clear();
  MILLRACE_TRY(add_channels(deployment, cluster, binding));
  set_credits(deployment, cluster, binding);
  for (const auto& partition : deployment.partitions) {
    for (const auto& port : partition.inputs) add_port_plan(deployment, partition, port, Action::kReceive);
    for (const auto& port : partition.outputs) add_port_plan(deployment, partition, port, Action::kSend);
  }
  return {};
}

Status check_communication(const Deployment& deployment, const Cluster& cluster, const Binding& binding,
                           std::optional<double> frames_per_second) {
  // Maps (sending card, receiving card, whether UDP) to the bytes that each channel between them carries for one frame.
  std::map<std::tuple<std::string, std::string, bool>, std::vector<std::uint64_t>> loads_between;
  for (const auto& channel : deployment.channels) {
    if (passes_hosts(channel.transport)) continue;
    loads_between[{card_of(deployment, channel.producer, binding),
                   card_of(deployment, channel.consumer, binding), channel.transport == Transport::kUdp}]
        .push_back(bytes_on_wire(channel));
  }
  for (const auto& [key, loads] : loads_between) {
    const auto& [from, to, udp] = key;
    MILLRACE_TRY(check_cables(cluster, from, to, udp, loads, frames_per_second.value_or(0)));
  }
  if (const auto wait = find_cyclic_wait(deployment); !wait.empty())
    return Error(ErrorCode::kDoesNotFit,
                 "the communication plan deadlocks: " + wait +
                     "; more link credits or another cut of the model (--partitions) may avoid the deadlock");
  return {};
}

std::string find_cyclic_wait(const Deployment& deployment) {
  std::map<std::uint32_t, Wire> wires;
  for (const auto& channel : deployment.channels) {
    const bool from_client = channel.producer.partition.empty();  // a client sends without waiting
    wires[channel.id] = {&channel, from_client ? packets_of(channel) * kFrames : 0, 0};
  }
  std::vector<Node> nodes;
  for (const auto& partition : deployment.partitions) {
    Node& node = nodes.emplace_back();
    node.partition = &partition;
    for (const auto& plan : deployment.communication) {
      if (plan.partition != partition.name) continue;
      PortState port;
      for (const auto& step : plan.steps) {
        Wire& wire = wires[step.channel];
        port.packets.insert(port.packets.end(), packets_of(*wire.channel), &wire);
      }
      const bool sends = !plan.steps.empty() && plan.steps[0].action == Action::kSend;
      (sends ? node.outputs : node.inputs).push_back(std::move(port));
    }
    for (const auto& port : node.inputs)
      node.ticks = std::max<std::uint64_t>(node.ticks, port.packets.size());
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& node : nodes)
      while (node.advance()) moved = true;
  }
  std::string waits;
  for (const auto& node : nodes)
    if (node.frame < kFrames) waits += (waits.empty() ? "" : "; ") + node.waiting();
  return waits;
}

}  // namespace millrace::compiler::emit
