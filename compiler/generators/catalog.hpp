// The catalogue of the hardware library: coefficients of the cost model, fitted to what Yosys made of each
// module, and the errors of both models. tools/calibrate writes kernels/catalog.yaml, which is embedded in
// the binary.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// The errors of a fit on measurements that it was not made from, as fractions (0.05 is 5 %).
struct FitError {
  double mean = 0, worst = 0;
  std::size_t rows = 0;  // measurements in all
  bool operator==(const FitError&) const = default;
};

/// One figure of one module: the sum of its terms (module.hpp), each times a coefficient.
struct Fit {
  std::map<std::string, double, std::less<>> coefficients;
  FitError held_out;
  bool operator==(const Fit&) const = default;
};

/// The difference between a module's timing model and the cycles of its SystemVerilog. The timing model is
/// not fitted.
struct CycleErrors {
  FitError latency, interval;
  bool operator==(const CycleErrors&) const = default;
};

struct ModuleModel {
  Fit lut;  // LUTs of logic; those used as memory are counted exactly elsewhere
  Fit ff;
  std::optional<CycleErrors> cycles;  // none if there is no timing model, or it was not compared
  bool operator==(const ModuleModel&) const = default;
};

/// The host's time for an operation of kernels/fast: for the block as such, and for each multiplication in it.
/// Operations that multiply nothing count the elements of their larger side instead.
struct HostTime {
  double block_ns = 0, unit_ns = 0;
  bool operator==(const HostTime&) const = default;
};

struct Catalog {
  std::string tool;  // the tool that measured the modules: "Yosys 0.23 …"
  std::map<std::string, ModuleModel, std::less<>> modules;
  std::string host_machine;                           // on which the host's times were measured
  std::map<std::string, HostTime, std::less<>> host;  // by kernels::operation_name()
  bool operator==(const Catalog&) const = default;
};

/// Reads a catalogue; an empty path means the one in the binary. Errors name file, line and key.
Result<Catalog> load_catalog(const std::filesystem::path& file = {});

/// As load_catalog(), from a text. Messages begin with `name`.
Result<Catalog> parse_catalog(const std::string& text, const std::string& name);

}  // namespace millrace::compiler::generators
