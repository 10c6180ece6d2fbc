// Computes by how much a card's shell (the logic that connects its layers to the host) exceeds the fixed
// share in the device's file. Ports to the host are as wide as the model's first and last layers, so a wide
// layer makes the shell larger.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/explore/partition.hpp"
#include "compiler/generators/design.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler {

/// Converts a cost into explore's units, in which a RAMB36 counts as two block RAMs of 18 Kb.
explore::Amounts amounts_of(const generators::Cost& cost);

/// Returns the resources that a device's file reserves for Millrace's part of the shell, without the platform's part.
explore::Amounts own_shell(const runtime::plan::Device& device);

/// Lower bounds on the cost of ports to the host, valid for all assignments of blocks to cards. Immutable, thread-safe.
class HostPorts {
 public:
  HostPorts() = default;  // all bounds are 0

  /// Computes lower bounds on the cost of host ports for the blocks that `problem` assigns to cards.
  static Result<HostPorts> make(const generators::Catalog& catalog, const kernels::Program& program,
                                const explore::Problem& problem, const runtime::plan::Cluster& cluster);

  /// Returns a lower bound on the resources for the host ports of a block (by name) that is built as `candidate`.
  /// The bound is valid on every card and next to all other ports, so the sum over blocks never exceeds what the
  /// shells really need. Errors are those of cost().
  Result<explore::Amounts> least(const generators::Catalog& catalog, const std::string& block,
                                 const generators::Candidate& candidate) const;

 private:
  struct Ends {
    std::vector<std::pair<std::size_t, kernels::ElementType>> inputs;   // inputs that only this block reads
    std::vector<std::pair<std::size_t, kernels::ElementType>> outputs;  // the outputs that the host reads
  };

  explore::Amounts room_{};  // resources reserved for ports on the card that reserves most
  std::map<std::string, Ends> ends_;
};

/// Returns the cost of the whole shell of solution.parts[part] on `device`. `programs` holds the programs of all
/// parts, as partition_programs() returns them; `design` belongs to this part. Tensors between cards that only MPI joins in
/// `cluster` (plan::join_hosts()) use ports to the host. Leaves out the ports of cables if the
/// device file states their cost (Device::link), because explore then counts it.
Result<generators::Cost> shell_of(const generators::Catalog& catalog,
                                  const std::vector<kernels::Program>& programs,
                                  const explore::Solution& solution, std::size_t part,
                                  const generators::Design& design, const runtime::plan::Device& device,
                                  const runtime::plan::Cluster& cluster);

}  // namespace millrace::compiler
