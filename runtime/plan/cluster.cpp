#include "runtime/plan/cluster.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/socket_address.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plan/installed.hpp"
#include "runtime/plan/transceivers.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::runtime::plan {
namespace {

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMaxConnectors = 64;

constexpr std::size_t kMaxName = 64;
constexpr char kNameRule[] =
    "' is not a valid name: give 1 to 64 of the characters A-Z a-z 0-9 _ - . (not - or . at the start)";

Result<std::string> name_of(const yaml::Mapping& map, std::string_view key,
                            std::optional<std::string> otherwise = {}) {
  MILLRACE_ASSIGN(std::string name, map.text(key, std::move(otherwise)));
  if (!is_name(name, kMaxName)) return map.error(key, "'" + name + kNameRule);
  return name;
}

Status check_file_schema(const yaml::Mapping& map) {
  MILLRACE_ASSIGN(const std::uint64_t schema, map.integer("schema"));
  if (schema != kSchema)
    return map.error("schema", std::to_string(schema) +
                                   " is not a schema that this version of Millrace can read; use schema " +
                                   std::to_string(kSchema));
  return {};
}

constexpr std::pair<std::string_view, std::uint64_t Resources::*> kKinds[] = {
    {"lut", &Resources::lut}, {"lutram", &Resources::lutram}, {"ff", &Resources::ff},
    {"dsp", &Resources::dsp}, {"bram36", &Resources::bram36}, {"uram", &Resources::uram}};

/// Reads the resources under `key`. Returns zeros if the key is absent.
Result<Resources> read_resources(const yaml::Mapping& parent, const std::string& file, std::string_view key) {
  Resources out;
  const yaml::Node* const node = parent.find(key);
  if (node == nullptr) return out;
  MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(*node, file, std::string(key),
                                                    {"lut", "lutram", "ff", "dsp", "bram36", "uram"}));
  for (const auto& [name, kind] : kKinds) {
    MILLRACE_ASSIGN(out.*kind, map.integer(name, 0));
  }
  return out;
}

Status read_memory(const yaml::Mapping& device, const std::string& file, Device& out) {
  MILLRACE_ASSIGN(const auto* banks, device.sequence("memory"));
  for (const auto& node : *banks) {
    MILLRACE_ASSIGN(const auto map,
                    yaml::Mapping::of(node, file, "memory bank",
                                      {"name", "capacity_bytes", "bandwidth_bytes_per_second"}));
    MemoryBank bank;
    MILLRACE_ASSIGN(bank.name, map.text("name"));
    if (bank.name.empty() || bank.name.size() > 15)
      return map.error("name", "the name of a memory must have 1 to 15 characters (xclbin.h, mem_data)");
    for (const auto& other : out.memory)
      if (other.name == bank.name) return map.error("name", "'" + bank.name + "' is used twice");
    MILLRACE_ASSIGN(bank.capacity_bytes, map.integer("capacity_bytes"));
    if (bank.capacity_bytes < 1024) return map.error("capacity_bytes", "at least 1024 are needed");
    MILLRACE_ASSIGN(bank.bandwidth_bytes_per_second, map.integer("bandwidth_bytes_per_second"));
    if (bank.bandwidth_bytes_per_second == 0)
      return map.error("bandwidth_bytes_per_second", "must be above 0");
    out.memory.push_back(std::move(bank));
  }
  if (out.memory.empty()) return device.error("memory", "a device needs at least one memory bank");
  return {};
}

Status read_regions(const yaml::Mapping& device, const std::string& file, Device& out) {
  MILLRACE_ASSIGN(const auto* regions, device.sequence("regions"));
  const bool whole = device.find("resources") != nullptr;
  if (regions->empty() != whole)
    return device.error("device: give either 'resources' (one region, \"all\") or 'regions'");
  if (whole) {
    Region region;
    region.name = "all";
    MILLRACE_ASSIGN(region.resources, read_resources(device, file, "resources"));
    for (const auto& bank : out.memory) region.memory.push_back(bank.name);
    region.programming_unit = "device";
    out.regions.push_back(std::move(region));
    return {};
  }
  for (const auto& node : *regions) {
    MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file, "region",
                                                      {"name", "resources", "memory", "programming_unit"}));
    Region region;
    MILLRACE_ASSIGN(region.name, name_of(map, "name"));
    for (const auto& other : out.regions)
      if (other.name == region.name) return map.error("name", "'" + region.name + "' is used twice");
    if (map.find("resources") == nullptr) return map.error("region: key 'resources' is missing");
    MILLRACE_ASSIGN(region.resources, read_resources(map, file, "resources"));
    MILLRACE_ASSIGN(region.memory, map.texts("memory"));
    for (const auto& bank : region.memory)
      if (std::none_of(out.memory.begin(), out.memory.end(), [&](const auto& m) { return m.name == bank; }))
        return map.error("memory", "the device has no bank '" + bank + "'");
    MILLRACE_ASSIGN(region.programming_unit, map.text("programming_unit", "device"));
    out.regions.push_back(std::move(region));
  }
  return {};
}

