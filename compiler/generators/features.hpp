// What the cost of a module is made of, from its parameters: exact counts of memories and DSP slices, and the
// terms whose coefficients kernels/catalog.yaml holds. cost() and tools/calibrate share it, so that what was
// fitted is what is predicted.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "compiler/generators/cost.hpp"

namespace millrace::compiler::generators {

struct Term {
  std::string_view name;  // static storage
  double amount = 0;
};

struct Features {
  Cost exact;                 // dsp, ramb18, ramb36, uram, lutram; lut = lutram; ff = 0
  std::vector<Term> lut, ff;  // of logic; a name stands once in a list
};

/// Terms of constant tables and memories to be loaded, named "table…": their coefficients are mr_table's in
/// every module.
inline bool is_table_term(std::string_view name) {
  return name.substr(0, 5) == "table";
}

/// The library's modules with their parameters' defaults, as their sources declare them (a test compares).
struct ModuleParameters {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::int64_t>> defaults;
};
const std::vector<ModuleParameters>& library_modules();

/// Errors as cost().
Result<Features> features(std::string_view module, const Parameters& parameters);

}  // namespace millrace::compiler::generators
