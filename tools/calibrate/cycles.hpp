// Compares the timing model (compiler/generators/timing.hpp) with the SystemVerilog, module by module.
// kernels/cycles.csv has the cycles that the benches of kernels/tb measured with Verilator:
//
//   # Verilator 5.006; written by tools/calibrate/cycles.py
//   module,row,parameters,sources,latency,interval
//   mr_mvu,pair,MH=12 MW=45 PE=6 SIMD=9 …,0f3a9c21,12,10
//
// The benches feed and drain the module at full speed. `latency` is the number of cycles from the first accepted input
// word to the first offered output word. `interval` is the number of cycles between the last output words of successive
// frames. For the weight reader, a frame is a pass over the weights, and latency counts from its activation. `row`
// names a row of the module's .rows file; `sources` is the digest described in measurements.hpp. Nothing is fitted to
// these measurements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/generators/netlist.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tools::calibrate {

struct CycleMeasurement {
  std::string module, row;
  compiler::generators::Parameters parameters;
  std::string sources;
  std::int64_t latency = 0, interval = 0;
};

/// Parses kernels/cycles.csv. Returns kInvalidInput, with line and field, if a row does not have the format above.
Result<std::vector<CycleMeasurement>> parse_cycles(const std::string& text, const std::string& name);

struct PredictedCycles {
  std::int64_t latency = 0, interval = 0;
};

/// Simulates the module alone, with the frames of its bench. Returns kUnsupported if the module has no timing model.
Result<PredictedCycles> predict_cycles(const CycleMeasurement& row);

/// Returns the timing model's errors per module, as fractions of measured cycles. Fails like predict_cycles().
Result<std::map<std::string, compiler::generators::CycleErrors>> compare_cycles(
    const std::vector<CycleMeasurement>& rows);

}  // namespace millrace::tools::calibrate
