// Simulates clock by clock how one frame passes through the partitions on several cards and the cables between them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/design.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// A partition on a card, or a part of the model on the host. The host starts when whole tensors are complete.
struct Stage {
  const Design* design = nullptr;  // null for a part on the host
  double clock_hz = 0;             // clock of the partition's card
  std::uint32_t card = 0;
  /// Names of the tensors that the stage reads and writes. Ignored if the stage is a partition on a card, because then
  /// the names come from the ports of its design.
  std::vector<std::string> inputs, outputs;
  double host_seconds = 0;  // the host's time from the last input to the outputs
};

/// One direction of the connection between two cards.
struct Link {
  double bytes_per_second = 0, latency_seconds = 0;
  bool whole_tensors =
      false;  // a tensor is sent when it is complete, and used when it has arrived as a whole
};
using Links = std::map<std::pair<std::uint32_t, std::uint32_t>, Link>;  // the key is (from card, to card)

/// When the first and the last output beat of a stage (a partition on a card, or a part of the model on the host)
/// leave, in seconds since the first beat entered any card.
struct Passage {
  double first_output = 0, last_output = 0;
};

/// Returns each stage's output times. `stages` are in topological order. A tensor that no stage makes is an input of
/// the model and available from the start. Packets have at most 1,024 bytes, as in the communication plan. A packet is
/// sent when it is complete, and a cable transmits packets in the order in which they become complete. The receiver
/// always has buffer space. kInternal if a tensor must go between two cards without a cable; other errors as in
/// simulate().
Result<std::vector<Passage>> play_first_frame(const std::vector<Stage>& stages, const Links& links);

}  // namespace millrace::compiler::generators
