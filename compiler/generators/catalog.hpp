// The catalogue of the hardware library: the coefficients of the cost model and the errors of the cost and timing
// models. The coefficients are fitted to what Yosys made of each module. tools/calibrate writes kernels/catalog.yaml,
// which is embedded in the binary.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// The errors of a fit on measurements that were not used for fitting. They are fractions: 0.05 means 5 %.
struct FitError {
  double mean = 0, worst = 0;
  std::size_t rows = 0;  // number of all measurements
  bool operator==(const FitError&) const = default;
};

/// The model of one resource (LUTs or flip-flops) of one module: the sum of the module's terms (module.hpp), each times
/// its coefficient.
struct Fit {
  std::map<std::string, double, std::less<>> coefficients;
  FitError held_out;
  bool operator==(const Fit&) const = default;
};

/// The relative difference between a module's timing model, which is not fitted, and the cycles of its SystemVerilog.
struct CycleErrors {
  FitError latency, interval;
  bool operator==(const CycleErrors&) const = default;
};

struct ModuleModel {
  Fit lut;  // LUTs of logic; LUTs used as memory are counted exactly, without a fit
  Fit ff;
  /// The errors of the module's timing model. Empty if the module has no timing model, or if its timing model was never
  /// compared with a simulation.
  std::optional<CycleErrors> cycles;
  bool operator==(const ModuleModel&) const = default;
};

/// The host's time for an operation of kernels/fast: a fixed time per block, and a time per multiplication. Operations
/// without multiplications count the elements of their larger side (input or output) instead.
struct HostTime {
  double block_ns = 0, unit_ns = 0;
  bool operator==(const HostTime&) const = default;
};

struct Catalog {
  std::string tool;  // the tool that measured the modules, for example "Yosys 0.23 …"
  std::map<std::string, ModuleModel, std::less<>> modules;
  std::string host_machine;                           // the machine on which `host` was measured
  std::map<std::string, HostTime, std::less<>> host;  // the key is kernels::operation_name()
  bool operator==(const Catalog&) const = default;
};

/// Reads a catalogue from a file, or the embedded one if the path is empty. Errors name file, line and key.
Result<Catalog> load_catalog(const std::filesystem::path& file = {});

/// Reads a catalogue from a text. Error messages begin with `name`.
Result<Catalog> parse_catalog(const std::string& text, const std::string& name);

}  // namespace millrace::compiler::generators
