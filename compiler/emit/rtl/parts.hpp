// The files that rtl.cpp puts together. Private to compiler/emit/rtl.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

/// The network of a partition as one module.
std::string dataflow_text(const generators::Design& design, const kernels::Program& program,
                          const RtlOptions& options);

/// The number of bytes of all streamed weights. In memory, the readers' weights follow one another.
std::uint64_t streamed_bytes(const generators::Netlist& netlist);

/// The library modules that a top may use.
std::set<std::string> top_modules();

struct TopModule {
  std::string text;
  TopInterface interface;
};

/// The shell around the network. kInternal if the image's ports are not the design's.
Result<TopModule> top_module(const generators::Design& design,
                             const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options);

/// The text of design.json (README.md).
std::string design_json(const generators::Design& design, const kernels::Program& program,
                        const RtlOptions& options, const std::vector<std::string>& files,
                        const std::string& digest);

}  // namespace millrace::compiler::emit
