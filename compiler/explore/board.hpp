// Class Board keeps facts about a problem that the search needs often: its layers, the tensors between them,
// and the cables between cards. It also turns an assignment (the card, region and implementation of each
// operation) into a solution. Private to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/explore/analysis.hpp"

namespace millrace::compiler::explore {

/// A tensor that goes from one layer to later layers.
struct Edge {
  std::uint32_t tensor = 0;
  std::size_t from = 0;
  std::vector<std::size_t> readers;  // the layers that read the tensor, in ascending order without duplicates
  std::size_t last() const { return readers.back(); }
};

/// The layers in their order, with the tensors that pass between them.
struct Chain {
  std::vector<Layer> layers;
  std::vector<std::size_t> layer_of;  // operation -> layer; layers.size() on the host
  std::vector<Edge> edges;
  std::vector<std::uint64_t> live_bytes;  // [i]: bytes of the tensors that cross a cut before layer i

  std::size_t size() const { return layers.size(); }
};

Chain make_chain(const Problem& problem);

/// Whether each layer reads the layer before it. If so, consecutive partitions of the model need cards joined by
/// cables.
bool reads_the_one_before(const Chain& chain);

/// Returns a tensor that one stage makes and a later stage on the same card reads, or null if there is none. (A stage
/// is a run of operations between two changes from cards to host or back.) Such a tensor would have to leave the card
/// and come back.
const Edge* returning(const Chain& chain, const std::vector<std::uint32_t>& place_of_layer);

/// Makes a solution with its parts (the operations of one stage on one card, or on the host), ordered by stage (how
/// often the frame has moved between host and cards) and then by position, and the bytes that cross the cuts between
/// its partitions.
Solution make_parts(const Problem& problem, const Chain& chain,
                    const std::vector<std::uint32_t>& place_of_layer, std::vector<std::uint32_t> card);

/// Returns the error with which solve() refuses these targets, or OK.
Status check_targets(const Targets& targets);

/// Checks the numbers of layers and partitions. Returns solve()'s error if no card has work, if there are more
/// partitions than layers, or if there are more partitions than cards.
Status check_layers(const Problem& problem, std::size_t layers);

/// The cables between two cards. All are assumed to be as fast as the slowest of them.
struct Wire {
  std::uint32_t cables = 0;
  double bytes_per_second = 0;  // bandwidth of all cables together, in each direction
  double latency_seconds = 0;   // latency of the slowest cable
  bool through_hosts = false;   // whether whole tensors pass through the hosts' memory

  double of_one() const { return bytes_per_second / cables; }
  bool operator==(const Wire&) const = default;
};

/// Distributes tensors over the cables between two cards. Each tensor goes to the cable that has the fewest bytes so
/// far, as in the finished pipeline.
class Loads {
 public:
  explicit Loads(std::uint32_t cables) : bytes_(cables, 0) {}
  void add(std::uint64_t bytes) { *std::min_element(bytes_.begin(), bytes_.end()) += bytes; }
  std::uint64_t all() const { return std::accumulate(bytes_.begin(), bytes_.end(), std::uint64_t{0}); }
  /// The bytes on the fullest cable.
  std::uint64_t most() const { return *std::max_element(bytes_.begin(), bytes_.end()); }

 private:
  std::vector<std::uint64_t> bytes_;
};

struct Assignment {
  std::vector<std::uint32_t> card;            // position in the pipeline -> card
  std::vector<std::uint32_t> place, region;   // layer -> position; layer -> region
  std::vector<std::uint32_t> implementation;  // operation -> implementation
};

/// The resources of cards and the bytes on cables that an assignment uses.
struct Usage {
  std::vector<std::vector<Amounts>> blocks;  // [position][region]: resources that operations use
  std::vector<Amounts> links;                // [position]: resources that cables use in the first region
  std::map<std::pair<std::uint32_t, std::uint32_t>, Loads> loads;  // the key is (from, to), two positions
};

class Board {
 public:
  explicit Board(const Problem& problem);

  const Problem& problem;
  Chain chain;

  const Wire& wire(std::uint32_t a, std::uint32_t b) const { return wires_[a * problem.cards.size() + b]; }

  /// Returns the routes of all tensors between cards: direct if a cable exists, otherwise through the fewest cards of
  /// the pipeline. If a tensor has no route, returns nothing and stores this tensor's index in `tensor`.
  std::optional<std::vector<Hop>> route(const Assignment& assignment, std::uint32_t* tensor = nullptr) const;

  /// Returns the assignment as a solution with partitions, routes, interval and latency. Returns nothing if the
  /// assignment exceeds a budget or a tensor has no route. Does not check targets.
  std::optional<Solution> assess(const Assignment& assignment) const;

  Assignment assignment(const Solution& solution) const;

  Usage usage(const Assignment& assignment, const std::vector<Hop>& hops) const;

 private:
  bool within_budgets(const Assignment& assignment, const Usage& usage) const;
  double interval(const Assignment& assignment, const Usage& usage) const;

  std::vector<Wire> wires_;
};

/// When a tensor's first and last data words leave a block or cable, in seconds after the frame enters the first card.
struct Passage {
  double first = 0, last = 0;
};

/// Returns the times at which an operation's output leaves, if its inputs' first words arrive at `start` and
/// their last at `arrive`.
Passage pass(const Implementation& way, double clock_hz, double start, double arrive);

/// Returns the times at which a tensor, sent in packets, leaves a cable. `from` says when the tensor left the
/// operation that made it.
Passage carry(const Wire& wire, std::uint64_t bytes, const Passage& from);

/// Returns an assignment's latency in seconds. If `works` is given, adds the times of each card operation to it.
double latency(const Board& board, const Assignment& assignment, const std::vector<Hop>& hops,
               std::vector<Work>* works = nullptr);

}  // namespace millrace::compiler::explore
