// From an assignment (who stands where, built how) to a solution with its routes, interval and latency.
// Private to this folder.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/chain.hpp"

namespace millrace::compiler::explore {

/// The cables between two cards, all as quick as the slowest of them.
struct Wire {
  std::uint32_t cables = 0;
  double bytes_per_second = 0;  // each way, of all together
  double latency_seconds = 0;   // of the slowest

  double of_one() const { return bytes_per_second / cables; }
};

/// Puts tensors of so many bytes onto cables one after another, as the pipeline does: each onto the one that
/// carries least so far. Gives the bytes of the fullest.
class Loads {
 public:
  explicit Loads(std::uint32_t cables) : bytes_(cables, 0) {}
  void add(std::uint64_t bytes) { *std::min_element(bytes_.begin(), bytes_.end()) += bytes; }
  std::uint64_t most() const { return *std::max_element(bytes_.begin(), bytes_.end()); }

 private:
  std::vector<std::uint64_t> bytes_;
};

struct Assignment {
  std::vector<std::uint32_t> card;            // place -> card
  std::vector<std::uint32_t> place, region;   // of a layer
  std::vector<std::uint32_t> implementation;  // of an operation
};

/// A problem with what is asked of it again and again.
class Board {
 public:
  explicit Board(const Problem& problem);

  const Problem& problem;
  Chain chain;

  const Wire& wire(std::uint32_t a, std::uint32_t b) const { return wires_[a * problem.cards.size() + b]; }

  /// Ways of all tensors between places: directly where there is a cable, else through the fewest places in
  /// between. Nothing where there is no way; `tensor` is then the one that has none.
  std::optional<std::vector<Hop>> route(const Assignment& assignment, std::uint32_t* tensor = nullptr) const;

  /// Parts, routes, interval, latency; nothing where the assignment breaks a budget or has no way for a
  /// tensor. Targets are not looked at.
  std::optional<Solution> assess(const Assignment& assignment) const;

 private:
  bool within_budgets(const Assignment& assignment, const std::vector<Hop>& hops) const;
  double interval(const Assignment& assignment, const std::vector<Hop>& hops) const;

  std::vector<Wire> wires_;
};

/// When the first and the last beat leave each operation, counted from the first into the first card.
struct Passage {
  double first = 0, last = 0;
};

/// One operation: what it reads comes from `start` (latest first beat) until `arrive` (latest last beat).
Passage pass(const Implementation& way, double clock_hz, double start, double arrive);

/// One hop over a wire, in packets.
Passage carry(const Wire& wire, std::uint64_t bytes, const Passage& from);

/// Latency of a solution whose parts, implementations, cards and hops are set. `works`: what each operation
/// on a card does when.
double latency(const Board& board, const Assignment& assignment, const std::vector<Hop>& hops,
               std::vector<Work>* works = nullptr);

}  // namespace millrace::compiler::explore
