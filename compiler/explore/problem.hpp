// The problem of distributing a model over cards: operations with their possible implementations, tensors, cards
// with their regions, cables, and the user's targets, all as plain numbers.
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

/// Kinds of resources. Block memory is counted in halves of 18 Kb, as Yosys does. The last kind is not a resource of
/// the FPGA but is treated like a resource: the bytes that the card reads from its memory for each frame.
enum Kind : std::size_t { kLut, kLutram, kFf, kDsp, kBram18, kUram, kMemoryBytes, kKinds };

/// Returns "LUT", "LUTRAM", "FF", "DSP", "BRAM18", "URAM" or "memory bandwidth".
const char* kind_name(std::size_t kind);

using Amounts = std::array<std::uint64_t, kKinds>;

Amounts operator+(const Amounts& a, const Amounts& b);
Amounts& operator+=(Amounts& a, const Amounts& b);
Amounts& operator-=(Amounts& a, const Amounts& b);

/// Returns a - b, where a negative component becomes 0.
Amounts less(const Amounts& a, const Amounts& b);

/// Whether every component of a is at most the same component of b.
bool within(const Amounts& a, const Amounts& b);

/// Converts the resources in a device file into amounts. Sets the amount kMemoryBytes to 0.
Amounts amounts(const runtime::plan::Resources& resources);
/// Converts amounts into resources of a device file. Half a BRAM36 counts as a whole BRAM36.
runtime::plan::Resources resources(const Amounts& amounts);

/// One possible implementation of an operation. Its cycles are cycles of the card's clock.
struct Implementation {
  std::string name;                   // for messages: "folded 4x9, two a DSP, weights in BRAM"
  std::uint64_t interval_cycles = 1;  // cycles between the starts of two frames; at least 1
  // Cycles for which input must arrive at full speed before the first output word leaves. At most interval_cycles.
  std::uint64_t fill_cycles = 0;
  // Cycles from the input word that completes an output word until this output word leaves.
  std::uint64_t depth_cycles = 0;
  Amounts amounts{};            // entry kMemoryBytes: bytes of weights read from memory for each frame
  std::uint32_t candidate = 0;  // the generator's number for this implementation; not used in this folder
};

/// Whether implementation a is at least as good as b in every respect: interval, depth, resources, and the fraction of
/// the frame that must arrive before the first output.
bool as_good(const Implementation& a, const Implementation& b);

struct Operation {
  std::string name;
  std::uint64_t cost = 0;  // multiplications and additions for each frame; 0 on the host
  bool host = false;       // runs on the host, because no card can run it or because the user asked for that
  bool starts_layer = false;  // a convolution or fully connected block: the model may be cut before it
  std::vector<std::uint32_t> inputs, outputs;  // indices into Problem::tensors
  // The possible implementations. Empty only if the operation runs on the host.
  std::vector<Implementation> implementations = {};
  double host_seconds = 0;  // delay of each frame that returns from the host to a card; 0 on cards
};

/// Returns the interval, in cycles, of the operation's quickest implementation.
std::uint64_t least_interval(const Operation& operation);

struct Tensor {
  std::string name;
  std::uint64_t bytes = 0;  // bytes of one frame's packets on a cable, with headers
};

/// The resources of a region that a partition may use, without the shell and without the share that stays free.
/// available[kMemoryBytes] is in bytes a second of the card's memory, which all regions of the card share.
struct Region {
  std::string name;
  Amounts available{};
};

struct Card {
  std::string name, device;
  double clock_hz = 0;
  // The card's regions, in the order in which they are connected. Empty if the device is unknown.
  std::vector<Region> regions = {};
  Amounts link{};  // resources that each used cable needs in the first region
};

/// Whether two cards have the same clock, budgets and cost of a link.
bool alike(const Card& a, const Card& b);