Status check_shell(const yaml::Mapping& map, const Device& device) {
  for (const auto& [name, kind] : kKinds) {
    if (device.shell_of_platform.*kind > device.shell.*kind)
      return map.error("shell_of_platform", "takes more " + std::string(name) + " than 'shell' in all: " +
                                                std::to_string(device.shell_of_platform.*kind) + " of " +
                                                std::to_string(device.shell.*kind));
    std::uint64_t sum = 0;
    for (const auto& region : device.regions) sum += region.resources.*kind;
    if (device.shell.*kind > sum)
      return map.error("shell", "takes more than the device has: " + std::to_string(device.shell.*kind) +
                                    " " + std::string(name) + " of " + std::to_string(sum));
  }
  return {};
}

Result<CableEnd> read_end(const yaml::Mapping& cable, std::string_view key, const std::string& file,
                          const Cluster& cluster) {
  const yaml::Node* node = cable.find(key);
  if (node == nullptr)
    return cable.error("cable: key '" + std::string(key) + "' is missing: a cable to nowhere");
  MILLRACE_ASSIGN(const auto map,
                  yaml::Mapping::of(*node, file, "cable end", {"card", "connector", "address"}));
  CableEnd end;
  MILLRACE_ASSIGN(end.card, map.text("card"));
  const ClusterCard* card = cluster.find_card(end.card);
  if (card == nullptr)
    return map.error("card", "the cluster has no card '" + end.card + "': a cable to nowhere");
  MILLRACE_ASSIGN(const std::uint64_t connector, map.integer("connector"));
  const std::uint32_t connectors = cluster.device_of(*card).connectors;
  if (connector >= connectors)
    return map.error("connector", "card '" + end.card + "' (" + card->device + ") has " +
                                      std::to_string(connectors) +
                                      " connectors, counted from 0; "
                                      "the device has no connector " +
                                      std::to_string(connector));
  end.connector = static_cast<std::uint32_t>(connector);
  MILLRACE_ASSIGN(end.address, map.text("address", ""));
  if (end.address.empty()) return end;
  const auto address = parse_socket_address(end.address);
  if (!address.ok() || address->port == 0)
    return map.error("address",
                     "'" + end.address + "' is not an IPv4 address and a port, such as 10.1.2.3:5000");
  return end;
}

/// Refuses cables that cannot exist between two hosts.
Status check_hosts_of(const yaml::Mapping& map, const Cable& cable, const Cluster& cluster) {
  const auto host_of = [&](const CableEnd& end) {
    return cluster.find_host(cluster.find_card(end.card)->host);
  };
  const ClusterHost *a = host_of(cable.a), *b = host_of(cable.b);
  if (a == b) return {};
  if (a->emulated != b->emulated)
    return map.error("cable: one of the cards '" + cable.a.card + "' and '" + cable.b.card +
                     "' is real, and the other is emulated");
  if (a->emulated)
    return map.error("cable: joins emulated cards of the hosts '" + a->name + "' and '" + b->name +
                     "', but a cable can only join emulated cards of the same host; "
                     "remove the cable, and MPI carries the tensors between these cards");
  return {};
}

/// Reads the latency of a cable or a network, in nanoseconds.
Result<double> read_latency(const yaml::Mapping& map, std::optional<double> otherwise) {
  MILLRACE_ASSIGN(const double value, map.number("latency_ns", otherwise));
  if (value < 0) return map.error("latency_ns", "must not be below 0");
  if (value > kMostLatencyNs) return map.error("latency_ns", "must be at most 1e10, which is 10 s");
  return value;
}

