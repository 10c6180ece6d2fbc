// From the generators' candidates to explore's implementations: the ways to build each block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "compiler/generators/generator.hpp"
#include "compiler/generators/plugin.hpp"
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

/// What explore chooses from, and what that was made with.
struct Candidates {
  std::vector<std::vector<generators::Candidate>> of_block;  // Implementation::candidate indexes of_block[b]
  std::vector<NoHardware> without;
  HostPorts ports;                                   // what candidates are charged for host ports
  std::shared_ptr<const generators::Plugin> plugin;  // null: none
};

/// The block as a program of its own, with its weights placed so. kUnsupported if they cannot be (weights.hpp).
Result<kernels::Program> placed_alone(const kernels::Program& program, std::uint32_t block,
                                      kernels::Placement placement);

/// A candidate as explore compares it.
Result<explore::Implementation> implementation(const generators::Catalog& catalog,
                                               const kernels::Program& program, const kernels::Block& block,
                                               const generators::Candidate& candidate,
                                               const HostPorts& ports);

}  // namespace millrace::compiler
