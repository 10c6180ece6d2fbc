// The handshake and the counters of each module of kernels/rtl, without data. Private to compiler/generators.
//
// In each clock: valids that pass through combinationally (offer(), in topological order), then, from the
// outputs back, each unit's readies and its clock edge (step()): a unit reads its input wires and writes its
// output wires, and its readers went before it. A unit's registers are its members; names are the modules'.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
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
  virtual void offer() = 0;  // outputs' valid, where it depends on this clock's inputs
  virtual void step() = 0;   // inputs' ready; then the clock edge, which sets valids that are registers
  virtual bool combinational() const = 0;  // has an offer()
  virtual std::uint64_t high_water() const = 0;
};

/// A unit of accept() (inputs' ready) and tick() (the clock edge), perhaps offer() and high_water().
template <class Model>
class Played final : public TimingUnit {
 public:
  template <class... Arguments>
  explicit Played(Arguments&&... arguments) : model_(std::forward<Arguments>(arguments)...) {}
  void offer() override {
    if constexpr (requires(Model m) { m.offer(); }) model_.offer();
  }
  void step() override {
    model_.accept();
    model_.tick();
  }
  bool combinational() const override {
    return requires(Model m) {
      m.offer();
    };
  }
  std::uint64_t high_water() const override {
    if constexpr (requires(const Model m) { m.high_water(); }) return model_.high_water();
    return 0;
  }

 private:
  Model model_;
};

/// Null where the library has no such module. `wires`: one a stream of the netlist, stays where it is.
std::unique_ptr<TimingUnit> make_timing_unit(const Netlist& netlist, const Unit& unit,
                                             std::vector<Wire>& wires, bool unlimited_fifos);

}  // namespace millrace::compiler::generators