Status read_faults(const yaml::Mapping& cable, const std::string& file, const Cluster& cluster, Cable& out) {
  const yaml::Node* const node = cable.find("faults");
  if (node == nullptr) return {};
  if (!cluster.emulated) return cable.error("faults", "only emulated cables can have faults; remove the key");
  MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(*node, file, "faults",
                                                    {"loss", "duplicate", "reorder", "bit_errors",
                                                     "latency_ns", "gigabits_per_second", "outage"}));
  for (const auto& [key, fault] : kFaults) {
    MILLRACE_ASSIGN(out.faults.*fault, map.number(key, 0.0));
    if (map.find(key) == nullptr) continue;
    if (const std::string why = wrong_fault(key, out.faults.*fault); !why.empty()) return map.error(key, why);
  }
  MILLRACE_ASSIGN(out.faults.outage, map.boolean("outage", false));
  if (out.protocol != CableProtocol::kUdp && !out.faults.is_none())
    return cable.error("faults", "only cables with 'protocol: udp' can have faults");
  return {};
}

Status read_protocol(const yaml::Mapping& map, const std::string& file, const Cluster& cluster, Cable& out) {
  MILLRACE_ASSIGN(const std::string protocol, map.text("protocol", "aurora"));
  if (protocol != "aurora" && protocol != "udp")
    return map.error("protocol", "'" + protocol + "' is not known; it is aurora or udp");
  out.protocol = protocol == "udp" ? CableProtocol::kUdp : CableProtocol::kAurora;
  const bool udp = out.protocol == CableProtocol::kUdp;
  if (!udp && map.find("mtu") != nullptr)
    return map.error("mtu", "only cables with 'protocol: udp' have an mtu");
  MILLRACE_ASSIGN(const std::uint64_t mtu, map.integer("mtu", out.mtu));
  if (mtu < kLeastMtu || mtu > kMostMtu)
    return map.error("mtu", "must be " + std::to_string(kLeastMtu) + " to " + std::to_string(kMostMtu));
  out.mtu = static_cast<std::uint32_t>(mtu);
  for (const auto* end : {&out.a, &out.b}) {
    if (!udp && !end->address.empty())
      return map.error("cable: only cables with 'protocol: udp' have addresses; card '" + end->card +
                       "' has one");
    if (udp && end->address.empty() && !cluster.emulated)
      return map.error("cable: with 'protocol: udp', the end at card '" + end->card +
                       "' needs its 'address', such as 10.1.2.3:5000");
  }
  return read_faults(map, file, cluster, out);
}

Status read_cables(const yaml::Mapping& top, const std::string& file, Cluster& out) {
  MILLRACE_ASSIGN(const auto* cables, top.sequence("cables"));
  std::set<std::pair<std::string, std::uint32_t>> used;
  std::set<std::string> names;
  for (const auto& node : *cables) {
    MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file, "cable",
                                                      {"name", "a", "b", "gigabits_per_second", "latency_ns",
                                                       "protocol", "mtu", "faults"}));
    Cable cable;
    MILLRACE_ASSIGN(cable.a, read_end(map, "a", file, out));
    MILLRACE_ASSIGN(cable.b, read_end(map, "b", file, out));
    if (cable.a.card == cable.b.card) return map.error("cable: both ends are on card '" + cable.a.card + "'");
    MILLRACE_TRY(check_hosts_of(map, cable, out));
    for (const auto& end : {cable.a, cable.b})
      if (!used.emplace(end.card, end.connector).second)
        return map.error("cable: connector " + std::to_string(end.connector) + " of card '" + end.card +
                         "' already has a cable");
    std::string fallback = cable.a.card + "-" + cable.b.card;
    for (int i = 2; names.contains(fallback); ++i)
      fallback = cable.a.card + "-" + cable.b.card + "-" + std::to_string(i);
    MILLRACE_ASSIGN(cable.name, map.text("name", fallback));
    if (cable.name.empty() || !names.insert(cable.name).second)
      return map.error("name", "'" + cable.name + "' is empty or is used twice");
    MILLRACE_ASSIGN(cable.gigabits_per_second, map.number("gigabits_per_second"));
    if (cable.gigabits_per_second <= 0) return map.error("gigabits_per_second", "must be above 0");
    MILLRACE_ASSIGN(cable.latency_ns, read_latency(map, 0.0));
    MILLRACE_TRY(read_protocol(map, file, out, cable));
    limit_rate(cable, out.device_of(*out.find_card(cable.a.card)),
               out.device_of(*out.find_card(cable.b.card)));
    out.cables.push_back(std::move(cable));
  }
  return {};
}

