// The communication plan of a plan, for people and programs: which port sends what to which port for each frame, and
// what each cable carries. The figures are those of one replica; all replicas have the same communication plan.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::report {

/// What one port sends to another for each frame.
struct Message {
  std::string from, to;            // "part0.out0"; "model.<tensor>" for the model's own inputs and outputs
  std::string from_card, to_card;  // names of the cluster's cards; empty for an end on the host
  std::uint64_t bytes = 0;  // of the tensor: packed between cards, in storage form through the host's memory
  std::uint64_t packets = 0;       // 0 through the memory of hosts
  std::uint32_t packet_bytes = 0;  // payload of every packet but the last, which may have less
  std::uint32_t credits = 0;       // packets that the sender may send before the receiver has read them
  std::uint64_t wire_bytes = 0;    // with headers, padding and CRCs; 0 through the memory of one host
  bool between_cards() const { return packets > 0; }  // over a cable
  /// Whether the hosts of two cards pass the tensor on over MPI.
  bool over_mpi() const { return packets == 0 && !from_card.empty() && !to_card.empty(); }
  std::uint64_t buffer_bytes() const { return std::uint64_t{credits} * packet_bytes; }  // at the receiver
};

/// What all cables from one card to another carry or, if there is no cable, what MPI carries between the cards.
struct CableLoad {
  std::string from, to;             // names of cards
  std::vector<std::string> cables;  // names of the cables, or of the path over MPI; empty if there is none
  std::uint64_t messages = 0;       // for each frame
  std::uint64_t wire_bytes = 0;     // for each frame, with headers, padding and CRCs
  double gigabits_per_second = 0;   // at the predicted frame rate; 0 if nothing was predicted
  double capacity = 0;              // Gbit/s of all these cables together
  std::string limit;  // what limits the cables' rate, if not the cables (plan::Cable::limit); or empty
  double share() const { return capacity > 0 ? gigabits_per_second / capacity : 0; }
};

struct Communication {
  std::vector<Message> messages;  // in the order of the deployment's channels
  std::vector<CableLoad> loads;   // sorted by `from`, then `to`
  // kDoesNotFit, with channel, cable and remedy, if the partitions could wait for each other forever, or if the cables
  // cannot carry the messages. compile() refuses such a plan.
  Status check;
};

/// Returns the communication plan of a plan. compile() builds exactly this communication.
Result<Communication> communication(const Plan& plan);

/// Returns the communication plan as text in lines of at most 80 columns, with ANSI colours if `colour` is set.
std::string terminal(const Communication& communication, bool colour);

/// Returns the communication plan as the member "communication" of `plan --json` (README.md).
boost::json::object facts(const Communication& communication);

}  // namespace millrace::compiler::report
