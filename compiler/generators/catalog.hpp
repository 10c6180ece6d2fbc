// The catalogue of the hardware library: what Yosys made of each module, as coefficients of a cost model, and
// how well the timing model does.
//
// kernels/catalog.yaml, written by tools/calibrate from its measurements and embedded in the binary. cost.hpp
// says what the figures mean.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// How far a fit was off on measurements it was not made from, as fractions (0.05 is 5 %).
struct FitError {
  double mean = 0, worst = 0;
  std::size_t rows = 0;  // measurements in all
  bool operator==(const FitError&) const = default;
};

/// One figure of one module as a sum over terms: coefficient times the term's amount (see module.hpp).
struct Fit {
  std::map<std::string, double, std::less<>> coefficients;
  FitError held_out;
  bool operator==(const Fit&) const = default;
};

/// How far timing.hpp's model of a module is off the SystemVerilog's cycles; nothing of it is fitted.
struct CycleErrors {
  FitError latency, interval;
  bool operator==(const CycleErrors&) const = default;
};

struct ModuleModel {
  Fit lut;  // LUTs that are logic; those used as memory are exact and not in here
  Fit ff;
  std::optional<CycleErrors> cycles;  // none where there is no model, or none was compared
  bool operator==(const ModuleModel&) const = default;
};

/// What an operation of kernels/fast takes on the host: a block, and each multiplication in it (of those that
/// multiply nothing, each element of the larger side).
struct HostTime {
  double block_ns = 0, unit_ns = 0;
  bool operator==(const HostTime&) const = default;
};

struct Catalog {
  std::string tool;  // what was measured: "Yosys 0.23 …"
  std::map<std::string, ModuleModel, std::less<>> modules;
  std::string host_machine;                           // on which the host's times were measured
  std::map<std::string, HostTime, std::less<>> host;  // by kernels::operation_name()
  bool operator==(const Catalog&) const = default;
};

/// Reads a catalogue; with an empty path the one embedded in the binary. Errors name file, line and key.
Result<Catalog> load_catalog(const std::filesystem::path& file = {});

/// As load_catalog() of a file with this text. `name` opens messages.
Result<Catalog> parse_catalog(const std::string& text, const std::string& name);

/// The file's text for a catalogue: what parse_catalog() reads back equal.
std::string print_catalog(const Catalog& catalog);

}  // namespace millrace::compiler::generators
