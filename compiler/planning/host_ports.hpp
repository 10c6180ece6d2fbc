// The part of a shell that exceeds the fixed share in the device's file. Ports to the host are as wide as the
// first and last layers, so a wide layer makes the shell larger.
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

/// A cost in the units of explore: a RAMB36 counts as two block RAMs of 18 Kb.
explore::Amounts amounts_of(const generators::Cost& cost);

/// The share of a device that its file reserves for our part of the shell, without the platform's part.
explore::Amounts own_shell(const runtime::plan::Device& device);

/// Lower bounds on what ports cost, before it is known which blocks share a card. Immutable, so any thread may use it.
class HostPorts {
 public:
  HostPorts() = default;  // nothing is charged

  /// For the blocks that `problem` puts on cards.
  static Result<HostPorts> make(const generators::Catalog& catalog, const kernels::Program& program,
                                const explore::Problem& problem, const runtime::plan::Cluster& cluster);

  /// A lower bound on what the ports of a block (by name) take if it is built as `candidate`, on any card and
  /// next to any other ports. A solution is never charged more than its shells take. Errors as cost()'s.
  Result<explore::Amounts> least(const generators::Catalog& catalog, const std::string& block,
                                 const generators::Candidate& candidate) const;

 private:
  struct Ends {
    std::vector<std::pair<std::size_t, kernels::ElementType>> inputs;  // of the block, that it alone reads
    std::vector<kernels::ElementType> outputs;                         // that the host reads
  };

  explore::Amounts room_{};  // for ports, on the card where that is most
  std::map<std::string, Ends> ends_;
};

/// The cost of the whole shell of solution.parts[part] on `device`. `programs` are those of all parts, by
/// partition_programs(); `design` is this part's. If the device file has a figure for a cable's port
/// (Device::link), ports of links are charged with that and not here.
Result<generators::Cost> shell_of(const generators::Catalog& catalog,
                                  const std::vector<kernels::Program>& programs,
                                  const explore::Solution& solution, std::size_t part,
                                  const generators::Design& design, const runtime::plan::Device& device);

}  // namespace millrace::compiler