Status read_hosts(const yaml::Mapping& top, const std::string& file, Cluster& out) {
  MILLRACE_ASSIGN(const auto* hosts, top.sequence("hosts"));
  for (const auto& node : *hosts) {
    MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file, "host", {"name", "emulated"}));
    ClusterHost host;
    MILLRACE_ASSIGN(host.name, name_of(map, "name"));
    if (out.find_host(host.name) != nullptr) return map.error("name", "'" + host.name + "' is used twice");
    MILLRACE_ASSIGN(host.emulated, map.boolean("emulated", out.emulated));
    out.hosts.push_back(std::move(host));
  }
  if (!out.hosts.empty())
    out.emulated = std::all_of(out.hosts.begin(), out.hosts.end(), [](const auto& h) { return h.emulated; });
  const yaml::Node* const network = top.find("network");
  if (network == nullptr) {
    if (out.hosts.size() > 1)
      return top.error(
          "cluster: key 'network' is missing; "
          "a cluster of several hosts needs gigabits_per_second and latency_ns of its network; "
          "plans predict transfers over MPI with these two figures");
    return {};
  }
  if (out.hosts.size() < 2)
    return top.error(
        "network",
        "describes a network of hosts, but the cluster lists fewer than two hosts; add hosts under 'hosts'");
  MILLRACE_ASSIGN(const auto map,
                  yaml::Mapping::of(*network, file, "network", {"gigabits_per_second", "latency_ns"}));
  MILLRACE_ASSIGN(out.network.gigabits_per_second, map.number("gigabits_per_second"));
  if (out.network.gigabits_per_second <= 0) return map.error("gigabits_per_second", "must be above 0");
  MILLRACE_ASSIGN(out.network.latency_ns, read_latency(map, std::nullopt));
  return {};
}

/// Reads the host of a card and returns whether the card is emulated.
Result<bool> read_host_of(const yaml::Mapping& map, const Cluster& cluster, ClusterCard& card) {
  if (cluster.hosts.empty()) {
    if (map.find("host") != nullptr)
      return map.error("host", "the cluster lists no hosts; add the host under 'hosts', or remove the key");
    return cluster.emulated;
  }
  std::optional<std::string> only;
  if (cluster.hosts.size() == 1) only = cluster.hosts.front().name;
  MILLRACE_ASSIGN(card.host, map.text("host", only));
  const ClusterHost* const host = cluster.find_host(card.host);
  if (host == nullptr)
    return map.error("host", "the cluster has no host '" + card.host + "'; add it under 'hosts'");
  return host->emulated;
}

Status check_address(const yaml::Mapping& map, const Cluster& cluster, const ClusterCard& card,
                     bool emulated) {
  const bool hosts = !cluster.hosts.empty();
  if (emulated && !card.bdf.empty())
    return map.error("bdf", hosts ? "the cards of host '" + card.host +
                                        "' are emulated and have no PCIe address; "
                                        "a host has only real or only emulated cards, "
                                        "so give real cards a host of their own"
                                  : "an emulated card has no PCIe address; remove the key");
  if (!emulated && card.bdf.empty())
    return map.error("bdf",
                     hosts ? "a real card needs its PCIe address (xbutil examine); if the cards of host '" +
                                 card.host + "' are emulated, set 'emulated: true' for the host"
                           : "a real card needs its PCIe address (xbutil examine); or set 'emulated: true'");
  for (const auto& other : cluster.cards)
    if (!card.bdf.empty() && other.bdf == card.bdf && other.host == card.host)
      return map.error("bdf", "'" + card.bdf + "' is used for two cards");
  return {};
}