/// A cable between two cards. Several cables may join the same two cards; each tensor uses one of them.
struct Cable {
  std::uint32_t a = 0, b = 0;                                         // indices into Problem::cards
  double bytes_per_second = std::numeric_limits<double>::infinity();  // bandwidth in each direction
  double latency_seconds = 0;
  bool through_hosts =
      false;  // not a cable: whole tensors pass through the hosts' memory, and cards need no link
};

/// What a solution optimises once it meets the targets. kCards: the fewest cards, then throughput.
/// kThroughput: throughput, then the fewest cards. kLatency: latency, then the fewest cards. Work that the
/// host does between cards bounds the throughput: see host_seconds().
enum class Objective { kCards, kThroughput, kLatency };

/// Returns the name of an objective: "cards", "throughput" or "latency".
const char* objective_name(Objective objective);

struct Targets {
  std::optional<double> frames_per_second;    // the lowest rate that the user accepts
  std::optional<double> max_latency_seconds;  // the highest latency from the first card to the last
  Objective objective = Objective::kCards;
};

/// A model, a cluster and targets. Operations form a DAG: each tensor has at most one producer, which comes
/// before its readers. A tensor without a producer is an input of the model.
struct Problem {
  std::string model;
  std::vector<Operation> operations;
  std::vector<Tensor> tensors;
  std::string cluster;
  std::vector<Card> cards;
  std::vector<Cable> cables;
  std::optional<std::uint32_t> partitions;  // if set: exactly this many cards for each replica
  Targets targets = {};
  std::optional<std::uint32_t> replicas = {};  // if set: this many copies, each on its own cards
};

/// The fraction of each kind of resource that partitions may use. The shell's resources are subtracted first.
using Shares = std::array<double, kKinds>;
inline constexpr Shares kDefaultShares = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8};
inline constexpr Shares kWholeRegion = {1, 1, 1, 1, 1, 1, 1};

/// Returns the resources that partitions may use in each region of a device. The shell's resources are subtracted
/// from the regions in their order. Partitions may use the fraction `shares` of the rest. All plans use these budgets.
std::vector<Region> region_budgets(const runtime::plan::Device& device, const Shares& shares);

/// Makes the problem for a program and a cluster. The host runs `host_blocks` (names), the blocks that touch
/// float32, and rearrangements whose data only the host makes or reads. Operations have no implementations yet.
/// Cards have the regions of region_budgets().
Problem make_problem(const kernels::Program& program, const runtime::plan::Cluster& cluster,
                     std::optional<std::uint32_t> partitions, const Shares& shares = kDefaultShares,
                     const std::vector<std::string>& host_blocks = {});

/// Checks the problem's indices, order, producers and cables. Returns what is wrong (a bug of the compiler), or
/// nothing.
std::string check(const Problem& problem);

/// Returns how long the host works on each frame between cards. One core of the host serves all replicas, so this time
/// limits the frame rate.
double host_seconds(const Problem& problem);

/// For each card, returns the first card that it can reach through cables, directly or through other cards.
std::vector<std::uint32_t> joined_groups(const Problem& problem);

/// Returns the number of cards in the largest group that cables join.
std::size_t most_joined(const Problem& problem);

/// Whether every operation on a card has an implementation, and every card a region and a clock.
bool is_predictable(const Problem& problem);

/// A group of operations that always share a card: an operation that starts a layer, and all operations after it until
/// the next layer starts. Operations before the first layer belong to the first layer.
struct Layer {
  std::vector<std::uint32_t> operations;  // indices of the layer's operations, ascending
  std::uint32_t stage = 0;
  std::uint64_t cost = 0;
};

/// Returns the stage of each operation: how often the frame moved between host and cards before the operation. Stages
/// are even on the host and odd on cards. An operation never waits for an operation of a later stage.
std::vector<std::uint32_t> stages(const Problem& problem);

/// Groups the cards' operations into layers. Layers are sorted by stage (how often the frame has moved between host and
/// cards), then by their order in the problem.
std::vector<Layer> layers(const Problem& problem);

}  // namespace millrace::compiler::explore
