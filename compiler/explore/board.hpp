// A problem with facts that the search needs often: its layers, the tensors between them, and the cables between two
// cards. Also turns an assignment (the card, region and implementation of each operation) into a solution. Private to
// this folder.
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

/// A tensor that goes from one layer to later ones.
struct Edge {
  std::uint32_t tensor = 0;
  std::size_t from = 0;
  std::vector<std::size_t> readers;  // layers, ascending, each once
  std::size_t last() const { return readers.back(); }
};

/// The layers in their order, with the tensors that pass between them.
struct Chain {
  std::vector<Layer> layers;
  std::vector<std::size_t> layer_of;  // operation -> layer; layers.size() on the host
  std::vector<Edge> edges;
  std::vector<std::uint64_t> live_bytes;  // of tensors that cross a cut before layer i

  std::size_t size() const { return layers.size(); }
};

Chain make_chain(const Problem& problem);

/// Whether each layer of a stage reads the one before it: pieces in a row then need cards joined in a row.
bool reads_the_one_before(const Chain& chain);

/// A tensor of an earlier stage that a later stage at the same place reads: it would have to leave the card and come
/// back. Null if there is none.
const Edge* returning(const Chain& chain, const std::vector<std::uint32_t>& place_of_layer);

/// Parts by stage, then place, and the bytes that cross the cuts.
Solution make_parts(const Problem& problem, const Chain& chain,
                    const std::vector<std::uint32_t>& place_of_layer, std::vector<std::uint32_t> card);

/// What solve() refuses of targets.
Status check_targets(const Targets& targets);

/// What solve() refuses of a number of layers and of partitions: nothing for a card to do, more pieces than
/// layers or cards.
Status check_layers(const Problem& problem, std::size_t layers);

/// The cables between two cards, all taken as fast as the slowest of them.
struct Wire {
  std::uint32_t cables = 0;
  double bytes_per_second = 0;  // each way, of all together
  double latency_seconds = 0;   // of the slowest

  double of_one() const { return bytes_per_second / cables; }
  bool operator==(const Wire&) const = default;
};

/// Deals tensors out to the cables between two cards as the pipeline does: each to the cable that carries least
/// so far.
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
  std::vector<std::uint32_t> card;            // place -> card
  std::vector<std::uint32_t> place, region;   // of a layer
  std::vector<std::uint32_t> implementation;  // of an operation
};

/// What an assignment takes of its cards and cables.
struct Usage {
  std::vector<std::vector<Amounts>> blocks;                        // of each region of a place, by operations
  std::vector<Amounts> links;                                      // of a place's first region, by cables
  std::map<std::pair<std::uint32_t, std::uint32_t>, Loads> loads;  // from a place to a place
};

class Board {
 public:
  explicit Board(const Problem& problem);

  const Problem& problem;
  Chain chain;

  const Wire& wire(std::uint32_t a, std::uint32_t b) const { return wires_[a * problem.cards.size() + b]; }

  /// Routes of all tensors between places: direct if there is a cable, else through the fewest places in
  /// between. Nothing if a tensor has no route; `tensor` is then that one.
  std::optional<std::vector<Hop>> route(const Assignment& assignment, std::uint32_t* tensor = nullptr) const;

  /// Parts, routes, interval and latency. Nothing if the assignment breaks a budget or a tensor has no route.
  /// Targets are not checked.
  std::optional<Solution> assess(const Assignment& assignment) const;

  Assignment assignment(const Solution& solution) const;

  Usage usage(const Assignment& assignment, const std::vector<Hop>& hops) const;

 private:
  bool within_budgets(const Assignment& assignment, const Usage& usage) const;
  double interval(const Assignment& assignment, const Usage& usage) const;

  std::vector<Wire> wires_;
};

/// When the first and the last beat leave an operation, in seconds from the first beat into the first card.
struct Passage {
  double first = 0, last = 0;
};

/// The passage through one operation. At `start` the first beat of every input is there, at `arrive` the last.
Passage pass(const Implementation& way, double clock_hz, double start, double arrive);

/// The passage of a tensor over a wire, in packets.
Passage carry(const Wire& wire, std::uint64_t bytes, const Passage& from);

/// The latency of an assignment with these hops. `works` gets the times of each operation on a card.
double latency(const Board& board, const Assignment& assignment, const std::vector<Hop>& hops,
               std::vector<Work>* works = nullptr);

}  // namespace millrace::compiler::explore