Status read_cards(const yaml::Mapping& top, const std::string& file, const std::filesystem::path& devices,
                  Cluster& out) {
  MILLRACE_ASSIGN(const auto* cards, top.sequence("cards"));
  if (cards->empty()) return top.error("cards", "a cluster needs at least one card");
  for (const auto& node : *cards) {
    MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file, "card", {"name", "device", "bdf", "host"}));
    ClusterCard card;
    MILLRACE_ASSIGN(card.name, name_of(map, "name"));
    if (out.find_card(card.name) != nullptr) return map.error("name", "'" + card.name + "' is used twice");
    MILLRACE_ASSIGN(card.device, name_of(map, "device"));
    MILLRACE_ASSIGN(card.bdf, map.text("bdf", ""));
    MILLRACE_ASSIGN(const bool emulated, read_host_of(map, out, card));
    MILLRACE_TRY(check_address(map, out, card, emulated));
    if (!out.devices.contains(card.device)) {
      const auto description = find_device(card.device, devices);
      if (!description.ok()) return map.error("device", description.error().message());
      MILLRACE_ASSIGN(Device device, load_device(*description));
      out.devices.emplace(card.device, std::move(device));
    }
    if (!emulated && out.device_of(card).platform.empty())
      return map.error(
          "device", "'" + card.device +
                        "' has no Vitis platform, so its cards can only be emulated; set 'emulated: true'");
    out.cards.push_back(std::move(card));
  }
  return {};
}

}  // namespace

std::uint32_t Cable::packet_bytes() const {
  if (protocol != CableProtocol::kUdp) return kPacketBytes;
  // Hardware moves 64 bytes in a clock cycle, so a full packet is a whole number of such words.
  constexpr std::uint32_t kWord = 64;
  return (mtu - kIpAndUdpHeaderBytes - kLinkHeaderBytes) / kWord * kWord;
}

double Cable::aurora_gigabits_per_second() const {
  if (protocol == CableProtocol::kAurora) return gigabits_per_second;
  if (protocol == CableProtocol::kMpi)
    return gigabits_per_second * static_cast<double>(packet_bytes_on_wire(kPacketBytes)) / kPacketBytes;
  const auto share = [](std::uint64_t payload, std::uint64_t on_wire) {
    return static_cast<double>(payload) / static_cast<double>(on_wire);
  };
  const std::uint32_t bytes = packet_bytes();
  return gigabits_per_second * share(bytes, frame_bytes_on_udp(bytes, bytes)) /
         share(kPacketBytes, packet_bytes_on_wire(kPacketBytes));
}

const ClusterCard* Cluster::find_card(const std::string& card) const {
  const auto found = std::find_if(cards.begin(), cards.end(), [&](const auto& c) { return c.name == card; });
  return found == cards.end() ? nullptr : &*found;
}

const ClusterHost* Cluster::find_host(const std::string& host) const {
  const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.name == host; });
  return found == hosts.end() ? nullptr : &*found;
}

Cluster join_hosts(Cluster cluster) {
  std::set<std::pair<std::string, std::string>> joined;
  for (const Cable& cable : cluster.cables) joined.insert(std::minmax(cable.a.card, cable.b.card));
  for (auto a = cluster.cards.begin(); a != cluster.cards.end(); ++a)
    for (auto b = std::next(a); b != cluster.cards.end(); ++b) {
      if (a->host == b->host || joined.contains(std::minmax(a->name, b->name))) continue;
      Cable cable;
      cable.name = a->name + "-" + b->name;
      cable.a.card = a->name;
      cable.b.card = b->name;
      cable.gigabits_per_second = cluster.network.gigabits_per_second;
      cable.latency_ns = 2 * cluster.network.latency_ns;
      cable.protocol = CableProtocol::kMpi;
      cluster.cables.push_back(std::move(cable));
    }
  return cluster;
}

Result<Cluster> cluster_of_host(const Cluster& cluster, const std::string& name) {
  if (cluster.hosts.empty()) return cluster;
  const ClusterHost* const host = cluster.find_host(name);
  if (host == nullptr) {
    std::string known;
    for (const auto& other : cluster.hosts) known += (known.empty() ? "" : ", ") + other.name;
    return Error(ErrorCode::kInvalidInput, "cluster '" + cluster.name + "' has no host '" + name +
                                               "'; its hosts are " + known +
                                               ". Give this process the name of its host with --host-name");
  }
  Cluster out;
  out.name = cluster.name;
  out.emulated = host->emulated;
  for (ClusterCard card : cluster.cards) {
    if (card.host != name) continue;
    card.host.clear();
    out.devices.emplace(card.device, cluster.device_of(card));
    out.cards.push_back(std::move(card));
  }
  for (const Cable& cable : cluster.cables)
    if (out.find_card(cable.a.card) != nullptr && out.find_card(cable.b.card) != nullptr)
      out.cables.push_back(cable);
  return out;
}

