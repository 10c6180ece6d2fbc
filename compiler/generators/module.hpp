// Describes a hardware module to the compiler. Each module has a function `Module <name>()` in a file of modules/.
// CMake collects these functions, so a new module needs no entry in any list. Parameters and their defaults are read
// from the module's SystemVerilog in kernels/rtl.
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

/// The values of all parameters of one instance, including defaults.
class Values {
 public:
  /// Returns the values of all parameters of an instance. kInvalidInput if `parameters` names one that the module does
  /// not have.
  static Result<Values> of(const Module& module, const Parameters& parameters);

  std::int64_t operator[](std::string_view name) const;
  std::int64_t at(std::size_t i) const { return values_[i]; }  // value of the module's i-th parameter
  const Module& module() const { return *module_; }

 private:
  static constexpr std::size_t kMostParameters = 20;
  explicit Values(const Module& module) : module_(&module) {}

  const Module* module_;
  std::array<std::int64_t, kMostParameters> values_{};
};

/// How many beats of each stream make one frame.
struct Beats {
  std::vector<std::int64_t> in, out;  // one entry for each stream
};

/// A field of a line in a memory file of constants; the first field has the low bits. Calibration fills the field with
/// random values: normally distributed in `normal_bits` bits or, if `normal_bits` is 0, uniformly distributed from
/// `lowest` to `highest`.
struct ConstantField {
  std::int64_t bits = 1, normal_bits = 0, lowest = 0, highest = 0;
};

/// A memory file that the module reads, with the random content that a calibration run writes into it.
struct ConstantFile {
  std::string_view parameter, name;  // {"WFILE", "weights.hex"}
  /// Whether the module reads several files, whose names begin with the parameter's value.
  std::string suffix = {};
  std::int64_t lines = 1;
  std::vector<ConstantField> line;
};

struct Module {
  std::string_view name;  // "mr_mvu"
  /// Parameters in the order of declaration. If empty, they are read from kernels/rtl/*/<name>.sv.
  std::vector<std::pair<std::string_view, std::int64_t>> parameters = {};
  /// Parameters that may have any value. All others are sizes: at least 1, and bounded so that no count overflows.
  std::vector<std::string_view> any_value = {};
  /// Pairs of parameters: the second of a pair must divide the first.
  std::vector<std::pair<std::string_view, std::string_view>> divides = {};

  // Ports are called s (input) and m (output); a module with two inputs has s0 and s1.
  bool bundles_inputs = false, bundles_outputs = false;  // N streams share one port, part 0 in the low bits
  /// Returns the width of a line at the port l_, which receives loaded constants. Null if the module has no such port.
  std::int64_t (*load_bits)(const Values&) = nullptr;

  /// Adds the resources of an instance: exact counts, and terms whose coefficients are in kernels/catalog.yaml.
  void (*cost)(const Values&, Features&) = nullptr;

  // The timing of the modules that dataflows consist of. `play` simulates the handshake exactly. `latency` and
  // `interval` are estimates for exploration.
  TimingUnit (*play)(const PlayedInstance&, const Values&) = nullptr;
  /// Returns the cycles from the input beat that completes an output beat to that output beat; null means 1.
  std::uint64_t (*latency)(const Values&) = nullptr;
  /// Estimates the cycles for a frame from the number of its input beats and the number of its output beats. If this
  /// function is null, the estimate is the larger of the two numbers.
  std::uint64_t (*interval)(const Values&, std::uint64_t beats_in, std::uint64_t beats_out) = nullptr;

  /// Describes the memory files that a calibration run writes for an instance. Null if the module reads no files.
  std::vector<ConstantFile> (*constants)(const Values&) = nullptr;
  /// Returns the frame that the test bench sends at a measured `interval`. Null if the bench measures no cycles.
  Beats (*frame)(const Values&, std::int64_t interval) = nullptr;
};

/// Returns all modules, sorted by name.
const std::vector<Module>& all_modules();

/// Returns the module with this name, or null if there is none.
const Module* find_module(std::string_view name);

struct Term {
  std::string_view name;  // points to static storage
  double amount = 0;
};

/// The terms of an instance's cost model.
class Features {
 public:
  Cost exact;                 // dsp, ramb18, ramb36, uram and lutram; here lut equals lutram, and ff is 0
  std::vector<Term> lut, ff;  // LUTs and flip-flops of logic; a name occurs once per list

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

/// Whether a term belongs to a table of constants: such a term's name begins with "table". Every module uses mr_table's
/// coefficients for such terms.
inline bool is_table_term(std::string_view name) {
  return name.starts_with("table");
}

/// Returns the terms of an instance's cost. Errors are those of cost().
Result<Features> features(std::string_view module, const Parameters& parameters);

}  // namespace millrace::compiler::generators
