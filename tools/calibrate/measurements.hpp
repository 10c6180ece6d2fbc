// The measurements in kernels/catalog.csv. Each row has the measured resources of one module instance.
//
//   # Yosys 0.23 (git sha1 …), synth_xilinx -family xcu …
//   module,parameters,sources,lut,lutram,ff,dsp,ramb18,ramb36,uram
//   mr_skid,WIDTH=8,0f3a9c21,12,0,18,0,0,0,0
//
// `parameters` is a list of NAME=value, separated by spaces. `sources` is the digest of the SystemVerilog that was
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

/// Splits text at each separator. Text that ends with a separator has no empty last part.
std::vector<std::string> split(const std::string& text, char separator);

std::string print_parameters(const compiler::generators::Parameters& parameters);

struct Measurements {
  std::string tool;  // the file's first line, which names the tool
  std::vector<Measurement> rows;
};

std::string print_measurements(const Measurements& measurements);

/// Parses kernels/catalog.csv. Returns kInvalidInput, with line and field, if a row does not have the format above.
Result<Measurements> parse_measurements(const std::string& text, const std::string& name);

}  // namespace millrace::tools::calibrate
