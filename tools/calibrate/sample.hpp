// Selects the module instances to measure and generates their memory files.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/netlist.hpp"
#include "tools/calibrate/measurements.hpp"

namespace millrace::tools::calibrate {

struct Sample {
  compiler::generators::Parameters parameters;
  std::string
      source;  // text of the module `kWritten`, if the module is generated for its constants; else empty
};

inline constexpr const char* kWritten = "written";

/// Returns the instances of a module to measure: all its rows in kernels/catalog.csv, whether or not they already have
/// figures. For mr_unrolled, returns matrices drawn from a fixed seed.
std::vector<Sample> sample_of(const std::string& module, const Measurements& rows);

/// Draws matrices for mr_unrolled. Most weights are about normally distributed over their range; some are zero.
std::vector<Sample> unrolled_sample();

struct Memories {
  std::vector<std::pair<std::string, std::string>>
      names;  // maps a string parameter to a file name or a prefix of file names
  std::map<std::string, std::string> files;  // file name -> content
};

/// Draws memory contents that resemble those of trained models, using the fields of the module's ConstantFiles. The
/// same parameters always give the same bytes. Fails like cost().
Result<Memories> memories_of(const std::string& module, const compiler::generators::Parameters& parameters);

}  // namespace millrace::tools::calibrate
