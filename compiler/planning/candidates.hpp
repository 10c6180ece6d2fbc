// From the generators' candidates to explore's implementations: which ways there are to build each block.
#pragma once

#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "compiler/generators/generator.hpp"
#include "compiler/planning/host_ports.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// What explore chose from; Implementation::candidate indexes `of_block[block]`.
struct Candidates {
  std::vector<std::vector<generators::Candidate>> of_block;
  std::string unsupported;  // the first block without hardware, and why; then nothing can be predicted
  std::vector<std::string> without;  // all such blocks' names
};

struct CandidateOptions {
  // Intervals looked at lie at least so far apart: 1.02 is 2 %. Fewer candidates are quicker to choose from.
  double step = 1.02;
  std::uint64_t longest_cycles = 0;            // nothing slower is wanted; 0: no limit
  const generators::Plugin* plugin = nullptr;  // prepared for the program
  bool unrolled = true;   // circuits made of constants: nothing to plan with where the numbers mean nothing
  bool streamed = false;  // also with weights read from memory, where the program has them in the image
};

/// The block as a program of its own, its weights placed so; kUnsupported where they cannot be (weights.hpp).
Result<kernels::Program> placed_alone(const kernels::Program& program, std::uint32_t block,
                                      kernels::Placement placement);

/// Fills the problem's implementations: an operation is a block of the program, in the same order. The joints
/// to the blocks before are reckoned with: a FIFO, and where lanes may differ an adapter, at each input; and
/// what `ports` says of those that get their frames from the host, or give them to it.
Result<Candidates> add_candidates(const generators::Catalog& catalog, const kernels::Program& program,
                                  const CandidateOptions& options, const HostPorts& ports,
                                  explore::Problem& problem);

/// One way to build a block as explore weighs it.
Result<explore::Implementation> implementation(const generators::Catalog& catalog,
                                               const kernels::Program& program, const kernels::Block& block,
                                               const generators::Candidate& candidate,
                                               const HostPorts& ports);

}  // namespace millrace::compiler
