#include "compiler/explore/problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/program/packing.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::explore {
namespace {

namespace k = kernels;
constexpr std::uint32_t kNone = 0xFFFFFFFFU;
constexpr std::uint64_t kHbmChannels = 32;  // pseudo-channels of the banks named "HBM": AMD PG276

/// Returns the number of multiplications of a block. For a block without multiplications, such as a pool, returns its
/// additions and comparisons, so that it is not free.
std::uint64_t cost_of(const k::Program& program, const k::Block& block) {
  const std::uint64_t multiplications = k::multiply_accumulates(program, block);
  if (multiplications != 0) return multiplications;
  std::uint64_t outputs = 0;
  for (const auto index : block.outputs) outputs += program.tensors[index].elements();
  const k::Window* window = nullptr;
  if (const auto* pool = std::get_if<k::MaxPool>(&block.operation)) window = &pool->window;
  if (const auto* pool = std::get_if<k::SumPool>(&block.operation)) window = &pool->window;
  return window == nullptr ? outputs : outputs * window->kernel_h * window->kernel_w;
}

struct Graph {
  std::vector<std::uint32_t> producer;              // [tensor]: the operation that makes it, kNone for inputs
  std::vector<std::vector<std::uint32_t>> readers;  // [tensor]: the operations that read it
};

Graph graph_of(const Problem& problem) {
  Graph graph;
  graph.producer.assign(problem.tensors.size(), kNone);
  graph.readers.resize(problem.tensors.size());
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i) {
    for (const auto t : problem.operations[i].outputs) graph.producer[t] = i;
    for (const auto t : problem.operations[i].inputs) graph.readers[t].push_back(i);
  }
  return graph;
}

/// Moves rearrangements to the host if only the host reads their results, or if the host already has all their inputs.
void extend_host(const k::Program& program, Problem& problem) {
  const Graph graph = graph_of(problem);
  auto& operations = problem.operations;
  const auto from_host = [&](std::uint32_t t) {
    return graph.producer[t] == kNone || operations[graph.producer[t]].host;
  };
  const auto to_host = [&](std::uint32_t t) {
    return std::all_of(graph.readers[t].begin(), graph.readers[t].end(),
                       [&](auto reader) { return operations[reader].host; });
  };
  const auto move = [&](std::size_t i, const std::vector<std::uint32_t>& tensors, const auto& is_host) {
    if (std::holds_alternative<k::Rearrange>(program.blocks[i].operation) && !operations[i].host)
      operations[i].host = std::all_of(tensors.begin(), tensors.end(), is_host);
  };
  for (std::size_t i = 0; i < operations.size(); ++i) move(i, operations[i].inputs, from_host);
  for (std::size_t i = operations.size(); i-- > 0;) move(i, operations[i].outputs, to_host);
}

/// Returns the bandwidth at which a card reads its weights. All weights are in one buffer, in the memory bank that
/// emit/vitis connects: the first bank that the first region reaches or, if this bank is HBM, one pseudo channel of it.
std::uint64_t bandwidth(const runtime::plan::Device& device) {
  if (device.memory.empty()) return 0;
  std::string name = device.memory.front().name;
  if (!device.regions.empty() && !device.regions.front().memory.empty())
    name = device.regions.front().memory.front();
  for (const auto& bank : device.memory)
    if (bank.name == name) return bank.bandwidth_bytes_per_second / (name == "HBM" ? kHbmChannels : 1);
  return 0;
}

Card card_of(const runtime::plan::ClusterCard& from, const runtime::plan::Cluster& cluster,
             const Shares& shares) {
  Card card{from.name, from.device};
  const auto device = cluster.devices.find(from.device);
  if (device == cluster.devices.end()) return card;
  card.clock_hz = device->second.clock_mhz * 1e6;
  card.regions = region_budgets(device->second, shares);
  card.link = amounts(device->second.link);
  return card;
}

}  // namespace

const char* kind_name(std::size_t kind) {
  static constexpr const char* kNames[kKinds] = {"LUT",  "LUTRAM",          "FF", "DSP", "BRAM18",
                                                 "URAM", "memory bandwidth"};
  return kind < kKinds ? kNames[kind] : "?";
}

Amounts operator+(const Amounts& a, const Amounts& b) {
  Amounts sum = a;
  return sum += b;
}

