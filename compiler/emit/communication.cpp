#include "compiler/emit/communication.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/program/packing.hpp"
#include "runtime/plan/image_abi.hpp"
#include "runtime/plan/packets.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;

constexpr std::uint64_t kUsualCredits = 16, kMostCredits = 1U << 30U;

std::uint64_t packets(std::uint64_t frame_bytes, std::uint64_t packet_bytes) {
  return (frame_bytes + packet_bytes - 1) / packet_bytes;
}

class Planner {
 public:
  explicit Planner(Deployment& deployment) : d_(deployment) {
    for (const auto& tensor : d_.model.inputs) producer_[tensor.name] = {"", tensor.name};
    for (const auto& partition : d_.partitions) {
      for (const auto& port : partition.outputs) {
        producer_[port.tensor] = {partition.name, port.name};
        port_[port.tensor] = &port;
      }
    }
  }

  Status plan() {
    for (const auto& partition : d_.partitions)
      for (const auto& port : partition.inputs)
        MILLRACE_TRY(add(port.tensor, {partition.name, port.name}, port));
    for (const auto& tensor : d_.model.outputs) {
      const auto found = port_.find(tensor.name);
      if (found == port_.end())
        return Error(ErrorCode::kUnsupported,
                     "model output '" + tensor.name + "' is not computed: it is an input or a constant");
      MILLRACE_TRY(add(tensor.name, {"", tensor.name}, *found->second));
    }
    set_credits();
    for (const auto& partition : d_.partitions) {
      for (const auto& port : partition.inputs) add_port_plan(partition, port, Action::kReceive);
      for (const auto& port : partition.outputs) add_port_plan(partition, port, Action::kSend);
    }
    return {};
  }

 private:
  bool on_host(const PortRef& end) const {
    const Partition* partition = d_.find_partition(end.partition);
    return partition == nullptr || partition->kind == PartitionKind::kHost;
  }

  Status add(const std::string& tensor, const PortRef& consumer, const Port& port) {
    const auto made = producer_.find(tensor);
    if (made == producer_.end()) return Error(ErrorCode::kInternal, "nothing makes tensor '" + tensor + "'");
    Channel channel;
    channel.id = static_cast<std::uint32_t>(d_.channels.size());
    channel.producer = made->second;
    channel.consumer = consumer;
    channel.name = label(channel.producer) + ">" + label(channel.consumer);
    channel.type = port.type;
    channel.slice = {0, port.elements(), 1, 1};
    if (on_host(channel.producer) || on_host(channel.consumer)) {
      channel.transport = Transport::kHost;
      channel.frame_bytes = port.storage_bytes();
    } else {
      channel.transport = Transport::kAurora;
      channel.frame_bytes = kernels::packed_bytes(port.type, port.elements());
      channel.packet_bytes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(channel.frame_bytes, kPacketBytes));
    }
    d_.channels.push_back(std::move(channel));
    return {};
  }

  static std::string label(const PortRef& end) {
    return (end.partition.empty() ? "model" : end.partition) + "." + end.port;
  }

  /// Credits for two frames let one arrive while the other is read: a packet's credit returns once all of it
  /// is read, and packets need not be equal. Where branches meet again, the shorter one must also hold the
  /// frames that the longer one still computes: one for each partition it is shorter by, and one more.
  void set_credits() {
    std::map<std::string, std::uint32_t> depth;  // longest way from the model's inputs, in partitions
    for (const auto& partition : d_.partitions) {
      std::uint32_t& mine = depth[partition.name];
      for (const auto& channel : d_.channels)
        if (channel.consumer.partition == partition.name && !channel.producer.partition.empty())
          mine = std::max(mine, depth[channel.producer.partition] + 1);
    }
    for (auto& channel : d_.channels) {
      if (channel.transport == Transport::kHost) continue;
      const std::uint64_t frame = packets(channel.frame_bytes, channel.packet_bytes);
      const auto joined = std::count_if(d_.channels.begin(), d_.channels.end(), [&](const Channel& other) {
        return other.consumer.partition == channel.consumer.partition;
      });
      const std::uint32_t apart = depth[channel.consumer.partition] - depth[channel.producer.partition];
      const std::uint64_t wanted =
          joined > 1 ? frame * (1 + std::uint64_t{apart}) : std::min(2 * frame, kUsualCredits);
      channel.credits = static_cast<std::uint32_t>(std::min(wanted, kMostCredits));
    }
  }

  void add_port_plan(const Partition& partition, const Port& port, Action action) {
    PortPlan plan{partition.endpoint, partition.name, port.name, {}};
    const PortRef self{partition.name, port.name};
    for (const auto& channel : d_.channels)
      if ((action == Action::kSend ? channel.producer : channel.consumer) == self)
        plan.steps.push_back({action, channel.id, channel.frame_bytes});
    d_.communication.push_back(std::move(plan));
  }

  Deployment& d_;
  std::map<std::string, PortRef> producer_;
  std::map<std::string, const Port*> port_;
};

