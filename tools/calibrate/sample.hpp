// What is measured: for each module, instances like those the generators make, and memory files for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/instance.hpp"

namespace millrace::tools::calibrate {

struct Sample {
  std::string module;
  compiler::generators::Parameters parameters;
  std::string source;  // of a module that is written for its constants: the module `kWritten`; else empty
};

inline constexpr const char* kWritten = "written";

/// The designed sample of one module: corners by hand, the space between them by chance from a fixed seed.
/// Empty for a module that has none.
std::vector<Sample> sample_of(const std::string& module);

/// The modules that have a sample, in the order of their use.
const std::vector<std::string>& sampled_modules();

struct Memories {
  std::vector<std::pair<std::string, std::string>> names;  // string parameter -> file name, or its beginning
  std::map<std::string, std::string> files;                // content
};

/// Contents as trained models have them: weights normally distributed over their range, multipliers with
/// their top bit set, shifts that differ by a few. The same parameters give the same bytes.
Memories memories_of(const std::string& module, const compiler::generators::Parameters& parameters);

}  // namespace millrace::tools::calibrate
