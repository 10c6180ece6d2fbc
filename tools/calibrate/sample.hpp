// The module instances to measure, and their memory files.
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

/// The instances of a module to measure: all rows of kernels/catalog.csv, with or without figures. For
/// mr_unrolled, matrices drawn from a fixed seed.
std::vector<Sample> sample_of(const std::string& module, const Measurements& rows);

/// Draws matrices whose weights are about normally distributed over their range; some weights are zero.
std::vector<Sample> unrolled_sample();

struct Memories {
  std::vector<std::pair<std::string, std::string>>
      names;                                 // string parameter -> file name, or a prefix of file names
  std::map<std::string, std::string> files;  // content
};

/// Draws contents that resemble trained models, from the fields of the module's ConstantFiles. The same
/// parameters give the same bytes. Fails as cost() does.
Result<Memories> memories_of(const std::string& module, const compiler::generators::Parameters& parameters);

}  // namespace millrace::tools::calibrate
