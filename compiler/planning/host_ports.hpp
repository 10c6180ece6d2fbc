// What of a card the shell of its partitions takes beyond what the device's file gives it: ports to the host
// are wide where the first and last layers are.
#pragma once

#include <cstdint>
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

/// As explore counts: a RAMB36 is two of 18 Kb.
explore::Amounts amounts_of(const generators::Cost& cost);

/// What a device's file gives the shell that we write: all but the platform's.
explore::Amounts own_shell(const runtime::plan::Device& device);

/// Before it is known who stands beside whom. Constant: any thread may ask.
class HostPorts {
 public:
  HostPorts() = default;  // nothing is charged

  /// Of the program's blocks on cards, as `problem` has them.
  static Result<HostPorts> make(const generators::Catalog& catalog, const kernels::Program& program,
                                const explore::Problem& problem, const runtime::plan::Cluster& cluster);

  /// At least, for a block (by name) that is built so, on whichever card and beside whatever other ports: a
  /// solution is never charged more than its shells come to. Errors as cost()'s.
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

/// What the shell of solution.parts[part] takes on `device`, whatever its file says: `programs` are those of
/// all parts, by partition_programs(), `design` that of this one. Where the device has figures of its own for
/// a cable's port (Device::link), ports of links are charged there, and not here.
Result<generators::Cost> shell_of(const generators::Catalog& catalog,
                                  const std::vector<kernels::Program>& programs,
                                  const explore::Solution& solution, std::size_t part,
                                  const generators::Design& design, const runtime::plan::Device& device);

}  // namespace millrace::compiler