Result<Device> load_device(const std::filesystem::path& path) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::load(path));
  const std::string file = path.string();
  MILLRACE_ASSIGN(const auto map,
                  yaml::Mapping::of(root, file, "device",
                                    {"schema", "part", "family", "platform", "plan_only", "clock_mhz",
                                     "resources", "regions", "shell", "shell_of_platform", "link", "memory",
                                     "connectors", "transceivers", "sources"}));
  MILLRACE_TRY(check_file_schema(map));
  Device out;
  out.name = path.stem().string();
  if (!is_name(out.name)) return map.error("device: the file's stem '" + out.name + kNameRule);
  MILLRACE_ASSIGN(out.part, map.text("part"));
  if (out.part.empty()) return map.error("part", "is empty; give the vendor's name of the part");
  MILLRACE_ASSIGN(out.family, map.text("family"));
  if (out.family != "xcu" && out.family != "xcup")
    return map.error("family",
                     "'" + out.family + "' is not known; it is xcu or xcup (UltraScale or UltraScale+)");
  MILLRACE_ASSIGN(out.platform, map.text("platform", ""));
  MILLRACE_ASSIGN(out.plan_only, map.text("plan_only", ""));
  MILLRACE_ASSIGN(out.clock_mhz, map.number("clock_mhz"));
  if (out.clock_mhz <= 0 || out.clock_mhz > 2000)
    return map.error("clock_mhz", "must be above 0 and at most 2000");
  MILLRACE_TRY(read_memory(map, file, out));
  MILLRACE_TRY(read_regions(map, file, out));
  MILLRACE_ASSIGN(out.shell, read_resources(map, file, "shell"));
  MILLRACE_ASSIGN(out.shell_of_platform, read_resources(map, file, "shell_of_platform"));
  MILLRACE_TRY(check_shell(map, out));
  MILLRACE_ASSIGN(out.link, read_resources(map, file, "link"));
  MILLRACE_ASSIGN(out.transceivers, read_transceivers(map, file, out.regions));
  MILLRACE_ASSIGN(const std::uint64_t connectors, map.integer("connectors", out.transceivers.quads.size()));
  if (connectors > kMaxConnectors)
    return map.error("connectors", "at most " + std::to_string(kMaxConnectors) + " are allowed");
  if (connectors < out.transceivers.quads.size())
    return map.error("connectors", "fewer than the " + std::to_string(out.transceivers.quads.size()) +
                                       " quads of 'transceivers'; each quad is a connector");
  out.connectors = static_cast<std::uint32_t>(connectors);
  if (const yaml::Node* sources = map.find("sources")) {
    if (sources->kind != yaml::Node::Kind::kMapping)
      return map.error("sources",
                       "a mapping from each figure of the device to the source of the figure is expected");
    for (const auto& [figure, source] : sources->entries) out.sources.emplace(figure, source.scalar);
  }
  return out;
}

Result<Cluster> load_cluster(const std::filesystem::path& path, const std::filesystem::path& devices_dir) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::load(path));
  const std::string file = path.string();
  MILLRACE_ASSIGN(const auto map,
                  yaml::Mapping::of(root, file, "cluster",
                                    {"schema", "name", "emulated", "hosts", "network", "cards", "cables"}));
  MILLRACE_TRY(check_file_schema(map));
  Cluster out;
  MILLRACE_ASSIGN(out.name, name_of(map, "name", path.stem().string()));
  MILLRACE_ASSIGN(out.emulated, map.boolean("emulated", false));
  MILLRACE_TRY(read_hosts(map, file, out));
  const auto beside = std::filesystem::absolute(path).parent_path().parent_path() / "devices";
  MILLRACE_TRY(read_cards(map, file, devices_dir.empty() ? beside : devices_dir, out));
  MILLRACE_TRY(read_cables(map, file, out));
  return out;
}

}  // namespace millrace::runtime::plan