Amounts& operator+=(Amounts& a, const Amounts& b) {
  for (std::size_t k = 0; k < kKinds; ++k) a[k] += b[k];
  return a;
}

Amounts& operator-=(Amounts& a, const Amounts& b) {
  for (std::size_t k = 0; k < kKinds; ++k) a[k] -= b[k];
  return a;
}

Amounts less(const Amounts& a, const Amounts& b) {
  Amounts out{};
  for (std::size_t k = 0; k < kKinds; ++k) out[k] = a[k] - std::min(a[k], b[k]);
  return out;
}

bool within(const Amounts& a, const Amounts& b) {
  for (std::size_t k = 0; k < kKinds; ++k)
    if (a[k] > b[k]) return false;
  return true;
}

Amounts amounts(const runtime::plan::Resources& r) {
  return {r.lut, r.lutram, r.ff, r.dsp, 2 * r.bram36, r.uram, 0};
}

runtime::plan::Resources resources(const Amounts& a) {
  return {a[kLut], a[kLutram], a[kFf], a[kDsp], (a[kBram18] + 1) / 2, a[kUram]};
}

bool as_good(const Implementation& a, const Implementation& b) {
  return a.interval_cycles <= b.interval_cycles &&
         a.fill_cycles * b.interval_cycles <= b.fill_cycles * a.interval_cycles &&
         a.depth_cycles <= b.depth_cycles && within(a.amounts, b.amounts);
}

bool alike(const Card& a, const Card& b) {
  return a.clock_hz == b.clock_hz && a.link == b.link &&
         std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                    [](const Region& x, const Region& y) { return x.available == y.available; });
}

std::uint64_t least_interval(const Operation& operation) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& way : operation.implementations) least = std::min(least, way.interval_cycles);
  return least;
}

const char* objective_name(Objective objective) {
  return objective == Objective::kCards     ? "cards"
         : objective == Objective::kLatency ? "latency"
                                            : "throughput";
}

std::vector<Region> region_budgets(const runtime::plan::Device& device, const Shares& shares) {
  std::vector<Region> regions;
  Amounts shell = amounts(device.shell);
  for (const auto& from : device.regions) {
    Region region{from.name, amounts(from.resources)};
    const Amounts rest = less(shell, region.available);
    region.available = less(region.available, shell);
    shell = rest;
    region.available[kMemoryBytes] = bandwidth(device);
    for (std::size_t k = 0; k < kKinds; ++k)
      region.available[k] =
          static_cast<std::uint64_t>(std::floor(static_cast<double>(region.available[k]) * shares[k]));
    regions.push_back(std::move(region));
  }
  return regions;
}

Problem make_problem(const k::Program& program, const runtime::plan::Cluster& cluster,
                     std::optional<std::uint32_t> partitions, const Shares& shares,
                     const std::vector<std::string>& host_blocks) {
  Problem problem;
  problem.model = program.name;
  problem.cluster = cluster.name;
  problem.partitions = partitions;
  for (const auto& tensor : program.tensors)
    problem.tensors.push_back(
        {tensor.name, runtime::plan::frame_bytes_on_wire(k::packed_bytes(tensor.type, tensor.elements()))});
  for (const auto& block : program.blocks) {
    Operation operation;
    operation.name = block.name;
    operation.host = k::is_host_only(program, block) ||
                     std::find(host_blocks.begin(), host_blocks.end(), block.name) != host_blocks.end();
    operation.starts_layer = std::holds_alternative<k::Convolution>(block.operation);
    operation.inputs = block.inputs;
    operation.outputs = block.outputs;
    problem.operations.push_back(std::move(operation));
  }
  extend_host(program, problem);
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    if (!problem.operations[i].host) problem.operations[i].cost = cost_of(program, program.blocks[i]);

  const auto position = [&](const std::string& name) {
    return static_cast<std::uint32_t>(cluster.find_card(name) - cluster.cards.data());
  };
  for (const auto& card : cluster.cards) problem.cards.push_back(card_of(card, cluster, shares));
  for (const auto& cable : cluster.cables)
    problem.cables.push_back({position(cable.a.card), position(cable.b.card),
                              cable.aurora_gigabits_per_second() * 1e9 / 8, cable.latency_ns * 1e-9,
                              cable.protocol == runtime::plan::CableProtocol::kMpi});
  return problem;
}

