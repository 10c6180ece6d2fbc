// The FPGA resources of an instance of a hardware module.
//
// DSP slices, block RAM and LUTs used as memory are exact: they follow the mapping rules of Yosys 0.23's synth_xilinx
// for UltraScale. LUTs of logic and flip-flops are fitted sums (catalog.hpp). All figures describe the output of Yosys,
// which packs neither adders nor registers into DSP48E2. Vivado would need fewer LUTs and flip-flops.
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

/// The primitives of one or more instances. Block RAM is counted in the sizes that the tools map to. Two RAMB18 share
/// one RAMB36 site, so add up all Costs first and call resources() on the sum.
struct Cost {
  std::uint64_t lut = 0;     // all LUTs, including those used as memory
  std::uint64_t lutram = 0;  // the part of `lut` that is used as memory
  std::uint64_t ff = 0, dsp = 0, ramb18 = 0, ramb36 = 0, uram = 0;

  Cost& operator+=(const Cost& other);
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
  bool operator==(const Cost&) const = default;

  /// Converts the cost to the units of a device's description: bram36 is ramb36 + ramb18 / 2, rounded up.
  runtime::plan::Resources resources() const;
};

/// Returns the cost of one instance. It does not depend on memory contents: tables in LUTs are assumed to contain
/// values without pattern. If no measurement of the module has a term, the largest coefficient of that term in any
/// module is used, or 1 if no module has one (extrapolations() names such terms). kNotFound: the library has no such
/// module. kInvalidInput: a parameter is unknown, or no instance can have these values. Any thread may call this
/// function, which takes about a microsecond.
Result<Cost> cost(const Catalog& catalog, std::string_view module, const Parameters& parameters);

/// A term of a module's cost that was never measured: the catalogue has no coefficient for it.
struct Extrapolation {
  std::string module;  // "mr_egress"
  std::string figure;  // "lut" or "ff"
  std::string term;    // a name in module.hpp's Features: "down"
  auto operator<=>(const Extrapolation&) const = default;
};

/// Returns the terms of the cost model that cost() extrapolates for an instance, LUTs first; none if cost() fails. Any
/// thread may call it.
std::vector<Extrapolation> extrapolations(const Catalog& catalog, std::string_view module,
                                          const Parameters& parameters);

/// Returns the time of a block on the host in seconds, computed from measurements of kernels/fast in one thread on the
/// catalogue's machine. Returns 0 for an operation that the catalogue does not contain.
double host_seconds(const Catalog& catalog, const kernels::Program& program, const kernels::Block& block);

}  // namespace millrace::compiler::generators
