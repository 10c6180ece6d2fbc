// The handshake and the counters of each module of kernels/rtl, without data. Private to compiler/generators.
//
// In each clock: valids that pass through combinationally (offer(), in topological order), then readies
// (accept(), from the outputs back), then the clock edge (tick()). A unit's registers are its members; names
// are the modules'.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::generators {

/// A stream's wires in this clock.
struct Wire {
  bool valid = false, ready = false;
  bool moves() const { return valid && ready; }
};

class TimingUnit {
 public:
  virtual ~TimingUnit() = default;
  virtual void offer() {}     // outputs' valid, where it depends on this clock's inputs
  virtual void accept() = 0;  // inputs' ready
  virtual void tick() = 0;    // the clock edge; sets outputs' valid where that is a register
  virtual bool combinational() const { return false; }  // has an offer()
  virtual std::uint64_t high_water() const { return 0; }
};

/// Null where the library has no such module. `wires`: one a stream of the netlist, stays where it is.
std::unique_ptr<TimingUnit> make_timing_unit(const Netlist& netlist, const Unit& unit,
                                             std::vector<Wire>& wires, bool unlimited_fifos);

}  // namespace millrace::compiler::generators
