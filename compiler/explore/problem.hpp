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

/// One way to build an operation. Cycles are those of the card it stands on.
struct Implementation {
  std::string name;                   // for people: "folded 4x9, two a DSP, weights in BRAM"
  std::uint64_t interval_cycles = 1;  // from one frame to the next; at least 1
  // Cycles of input, at full speed, that the first output beat needs; at most the interval.
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
  bool host = false;          // cannot, or should not, run on a card
  bool starts_layer = false;  // a convolution or fully connected block: a cut may stand before it
  std::vector<std::uint32_t> inputs, outputs;  // indices into Problem::tensors
  // Empty on the host only.
  std::vector<Implementation> implementations = {};
  double host_seconds = 0;  // on the host: what a frame that comes back to the cards waits for it
};

/// The cycles of its quickest implementation.
std::uint64_t least_interval(const Operation& operation);

struct Tensor {
  std::string name;
  std::uint64_t bytes = 0;  // of a frame on a cable: packed, in packets with their headers
};

/// What a partition may take of a region: the shell is deducted, the share that stays free is too.
/// available[kMemoryBytes]: bytes a second, of the card, whose regions have it together; in all the same.
struct Region {
  std::string name;
  Amounts available{};
};

struct Card {
  std::string name, device;
  double clock_hz = 0;
  // In the order in which they are joined; a layer stands in one. Empty where nothing is known of the device.
  std::vector<Region> regions = {};
  Amounts link{};  // what each cable that is used takes of the first region
};

/// Of several between the same cards a tensor takes one.
struct Cable {
  std::uint32_t a = 0, b = 0;                                         // indices into Problem::cards
  double bytes_per_second = std::numeric_limits<double>::infinity();  // each way
  double latency_seconds = 0;
};

/// What is left when the targets are met goes to: fewer cards and then throughput; throughput and then fewer
/// cards; latency and then fewer cards. No throughput is above what the host between cards allows: see
/// host_seconds().
enum class Objective { kCards, kThroughput, kLatency };

/// "cards", "throughput", "latency".
const char* objective_name(Objective objective);

struct Targets {
  std::optional<double> frames_per_second;    // at least
  std::optional<double> max_latency_seconds;  // at most; card ingress to egress
  Objective objective = Objective::kCards;
};

/// Operations form a DAG: each tensor has at most one producer (none: an input of the model), which stands
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

/// What partitions may take of each region of a device: all plans and messages have it from here. The shell
/// is taken from the regions in their order, then the share from what is left.
std::vector<Region> region_budgets(const runtime::plan::Device& device, const Shares& shares);

/// Blocks that touch float32 go to the host, and with them permutes that only move what the host makes or
/// reads: the model's own layout is the host's business; and so do `host_blocks`, by name. Operations have no
/// implementations yet. Cards have their region_budgets().
Problem make_problem(const kernels::Program& program, const runtime::plan::Cluster& cluster,
                     std::optional<std::uint32_t> partitions, const Shares& shares = kDefaultShares,
                     const std::vector<std::string>& host_blocks = {});

/// What is wrong with a problem as such (our bug): indices, order, producers. Empty where nothing is.
std::string check(const Problem& problem);

/// What a frame takes of the one core that does what stands between cards, of all replicas' frames: no more
/// of them pass in a second than it has time for.
double host_seconds(const Problem& problem);

/// Whether every operation that is not the host's has an implementation, and every card a region and a clock.
bool is_predictable(const Problem& problem);

/// A run of operations that is not cut: one that starts a layer, with what follows it up to the next. What
/// stands before the first belongs to the first.
struct Layer {
  std::vector<std::uint32_t> operations;  // ascending
  std::uint32_t stage = 0;
  std::uint64_t cost = 0;
};

/// How often the frame has changed between host and cards when it reaches an operation: even on the host, odd
/// on cards. Operations of one stage never wait for a later one.
std::vector<std::uint32_t> stages(const Problem& problem);

/// The cards' operations as layers, by stage, then in the problem's order.
std::vector<Layer> layers(const Problem& problem);

}  // namespace millrace::compiler::explore
