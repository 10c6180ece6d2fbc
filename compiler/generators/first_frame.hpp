// A frame's way through partitions on several cards, played clock by clock: when each gives out its last
// beat, with what the cables between them take.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/design.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// A partition, or a part of the model on the host, which takes whole tensors.
struct Stage {
  const Design* design = nullptr;  // null: the host
  double clock_hz = 0;             // of its card
  std::uint32_t card = 0;
  std::vector<std::string> inputs, outputs;  // tensors; of a partition its design's ports count
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

/// Of each stage. `stages` are in topological order; what none of them makes is the model's input and there
/// from the beginning. Packets are those of the communication plan: of at most 1,024 bytes, sent once they
/// are whole, channels of a cable in the order in which their packets are. No beat waits for room behind a
/// cable. kInternal: a tensor's cards are not joined; others as simulate().
Result<std::vector<Passage>> play_first_frame(const std::vector<Stage>& stages, const Links& links);

}  // namespace millrace::compiler::generators
