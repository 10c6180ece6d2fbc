// Analyses a solution card by card and cable by cable: how much of each is used, the roofline of each card,
// what limits the rate, and what would raise the rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore {

/// Frames a second that a card could do if only this resource limited it; infinite for an unused resource.
struct Roofline {
  // Frames a second if every available DSP slice did two multiplications per clock. Multiplications in LUTs do not
  // count.
  double compute = 0;
  double memory = 0;    // the limit by reading weights from the card's memory
  double links = 0;     // the limit by the card's slowest cable
  double attained = 0;  // frames a second that the card's slowest operation reaches
};

struct RegionUse {
  std::string name;
  Amounts used{}, available{};  // entry kMemoryBytes is in bytes a second, at the solution's rate
};

struct PlaceAnalysis {
  std::uint32_t card = 0;
  std::vector<RegionUse> regions;
  Amounts links{};                 // resources that cables use in the first region; part of its `used`
  double interval_seconds = 0;     // interval of the card's slowest operation
  std::uint32_t slowest = 0;       // index of the card's slowest operation
  std::uint64_t cost = 0;          // multiplications and additions for each frame
  std::uint64_t memory_bytes = 0;  // bytes of weights that the card reads from its memory for each frame
  Roofline roofline;
};

struct CableUse {
  std::uint32_t from = 0, to = 0;  // positions of cards in the pipeline
  std::uint64_t bytes = 0;         // bytes of each frame, with the packets' headers
  double bytes_per_second = 0;     // bandwidth of all cables between the two cards together
  double seconds = 0;              // time for which each frame occupies the busiest of these cables
  double share = 0;                // fraction of time for which the busiest cable is occupied
};

/// When an operation works on one frame, in seconds after the frame's first data word enters the first card.
struct Work {
  std::uint32_t operation = 0;
  double begin = 0;            // when the first word of every input has arrived
  double first = 0, last = 0;  // when the operation's first and last output words leave
};

struct Analysis {
  std::vector<PlaceAnalysis> places;
  std::vector<CableUse> cables;
  std::vector<Work> works;         // the cards' operations in order; computed, not simulated
  std::string bottleneck;          // one sentence: what limits the rate
  std::vector<std::string> lifts;  // what would raise the rate, and how far; may be empty
};

/// Analyses a solution that verify() accepts. The problem must satisfy is_predictable().
Analysis analyse(const Problem& problem, const Solution& solution);

/// After a change of the interval, recomputes the fractions of used bandwidth in the analysis, which depend on the
/// rate.
void change_interval(Analysis& analysis, double from_seconds, double to_seconds);

/// Writes the sentences in `bottleneck` (what limits the rate) and `lifts` (what would raise the rate). If the
/// analysis's figures come from finished designs, they also count the FIFOs and adapters between blocks. The sentences
/// in `lifts` assume that each block stays in its region.
void explain(const Problem& problem, const Solution& solution, Analysis& analysis);

}  // namespace millrace::compiler::explore
