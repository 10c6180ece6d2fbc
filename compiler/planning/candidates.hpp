// Converts the generators' candidates, the possible hardware for each block, into explore's implementations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "compiler/generators/generator.hpp"
#include "compiler/generators/plugins.hpp"
#include "compiler/planning/host_ports.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// A block that no generator has hardware for.
struct NoHardware {
  std::string block;
  std::string reason;  // a sentence that names the block
};

std::vector<std::string> blocks_of(const std::vector<NoHardware>& without);

/// The possible hardware for each block, from which explore chooses; the blocks without hardware; the costs of host ports;
/// and the plugins.
struct Candidates {
  std::vector<std::vector<generators::Candidate>> of_block;  // Implementation::candidate indexes of_block[b]
  std::vector<NoHardware> without;
  HostPorts ports;                                     // the cost of host ports; implementations include it
  std::shared_ptr<const generators::Plugins> plugins;  // null if there is none
};

/// Returns a program with only this block, with its weights at `placement`. Errors are those of place_parameters().
Result<kernels::Program> placed_alone(const kernels::Program& program, std::uint32_t block,
                                      kernels::Placement placement);

/// Converts a candidate's cycles and resources to an explore::Implementation.
Result<explore::Implementation> implementation(const generators::Catalog& catalog,
                                               const kernels::Program& program, const kernels::Block& block,
                                               const generators::Candidate& candidate,
                                               const HostPorts& ports);

}  // namespace millrace::compiler
