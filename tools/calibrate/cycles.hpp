// The timing model (compiler/generators/timing.hpp) against the SystemVerilog, module by module: what the
// benches of kernels/tb measured with Verilator, as kernels/cycles.csv keeps it.
//
//   # Verilator 5.006; written by tools/calibrate/cycles.py
//   module,row,parameters,sources,latency,interval
//   mr_mvu,pair,MH=12 MW=45 PE=6 SIMD=9 …,0f3a9c21,12,10
//
// At full speed: `latency`, cycles from the first input beat taken to the first output beat offered;
// `interval`, between the last output beats of successive frames; of the weight reader, whose frames are its
// passes, `latency` from its being active. `row` is the module's table's; `sources` as in measurements.hpp.
// Nothing of this is fitted: every row is held out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/generators/instance.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tools::calibrate {

struct CycleMeasurement {
  std::string module, row;
  compiler::generators::Parameters parameters;
  std::string sources;
  std::int64_t latency = 0, interval = 0;
};

/// kInvalidInput with line and field where a row is not as above.
Result<std::vector<CycleMeasurement>> parse_cycles(const std::string& text, const std::string& name);

struct PredictedCycles {
  std::int64_t latency = 0, interval = 0;
};

/// The module alone, played on the frames its bench gives it. kUnsupported where there is no model of it.
Result<PredictedCycles> predict_cycles(const CycleMeasurement& row);

/// By module: how far the model is off, as a fraction of the cycles measured. Errors as predict_cycles().
Result<std::map<std::string, compiler::generators::CycleErrors>> compare_cycles(
    const std::vector<CycleMeasurement>& rows);

}  // namespace millrace::tools::calibrate
