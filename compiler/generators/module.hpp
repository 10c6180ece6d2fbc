// A hardware module as the compiler knows it. A file in modules/ describes each module in a function `Module
// <name>()`; CMake collects these functions, so a new module needs no entry in any list. Parameters and their
// defaults are read from the module's SystemVerilog in kernels/rtl.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::generators {

struct Module;
class Features;
struct TimingUnit;
struct PlayedInstance;

/// The values of all parameters of one instance, defaults included.
class Values {
 public:
  /// kInvalidInput where the module has no such parameter.
  static Result<Values> of(const Module& module, const Parameters& parameters);

  std::int64_t operator[](std::string_view name) const;
  std::int64_t at(std::size_t i) const { return values_[i]; }  // of the module's i-th parameter
  const Module& module() const { return *module_; }

 private:
  static constexpr std::size_t kMostParameters = 20;
  explicit Values(const Module& module) : module_(&module) {}

  const Module* module_;
  std::array<std::int64_t, kMostParameters> values_{};
};

/// Beats of a frame.
struct Beats {
  std::vector<std::int64_t> in, out;  // a stream each
};

/// A part of a line of constants, low bits first: `normal_bits` of a normal distribution, or, where that is
/// 0, uniform between two bounds.
struct ConstantField {
  std::int64_t bits = 1, normal_bits = 0, lowest = 0, highest = 0;
};

/// What a calibration run writes for a file that the module reads.
struct ConstantFile {
  std::string_view parameter, name;  // {"WFILE", "weights.hex"}
  std::string suffix = {};           // of one of several files whose names begin with the parameter's value
  std::int64_t lines = 1;
  std::vector<ConstantField> line;
};

struct Module {
  std::string_view name;  // "mr_mvu"
  /// In the order of declaration. Empty: those that kernels/rtl/*/<name>.sv declares.
  std::vector<std::pair<std::string_view, std::int64_t>> parameters = {};
  /// Parameters that may have any value. All others are sizes: at least 1, and bounded so that no count
  /// overflows.
  std::vector<std::string_view> any_value = {};
  /// Pairs of parameters of which the second divides the first.
  std::vector<std::pair<std::string_view, std::string_view>> divides = {};

  // Ports: streams s and m; s0 and s1 where there are two inputs.
  bool bundles_inputs = false, bundles_outputs = false;  // N streams share one port, part 0 in the low bits
  std::int64_t (*load_bits)(const Values&) = nullptr;    // of a line at its l_ port; null: it has none

  /// Adds the resources of an instance: exact counts, and terms whose coefficients are in kernels/catalog.yaml.
  void (*cost)(const Values&, Features&) = nullptr;

  // Timing of the modules that a dataflow consists of. `play` is exact; the other two are estimates for
  // exploration.
  TimingUnit (*play)(const PlayedInstance&, const Values&) = nullptr;
  std::uint64_t (*latency)(const Values&) = nullptr;  // from the beat that completes an output to it; null: 1
  /// Cycles of a frame with these numbers of beats. Null: the larger number.
  std::uint64_t (*interval)(const Values&, std::uint64_t beats_in, std::uint64_t beats_out) = nullptr;

  // Calibration.
  std::vector<ConstantFile> (*constants)(const Values&) = nullptr;
  /// The frame that the bench sends; `interval` is the interval that it measured. Null: it measures no cycles.
  Beats (*frame)(const Values&, std::int64_t interval) = nullptr;
};

/// All modules, ascending by name.
const std::vector<Module>& all_modules();

/// Null if there is no module of that name.
const Module* find_module(std::string_view name);

struct Term {
  std::string_view name;  // static storage
  double amount = 0;
};

/// What the cost of an instance consists of.
class Features {
 public:
  Cost exact;                 // dsp, ramb18, ramb36, uram, lutram; lut = lutram; ff = 0
  std::vector<Term> lut, ff;  // of logic; each name occurs once in a list

  template <class Amount>
  void add_lut(std::string_view name, Amount amount) {
    add(lut, name, static_cast<double>(amount));
  }
  template <class Amount>
  void add_ff(std::string_view name, Amount amount) {
    add(ff, name, static_cast<double>(amount));
  }
  template <class Amount>
  void add_both(std::string_view name, Amount amount) {
    add_lut(name, amount);
    add_ff(name, amount);
  }
  void add_slices(std::uint64_t each, std::int64_t count) {
    exact.dsp += each * static_cast<std::uint64_t>(count);
  }

 private:
  static void add(std::vector<Term>& terms, std::string_view name, double amount);
};

/// Terms of tables of constants, named "table…". Their coefficients are those of mr_table in every module.
inline bool is_table_term(std::string_view name) {
  return name.starts_with("table");
}

/// Errors as cost().
Result<Features> features(std::string_view module, const Parameters& parameters);

}  // namespace millrace::compiler::generators
