// The instances that are measured, and memory files for them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/instance.hpp"
#include "tools/calibrate/measurements.hpp"

namespace millrace::tools::calibrate {

struct Sample {
  compiler::generators::Parameters parameters;
  std::string source;  // of a module that is written for its constants: the module `kWritten`; else empty
};

inline constexpr const char* kWritten = "written";

/// The instances of a module that are measured: the rows of kernels/catalog.csv, whether they have figures or
/// not; of mr_unrolled, matrices drawn from a fixed seed.
std::vector<Sample> sample_of(const std::string& module, const Measurements& rows);

/// Matrices whose weights are about normally distributed over their range, a share of them zero.
std::vector<Sample> unrolled_sample();

struct Memories {
  std::vector<std::pair<std::string, std::string>> names;  // string parameter -> file name, or its beginning
  std::map<std::string, std::string> files;                // content
};

/// Contents as trained models have them, drawn by the fields of the module's ConstantFiles. The same
/// parameters give the same bytes. Errors as cost().
Result<Memories> memories_of(const std::string& module, const compiler::generators::Parameters& parameters);

}  // namespace millrace::tools::calibrate
