// What there is to decide when a model is spread over cards: operations and the ways to build them, tensors,
// cards with their regions, cables, and what is wanted, all as plain numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::explore {

/// Kinds of resources. Block memory is counted in halves of 18 Kb, as Yosys places it. The last is no
/// resource of the fabric but weighed like one: bytes a frame from the card's memory.
enum Kind : std::size_t { kLut, kLutram, kFf, kDsp, kBram18, kUram, kMemoryBytes, kKinds };

/// "LUT", "LUTRAM", "FF", "DSP", "BRAM18", "URAM", "memory bandwidth".
const char* kind_name(std::size_t kind);

using Amounts = std::array<std::uint64_t, kKinds>;

Amounts operator+(const Amounts& a, const Amounts& b);
Amounts& operator+=(Amounts& a, const Amounts& b);
Amounts& operator-=(Amounts& a, const Amounts& b);

/// a - b, never below 0.
Amounts less(const Amounts& a, const Amounts& b);

/// Every component of a at most that of b.
bool within(const Amounts& a, const Amounts& b);

/// The fabric's resources of a device file; no memory bytes.
Amounts amounts(const runtime::plan::Resources& resources);
/// Half a BRAM36 counts as a whole one.
runtime::plan::Resources resources(const Amounts& amounts);

/// One way to build an operation. Cycles are those of its card's clock.
struct Implementation {
  std::string name;                   // for people: "folded 4x9, two a DSP, weights in BRAM"
  std::uint64_t interval_cycles = 1;  // from one frame to the next; at least 1
  // Cycles of input, at full speed, that the first output beat needs. At most the interval.
  std::uint64_t fill_cycles = 0;
  std::uint64_t depth_cycles = 0;  // from the input beat that completes an output beat to that beat
  Amounts amounts{};               // [kMemoryBytes]: weights read from memory, bytes a frame
  std::uint32_t candidate = 0;     // the generator's own number for it; not read here
};

/// Whether a is as good as b in everything: cycles, the part of the frame that it needs before its first output,
/// depth and amounts.
bool as_good(const Implementation& a, const Implementation& b);

struct Operation {
  std::string name;
  std::uint64_t cost = 0;     // multiplications and additions a frame; 0 on the host
  bool host = false;          // runs on the host: it cannot run on a card, or was asked to
  bool starts_layer = false;  // a convolution or fully connected block: the model may be cut before it
  std::vector<std::uint32_t> inputs, outputs;  // indices into Problem::tensors
  // Empty on the host only.
  std::vector<Implementation> implementations = {};
  double host_seconds = 0;  // on the host: how long a frame that comes back to the cards waits for it
};

/// The cycles of its quickest implementation.
std::uint64_t least_interval(const Operation& operation);

struct Tensor {
  std::string name;
  std::uint64_t bytes = 0;  // of a frame on a cable: packed, in packets with their headers
};

/// What a partition may take of a region, after the shell and the share that stays free.
/// available[kMemoryBytes]: bytes a second of the card's memory, which all its regions share.
struct Region {
  std::string name;
  Amounts available{};
};

struct Card {
  std::string name, device;
  double clock_hz = 0;
  // In the order in which they are joined. A layer is in one region. Empty if the device is unknown.
  std::vector<Region> regions = {};
  Amounts link{};  // what each cable that is used takes of the first region
};

/// Whether the two have the same clock, budgets and cost of a link.
bool alike(const Card& a, const Card& b);

/// Several cables may join the same two cards. A tensor takes one of them.
struct Cable {
  std::uint32_t a = 0, b = 0;                                         // indices into Problem::cards
  double bytes_per_second = std::numeric_limits<double>::infinity();  // each way
  double latency_seconds = 0;
};

/// What a solution optimises once it meets the targets: the fewest cards, then throughput; throughput, then the
/// fewest cards; latency, then the fewest cards. The host between cards bounds the throughput: see
/// host_seconds().
enum class Objective { kCards, kThroughput, kLatency };

/// "cards", "throughput", "latency".
const char* objective_name(Objective objective);

struct Targets {
  std::optional<double> frames_per_second;    // at least
  std::optional<double> max_latency_seconds;  // at most; card ingress to egress
  Objective objective = Objective::kCards;
};

/// Operations form a DAG: each tensor has at most one producer (none: an input of the model), which comes
/// before its readers.
struct Problem {
  std::string model;
  std::vector<Operation> operations;
  std::vector<Tensor> tensors;
  std::string cluster;
  std::vector<Card> cards;
  std::vector<Cable> cables;
  std::optional<std::uint32_t> partitions;  // asked for: this many cards (of each replica), no more, no fewer
  Targets targets = {};
  std::optional<std::uint32_t> replicas = {};  // asked for: this many copies, each on cards of its own
};

/// The share of each kind of resource, after the shell, that may be used.
using Shares = std::array<double, kKinds>;
inline constexpr Shares kDefaultShares = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8};
inline constexpr Shares kWholeRegion = {1, 1, 1, 1, 1, 1, 1};

/// What partitions may take of each region of a device. The shell is taken from the regions in their order; of
/// what is left, a share may be used. All plans and messages use these budgets.
std::vector<Region> region_budgets(const runtime::plan::Device& device, const Shares& shares);

/// The host gets `host_blocks` (names), the blocks that touch float32, and permutes that only move what the host
/// makes or reads. Operations have no implementations yet. Cards have their region_budgets().
Problem make_problem(const kernels::Program& program, const runtime::plan::Cluster& cluster,
                     std::optional<std::uint32_t> partitions, const Shares& shares = kDefaultShares,
                     const std::vector<std::string>& host_blocks = {});

/// What is wrong with the problem itself, which is our bug: indices, order, producers, cables. Empty: nothing.
std::string check(const Problem& problem);

/// The time that a frame takes of the host between cards. One core serves all replicas, so no more frames pass in
/// a second than it has time for.
double host_seconds(const Problem& problem);

/// For each card, the first card that cables join it with, directly or through other cards.
std::vector<std::uint32_t> joined_groups(const Problem& problem);

/// The cards of the largest group that cables join.
std::size_t most_joined(const Problem& problem);

/// Whether every operation on a card has an implementation, and every card a region and a clock.
bool is_predictable(const Problem& problem);

/// Operations that are never cut apart: one that starts a layer, and those that follow it up to the next. Those
/// before the first layer belong to the first.
struct Layer {
  std::vector<std::uint32_t> operations;  // ascending
  std::uint32_t stage = 0;
  std::uint64_t cost = 0;
};

/// The stage of each operation: how often the frame has changed between host and cards before it. Stages are even
/// on the host and odd on cards. Operations of one stage never wait for those of a later one.
std::vector<std::uint32_t> stages(const Problem& problem);

/// The cards' operations as layers, by stage, then in the problem's order.
std::vector<Layer> layers(const Problem& problem);

}  // namespace millrace::compiler::explore
