// The network of a partition as one module. Private to compiler/emit/rtl.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

std::string dataflow_text(const generators::Design& design, const kernels::Program& program,
                          const RtlOptions& options);

/// Bytes of all streamed weights; those of each reader follow those of the one before.
std::uint64_t streamed_bytes(const generators::Netlist& netlist);

}  // namespace millrace::compiler::emit
