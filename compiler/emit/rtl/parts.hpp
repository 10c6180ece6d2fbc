// The functions that write the single files of a partition; rtl.cpp puts the files together. Private to
// compiler/emit/rtl.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

/// Returns the SystemVerilog of a partition's network (<partition>_dataflow) as one module.
std::string dataflow_text(const generators::Design& design, const kernels::Program& program,
                          const RtlOptions& options);

/// Returns the size in bytes of all streamed weights. In memory, the readers' weights follow one another.
std::uint64_t streamed_bytes(const generators::Netlist& netlist);

/// Whether an image has links and all of them use UDP. An image with links over UDP and Aurora gets the top module of an
/// image with Aurora links, from which no tool builds an image.
bool uses_udp(const RtlOptions& options);

/// Returns the names of the library modules that a partition's top module may use.
std::set<std::string> top_modules(const RtlOptions& options);

struct TopModule {
  std::string text;
  TopInterface interface;
};

/// Returns the shell around a partition's network. Returns kInternal if its ports are not those of the FPGA image.
Result<TopModule> top_module(const generators::Design& design,
                             const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options);

/// Returns the text of a partition's design.json (README.md).
std::string design_json(const generators::Design& design, const kernels::Program& program,
                        const RtlOptions& options, const std::vector<std::string>& files,
                        const std::string& digest);

}  // namespace millrace::compiler::emit