/// The load of the cables between two cards, in one direction.
struct Way {
  std::uint64_t channels = 0;
  std::vector<std::uint64_t> loads;  // of its channels, bytes a frame on the wire
};

}  // namespace

Status plan_communication(Deployment& deployment) {
  deployment.channels.clear();
  deployment.communication.clear();
  return Planner(deployment).plan();
}

Status check_communication(const Deployment& deployment, const Cluster& cluster, const Binding& binding,
                           std::optional<double> frames_per_second) {
  std::map<std::pair<std::string, std::string>, Way> ways;
  for (const auto& channel : deployment.channels) {
    if (channel.transport == Transport::kHost) continue;
    const auto card = [&](const PortRef& end) {
      const auto found = binding.find(deployment.find_partition(end.partition)->endpoint);
      return found == binding.end() ? std::string() : found->second;
    };
    Way& way = ways[{card(channel.producer), card(channel.consumer)}];
    ++way.channels;
    way.loads.push_back(frame_bytes_on_wire(channel.frame_bytes, channel.packet_bytes));
  }
  for (const auto& [cards, way] : ways) {
    std::uint64_t cables = 0;
    double slowest = std::numeric_limits<double>::infinity();
    for (const auto& cable : cluster.cables) {
      const std::pair ends{cable.a.card, cable.b.card};
      if (ends != cards && std::pair{ends.second, ends.first} != cards) continue;
      ++cables;
      slowest = std::min(slowest, cable.gigabits_per_second);
    }
    const std::string between = "between cards '" + cards.first + "' and '" + cards.second + "'";
    if (cables == 0)
      return Error(ErrorCode::kDoesNotFit,
                   "cluster '" + cluster.name + "' has no cable " + between + ", and the plan needs one");
    if (way.channels > cables * abi::kMaxTags)
      return Error(ErrorCode::kDoesNotFit, std::to_string(way.channels) + " channels " + between + ", but " +
                                               std::to_string(cables) + " cable(s) carry " +
                                               std::to_string(cables * abi::kMaxTags) +
                                               " each way; cut elsewhere (--partitions) or add a cable");
    // A channel takes the cable with the least load so far.
    std::vector<std::uint64_t> carried(cables, 0);
    for (const auto load : way.loads) *std::min_element(carried.begin(), carried.end()) += load;
    const double needed = frames_per_second.value_or(0) * 8e-9 *
                          static_cast<double>(*std::max_element(carried.begin(), carried.end()));
    // If a cable limits the frame rate, its load equals its capacity but for rounding.
    if (needed > slowest * (1 + 1e-6))
      return Error(ErrorCode::kDoesNotFit,
                   "at " + std::to_string(static_cast<std::uint64_t>(std::ceil(*frames_per_second))) +
                       " frames/s " + between + " " + std::to_string(needed) +
                       " Gbit/s must pass over one cable, which carries " + std::to_string(slowest) +
                       "; lower the rate, cut elsewhere (--partitions) or add a cable");
  }
  if (const auto wait = find_cyclic_wait(deployment); !wait.empty())
    return Error(ErrorCode::kDoesNotFit,
                 "the communication plan stands still: " + wait + "; more credits or another cut are needed");
  return {};
}

}  // namespace millrace::compiler::emit
