// The FPGA resources of an instance of a hardware module.
//
// DSP slices, block RAM and LUTs used as memory are exact: they follow the mapping rules of Yosys 0.23's
// synth_xilinx for UltraScale. LUTs of logic and flip-flops are fitted sums (catalog.hpp). All is as Yosys
// leaves it, which packs neither adders nor registers into DSP48E2. Vivado would need fewer LUTs and FFs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/generators/netlist.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::generators {

/// Primitives of one instance or of many. Block RAM is counted in the sizes the tools map to; two RAMB18
/// share one RAMB36 site, so add Costs up first and take resources() of the sum.
struct Cost {
  std::uint64_t lut = 0;     // all LUTs, those used as memory included
  std::uint64_t lutram = 0;  // of these, used as memory
  std::uint64_t ff = 0, dsp = 0, ramb18 = 0, ramb36 = 0, uram = 0;

  Cost& operator+=(const Cost& other);
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
  bool operator==(const Cost&) const = default;

  /// In a device's units: bram36 = ramb36 + ramb18 / 2, rounded up.
  runtime::plan::Resources resources() const;
};

/// The cost of one instance. Memory contents are not known here: tables in LUTs are assumed to hold values
/// without pattern. If no measurement of the module has a term, its coefficient is the largest that any module
/// has for that term, or 1 if no module was measured with it (extrapolations() names such terms). kNotFound: no
/// such module in the library; kInvalidInput: an unknown parameter, or values that no instance can have. Takes
/// about a microsecond; any thread.
Result<Cost> cost(const Catalog& catalog, std::string_view module, const Parameters& parameters);

/// A term of a module's cost that was never measured: the catalogue has no coefficient for it.
struct Extrapolation {
  std::string module;  // "mr_egress"
  std::string figure;  // "lut" or "ff"
  std::string term;    // of module.hpp: "down"
  auto operator<=>(const Extrapolation&) const = default;
};

/// The terms of an instance that cost() extrapolates, LUTs first. Empty where cost() fails; any thread.
std::vector<Extrapolation> extrapolations(const Catalog& catalog, std::string_view module,
                                          const Parameters& parameters);

/// The time of a block on the host, in seconds: measured with kernels/fast in one thread on the catalogue's
/// machine. 0 for an operation that the catalogue does not have.
double host_seconds(const Catalog& catalog, const kernels::Program& program, const kernels::Block& block);

}  // namespace millrace::compiler::generators
