#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::plan {
namespace {

constexpr double kGigabitsPerSecond = 10;
constexpr std::uint64_t kBandwidthBytesPerSecond = 10'000'000'000U;
constexpr std::uint64_t kLeastMemoryBytes = 4096;  // memory of a card whose image lists no bank

/// Maps two endpoints (cards as the plan names them, the lower number first) and a protocol to the number of channels in
/// each direction.
using Traffic =
    std::map<std::tuple<std::size_t, std::size_t, CableProtocol>, std::pair<std::uint32_t, std::uint32_t>>;

Traffic count_traffic(const Deployment& deployment, const std::vector<std::string>& endpoints) {
  const auto index_of = [&](const PortRef& ref) {
    const std::string& name = deployment.find_partition(ref.partition)->endpoint;
    return static_cast<std::size_t>(std::find(endpoints.begin(), endpoints.end(), name) - endpoints.begin());
  };
  Traffic traffic;
  for (const auto& channel : deployment.channels) {
    if (passes_hosts(channel.transport)) continue;
    const std::size_t from = index_of(channel.producer), to = index_of(channel.consumer);
    const auto protocol = channel.transport == Transport::kUdp ? CableProtocol::kUdp : CableProtocol::kAurora;
    auto& [up, down] = traffic[{std::min(from, to), std::max(from, to), protocol}];
    ++(from < to ? up : down);
  }
  return traffic;
}

/// Appends the cards and cables of one replica. `behind` is appended to their names.
void add_replica(const Deployment& deployment, const std::string& behind, Cluster& cluster) {
  std::vector<std::string> endpoints, cards;
  for (const auto& endpoint : deployment.endpoints) {
    if (endpoint.host) continue;
    endpoints.push_back(endpoint.name);
    cards.push_back(endpoint.name + behind);
    cluster.cards.push_back({cards.back(), endpoint.device, ""});
    Device& device = cluster.devices[endpoint.device];
    device.name = endpoint.device;
    device.regions = {{"all", {}, {"DDR[0]"}, "device"}};
  }
  std::vector<std::uint32_t> connectors(endpoints.size(), 0);
  for (const auto& [ends, counts] : count_traffic(deployment, endpoints)) {
    const auto& [low, high, protocol] = ends;
    const std::uint32_t busiest = std::max(counts.first, counts.second);
    for (std::uint32_t i = 0; i * abi::kMaxTags < busiest; ++i) {
      Cable cable;
      cable.name = cards[low] + "-" + cards[high];
      if (protocol == CableProtocol::kUdp) cable.name += "-udp";
      if (i > 0) cable.name += "-" + std::to_string(i + 1);
      cable.a = {cards[low], connectors[low]++};
      cable.b = {cards[high], connectors[high]++};
      cable.gigabits_per_second = kGigabitsPerSecond;
      cable.protocol = protocol;
      cluster.cables.push_back(std::move(cable));
    }
  }
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    Device& device = cluster.devices[deployment.find_endpoint(endpoints[i])->device];
    device.connectors = std::max(device.connectors, connectors[i]);
  }
}

}  // namespace

Result<Cluster> emulated_cluster_for(const LoadedDeployment& deployment, std::uint32_t replicas) {
  Cluster cluster;
  cluster.name = "emulated-for-" + deployment.plan.model.name;
  cluster.emulated = true;
  for (std::uint32_t i = 1; i <= replicas; ++i)
    add_replica(deployment.plan, i == 1 ? "" : "-" + std::to_string(i), cluster);
  for (const auto& image : deployment.plan.images) {
    MILLRACE_ASSIGN(const auto view, parse_xclbin(deployment.images.at(image.name)));
    MILLRACE_ASSIGN(const auto needed, memory_bytes(view));
    std::vector<MemoryBank>& banks = cluster.devices[image.device].memory;
    const std::uint64_t most = banks.empty() ? kLeastMemoryBytes : banks[0].capacity_bytes;
    banks = {{"DDR[0]", std::max(most, needed), kBandwidthBytesPerSecond}};
    if (const double clock = deployment.records.at(image.name).clock_mhz; clock > 0)
      cluster.devices[image.device].clock_mhz = clock;
  }
  for (Cable& cable : cluster.cables)
    limit_rate(cable, cluster.device_of(*cluster.find_card(cable.a.card)),
               cluster.device_of(*cluster.find_card(cable.b.card)));
  return cluster;
}

}  // namespace millrace::runtime::plan
