// The measurements in kernels/catalog.csv: one instance of a module a row.
//
//   # Yosys 0.23 (git sha1 …), synth_xilinx -family xcu …
//   module,parameters,sources,lut,lutram,ff,dsp,ramb18,ramb36,uram
//   mr_skid,WIDTH=8,0f3a9c21,12,0,18,0,0,0,0
//
// `parameters` are NAME=value, separated by spaces. `sources` is the digest of the SystemVerilog that was
// measured (tools/calibrate/digests.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/generators/netlist.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tools::calibrate {

struct Measurement {
  std::string module;
  compiler::generators::Parameters parameters;
  std::string sources;
  compiler::generators::Cost cost;
};

std::string print_parameters(const compiler::generators::Parameters& parameters);

struct Measurements {
  std::string tool;  // the first line
  std::vector<Measurement> rows;
};

std::string print_measurements(const Measurements& measurements);

/// kInvalidInput, with line and field, if a row is not as above.
Result<Measurements> parse_measurements(const std::string& text, const std::string& name);

}  // namespace millrace::tools::calibrate
