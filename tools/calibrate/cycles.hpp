// Compares the timing model (compiler/generators/timing.hpp) with the SystemVerilog, module by module.
// kernels/cycles.csv has the cycles that the benches of kernels/tb measured with Verilator:
//
//   # Verilator 5.006; written by tools/calibrate/cycles.py
//   module,row,parameters,sources,latency,interval
//   mr_mvu,pair,MH=12 MW=45 PE=6 SIMD=9 …,0f3a9c21,12,10
//
// At full speed `latency` counts cycles from the first input beat taken to the first output beat offered, and
// `interval` those between the last output beats of successive frames. The frames of the weight reader are
// its passes, and its latency counts from its activation. `row` is a row of the module's table; `sources` is
// as in measurements.hpp. Nothing is fitted to these rows.
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

/// kInvalidInput, with line and field, if a row is not as above.
Result<std::vector<CycleMeasurement>> parse_cycles(const std::string& text, const std::string& name);

struct PredictedCycles {
  std::int64_t latency = 0, interval = 0;
};

/// Simulates the module alone with the frames of its bench. kUnsupported if it has no model.
Result<PredictedCycles> predict_cycles(const CycleMeasurement& row);

/// The errors of the model for each module, as fractions of the measured cycles. Errors as predict_cycles().
Result<std::map<std::string, compiler::generators::CycleErrors>> compare_cycles(
    const std::vector<CycleMeasurement>& rows);

}  // namespace millrace::tools::calibrate
