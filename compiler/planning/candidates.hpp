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

struct CandidateOptions {
  // Candidates have intervals at least this factor apart. Fewer candidates are quicker to choose from.
  double step = 1.02;
  std::shared_ptr<const generators::Plugin> plugin;  // prepared for the program; null: none
  HostPorts ports;
  bool unrolled = true;   // offer circuits made of constants; a model with assumed weights has none
  bool streamed = false;  // also offer weights read from memory, for blocks with weights in the image
  bool hardware = true;   // false: every block is emulated
};

/// The block as a program of its own, with its weights placed so. kUnsupported if they cannot be (weights.hpp).
Result<kernels::Program> placed_alone(const kernels::Program& program, std::uint32_t block,
                                      kernels::Placement placement);

/// Fills the problem's implementations; operation i is block i of the program. Each implementation is charged
/// for what joins the block to those before it (a FIFO at each input, and an adapter where lanes may differ)
/// and for its ports to the host.
///
/// A block without candidates is emulated. Its one implementation takes nothing of a card and is as slow as
/// kernels/fast is on the host, because an emulated card computes with that.
Result<Candidates> add_candidates(const generators::Catalog& catalog, const kernels::Program& program,
                                  CandidateOptions options, explore::Problem& problem);

/// A candidate as explore compares it.
Result<explore::Implementation> implementation(const generators::Catalog& catalog,
                                               const kernels::Program& program, const kernels::Block& block,
                                               const generators::Candidate& candidate,
                                               const HostPorts& ports);

}  // namespace millrace::compiler