std::string check(const Problem& problem) {
  std::vector<bool> made(problem.tensors.size(), false), produced(problem.tensors.size(), false);
  for (const auto& operation : problem.operations)
    for (const auto t : operation.outputs) {
      if (t >= problem.tensors.size())
        return "operation '" + operation.name + "' makes a tensor that does not exist";
      if (produced[t]) return "tensor '" + problem.tensors[t].name + "' has two producers";
      produced[t] = true;
    }
  for (const auto& operation : problem.operations) {
    for (const auto t : operation.inputs) {
      if (t >= problem.tensors.size())
        return "operation '" + operation.name + "' reads a tensor that does not exist";
      if (produced[t] && !made[t])
        return "operation '" + operation.name + "' reads '" + problem.tensors[t].name +
               "' before the tensor is computed";
    }
    for (const auto t : operation.outputs) made[t] = true;
  }
  for (const auto& cable : problem.cables)
    if (cable.a >= problem.cards.size() || cable.b >= problem.cards.size() || cable.a == cable.b)
      return "a cable does not join two cards";
    else if (!(cable.bytes_per_second > 0) || !(cable.latency_seconds >= 0))
      return "the cable between '" + problem.cards[cable.a].name + "' and '" + problem.cards[cable.b].name +
             "' must have a bandwidth above 0 and a latency of at least 0";
  for (const auto& operation : problem.operations)
    for (const auto& way : operation.implementations)
      if (way.interval_cycles == 0 || way.fill_cycles > way.interval_cycles)
        return "an implementation of '" + operation.name +
               "' has an interval of 0 cycles, or a fill time longer than its interval";
  return {};
}

double host_seconds(const Problem& problem) {
  double sum = 0;
  for (const auto& operation : problem.operations) sum += operation.host ? operation.host_seconds : 0;
  return sum;
}

std::vector<std::uint32_t> joined_groups(const Problem& problem) {
  std::vector<std::uint32_t> group(problem.cards.size());
  std::iota(group.begin(), group.end(), 0U);
  for (const auto& cable : problem.cables) {
    const std::uint32_t a = group[cable.a], b = group[cable.b];
    std::replace(group.begin(), group.end(), std::max(a, b), std::min(a, b));
  }
  return group;
}

std::size_t most_joined(const Problem& problem) {
  const auto group = joined_groups(problem);
  std::ptrdiff_t most = 0;
  for (const auto one : group) most = std::max(most, std::count(group.begin(), group.end(), one));
  return static_cast<std::size_t>(most);
}

bool is_predictable(const Problem& problem) {
  return std::all_of(problem.operations.begin(), problem.operations.end(),
                     [](const auto& o) { return o.host || !o.implementations.empty(); }) &&
         std::all_of(problem.cards.begin(), problem.cards.end(),
                     [](const auto& c) { return !c.regions.empty() && c.clock_hz > 0; });
}

std::vector<std::uint32_t> stages(const Problem& problem) {
  const Graph graph = graph_of(problem);
  std::vector<std::uint32_t> stage(problem.operations.size());
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const bool host = problem.operations[i].host;
    stage[i] = host ? 0 : 1;
    for (const auto t : problem.operations[i].inputs) {
      const std::uint32_t from = graph.producer[t];
      if (from == kNone) continue;
      stage[i] = std::max(stage[i], stage[from] + (problem.operations[from].host == host ? 0 : 1));
    }
  }
  return stage;
}

std::vector<Layer> layers(const Problem& problem) {
  const auto stage = stages(problem);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i)
    if (!problem.operations[i].host) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return stage[a] < stage[b]; });

  std::vector<Layer> found;
  bool started = false;  // whether the current layer already has the operation that starts a layer
  for (const auto i : order) {
    const bool starts = problem.operations[i].starts_layer;
    if (found.empty() || found.back().stage != stage[i] || (starts && started)) {
      found.push_back({{}, stage[i], 0});
      started = false;
    }
    started = started || starts;
    found.back().operations.push_back(i);
    found.back().cost += problem.operations[i].cost;
  }
  return found;
}

}  // namespace millrace::compiler::explore
