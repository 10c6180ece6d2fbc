// What a solution comes to, card by card and cable by cable: use, roofline, bottleneck, and what would lift
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore {

/// Frames a second that one resource of a place would allow if no other limited it; infinite if it is not used.
struct Roofline {
  // Every available DSP slice does two multiplications a clock. Multiplications that LUTs do are left out.
  double compute = 0;
  double memory = 0;    // weights from its memory
  double links = 0;     // the slowest of its cables
  double attained = 0;  // its slowest operation
};

struct RegionUse {
  std::string name;
  Amounts used{}, available{};  // [kMemoryBytes]: bytes a second, at the solution's rate
};

struct PlaceAnalysis {
  std::uint32_t card = 0;
  std::vector<RegionUse> regions;  // those of the card
  Amounts links{};                 // of the first region, what its cables take; among what is used
  double interval_seconds = 0;     // of its slowest operation
  std::uint32_t slowest = 0;       // operation
  std::uint64_t cost = 0;          // multiplications and additions a frame
  std::uint64_t memory_bytes = 0;  // a frame
  Roofline roofline;
};

struct CableUse {
  std::uint32_t from = 0, to = 0;  // places
  std::uint64_t bytes = 0;         // a frame, packets' headers with it
  double bytes_per_second = 0;     // of all cables between them
  double seconds = 0;              // a frame takes of the fullest of these
  double share = 0;                // of that one, at the solution's rate
};

/// An operation at work on one frame, in seconds from the first beat into the first card.
struct Work {
  std::uint32_t operation = 0;
  double begin = 0;            // the first beat of its input that it can do something with
  double first = 0, last = 0;  // beats of its output
};

struct Analysis {
  std::vector<PlaceAnalysis> places;
  std::vector<CableUse> cables;
  std::vector<Work> works;         // the cards' operations, in their order; added up, never played
  std::string bottleneck;          // one sentence: what limits the rate
  std::vector<std::string> lifts;  // what would lift it, by how much; may be empty
};

/// The solution is one of this problem, verified; the problem is predictable.
Analysis analyse(const Problem& problem, const Solution& solution);

/// Adjusts the shares that depend on the rate when the interval changes.
void change_interval(Analysis& analysis, double from_seconds, double to_seconds);

/// Sets `bottleneck` and `lifts` from the figures of the analysis, which may meanwhile be those of designs: what
/// designs take beyond the sum of their blocks counts. The lifts assume that each block stays in its region.
void explain(const Problem& problem, const Solution& solution, Analysis& analysis);

}  // namespace millrace::compiler::explore
