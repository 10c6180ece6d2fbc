// Simulates, clock by clock, one frame on its path through partitions on several cards and through the cables
// between them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/design.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// A partition, or a part of the model on the host, which works on whole tensors.
struct Stage {
  const Design* design = nullptr;  // null: the host
  double clock_hz = 0;             // of its card
  std::uint32_t card = 0;
  std::vector<std::string> inputs, outputs;  // tensors; ignored for a partition, whose design has ports
  double host_seconds = 0;                   // on the host, from its last input to its outputs
};

/// One direction between two cards.
struct Link {
  double bytes_per_second = 0, latency_seconds = 0;
};
using Links = std::map<std::pair<std::uint32_t, std::uint32_t>, Link>;  // (from, to)

/// Seconds since the first beat went into any card.
struct Passage {
  double first_output = 0, last_output = 0;
};

/// The passage of each stage. `stages` are in topological order. A tensor that none of them makes is an input
/// of the model and present from the start. Packets have at most 1,024 bytes, as in the communication plan. A
/// packet is sent once it is complete, and a cable carries packets in the order of their completion. The
/// receiver always has room. kInternal if no cable joins the cards of a tensor; other errors as simulate().
Result<std::vector<Passage>> play_first_frame(const std::vector<Stage>& stages, const Links& links);

}  // namespace millrace::compiler::generators
