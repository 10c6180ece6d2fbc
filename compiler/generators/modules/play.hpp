// The handshake and the counters of a module, without data. Private to compiler/generators.
//
// A clock has two phases. First, valids that pass through combinationally (`offer`, in topological order).
// Then, from the outputs back, each unit's readies and its clock edge (`step`): a unit reads its input wires
// and writes its output wires, and its readers went before it. What a function captures are the unit's wires and
// registers; registers are called as in the module's SystemVerilog.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators {

/// A stream's wires in this clock.
struct Wire {
  bool valid = false, ready = false;
  bool moves() const { return valid && ready; }
  /// Whether the register that drives `valid` may take a new value.
  bool free() const { return !valid || ready; }
};

struct TimingUnit {
  std::function<void()> step;  // inputs' ready; then the clock edge, which sets valids that are registers
  std::function<void()> offer = {};  // outputs' valid, if it depends on this clock's inputs
};

/// An instance to be played, and the wires of its netlist's streams.
struct PlayedInstance {
  const Netlist& netlist;
  const Unit& unit;
  std::vector<Wire>& wires;
  std::uint64_t& high_water;  // the most beats that a FIFO held so far
  bool unlimited_fifos = false;

  Wire& in(std::size_t i = 0) const { return wires[unit.inputs[i]]; }
  Wire& out() const { return wires[unit.outputs.front()]; }
  std::vector<Wire*> all(const std::vector<StreamIndex>& streams) const {
    std::vector<Wire*> found;
    for (const auto s : streams) found.push_back(&wires[s]);
    return found;
  }
};

/// Passes a valid on after `clocks` enabled clocks.
class Delay {
 public:
  explicit Delay(std::uint64_t clocks) : stages_(clocks - 1) {}
  bool operator()(bool valid) {
    flags_ = flags_ << 1 | (valid ? 1U : 0U);
    return (flags_ >> stages_ & 1U) != 0;
  }

 private:
  std::uint64_t stages_, flags_ = 0;
};

/// A unit that takes a beat in every clock in which its output may move. In each such clock `leaves` gets the
/// input's valid and returns whether a beat sets out; the beat is at the output `clocks` later (1: only m_valid
/// is a register).
template <class Leaves>
TimingUnit pipeline(const PlayedInstance& p, std::uint64_t clocks, Leaves leaves) {
  return {[&in = p.in(), &out = p.out(), delay = Delay(clocks), leaves]() mutable {
    in.ready = out.free();
    if (in.ready) out.valid = delay(leaves(in.valid));
  }};
}

/// `play` of a module that is a pipeline of latency() stages.
inline TimingUnit play_pipeline(const PlayedInstance& p, const Values& v) {
  return pipeline(p, v.module().latency(v), [](bool valid) { return valid; });
}

/// A pipeline from which only the beats of the last of `taps` rounds over the folds leave.
inline TimingUnit play_last_round(const PlayedInstance& p, std::uint64_t clocks, std::int64_t taps,
                                  std::int64_t folds) {
  return pipeline(p, clocks, [=, at = std::int64_t{0}](bool valid) mutable {
    const bool leaves = valid && at >= (taps - 1) * folds;
    if (valid && ++at == taps * folds) at = 0;
    return leaves;
  });
}

/// Bare wires, and adapters between equal widths.
inline TimingUnit play_through(const PlayedInstance& p) {
  return {.step = [&in = p.in(), &out = p.out()] { in.ready = out.ready; },
          .offer = [&in = p.in(), &out = p.out()] { out.valid = in.valid; }};
}

/// A module's latency, where it is the same for all parameters.
template <std::uint64_t kCycles>
std::uint64_t always(const Values&) {
  return kCycles;
}

/// `frame` of a module that passes beats on: a frame is as long as the bench likes.
inline Beats passing_frame(const Values&, std::int64_t interval) {
  return {{interval}, {interval}};
}

}  // namespace millrace::compiler::generators
