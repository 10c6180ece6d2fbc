// One instance of a module of kernels/rtl: what a generator builds an operation from, what emit writes into a
// top, and what a cost is predicted for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace::compiler::generators {

/// The integer parameters of a module by name, in the order of the module's declaration; those left out have
/// the module's defaults. Names of memory files are not among them: a cost does not depend on them.
using Parameters = std::vector<std::pair<std::string, std::int64_t>>;

struct Instance {
  std::string module;  // "mr_mvu"
  std::string name;    // unique in its top: "conv_5_mvu"
  Parameters parameters;
  bool operator==(const Instance&) const = default;
};

}  // namespace millrace::compiler::generators
