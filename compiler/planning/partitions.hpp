// The partitions of a solution: their names, programs and hardware, and a frame's path through them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/generators/first_frame.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler {

/// The hardware of each partition, by name. A partition without hardware can run only at fidelity `functional`.
using Designs = std::map<std::string, generators::Design>;

/// Returns the programs of the solution's parts, in their order. Each has its partition's name: "part<n>" on cards. On
/// the host, the first part is "input", the last part is "output", and the parts between them are "host<n>".
std::vector<kernels::Program> partition_programs(const kernels::Program& program,
                                                 const explore::Solution& solution);

/// Returns, for each block of a part of the solution, the region of the card that contains the block.
std::vector<std::uint32_t> regions_of(const explore::Solution& solution, const explore::Part& part);

/// Returns the times at which a frame enters and leaves each part of the solution (a partition on a card, or
/// a stage on the host). `programs` comes from partition_programs(). `designs` contains the design of every
/// part on a card. `host_seconds` is the time of each part on the host; if empty, all times are 0. Of several
/// cables between two cards, only the first is used. Errors are those of play_first_frame().
Result<std::vector<generators::Passage>> passages(const std::vector<kernels::Program>& programs,
                                                  const explore::Solution& solution,
                                                  const runtime::plan::Cluster& cluster,
                                                  const Designs& designs,
                                                  const std::vector<double>& host_seconds = {});

/// Returns, for each part of the solution (a partition on a card, or a stage on the host), the time from the arrival of
/// a frame's last input word until the frame's last output word leaves, in seconds, if the frame is alone in the
/// pipeline. Hardware computes while the input arrives, so this time may be shorter than the part's interval.
/// `last_outputs` are the times at which the last output words leave, by part; those of host parts are ignored.
/// `host_seconds` is as in passages().
std::vector<double> tails(const std::vector<kernels::Program>& programs, const explore::Solution& solution,
                          const runtime::plan::Cluster& cluster, const std::vector<double>& last_outputs,
                          const std::vector<double>& host_seconds = {});

/// Returns the time from the departure of a tensor's last beat until the tensor's last packet has arrived at the other
/// end of the cable, in seconds. Over MPI, a tensor is sent as a whole.
double cable_tail(const runtime::plan::Cable& cable, std::uint64_t frame_bytes);

/// Adds relays: blocks that forward a tensor. A card that sends a tensor which it received from another card gets a
/// block "relay_<tensor>_<place>", and blocks on later cards read the relay's output. Renumbers the solution's parts,
/// implementations and regions. Clears the solution's hops (transfers of a tensor over one cable), because each tensor
/// now goes from its card directly to its readers.
void insert_relays(kernels::Program& program, explore::Solution& solution);

}  // namespace millrace::compiler
