// Simulates the handshake and the counters of hardware modules, without data. Private to compiler/generators.
//
// A clock has two phases. First, the `offer` functions run in topological order: they set the valids that depend
// combinationally on inputs. Then the `step` functions run from the outputs back: each sets a unit's readies and
// performs its clock edge, after the units that read its outputs. A function captures the unit's wires and registers.
// Registers have the same names as in the module's SystemVerilog.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators {

/// The handshake wires of a stream in the current clock.
struct Wire {
  bool valid = false, ready = false;
  bool moves() const { return valid && ready; }
  /// Whether the register that drives `valid` may take a new value.
  bool free() const { return !valid || ready; }
};

struct TimingUnit {
  /// Sets the ready signals of the unit's inputs, then performs the clock edge, which updates the registered valid
  /// signals.
  std::function<void()> step;
  std::function<void()> offer = {};  // sets valid of outputs if it depends on this clock's inputs
};

/// An instance to be simulated, and the wires of its netlist's streams.
struct PlayedInstance {
  const Netlist& netlist;
  const Unit& unit;
  std::vector<Wire>& wires;
  std::uint64_t& high_water;  // maximum number of beats that a FIFO has stored so far
  bool unlimited_fifos = false;

  Wire& in(std::size_t i = 0) const { return wires[unit.inputs[i]]; }
  Wire& out() const { return wires[unit.outputs.front()]; }
  std::vector<Wire*> all(const std::vector<StreamIndex>& streams) const {
    std::vector<Wire*> found;
    for (const auto s : streams) found.push_back(&wires[s]);
    return found;
  }
};

/// Delays a valid signal by `clocks` enabled clocks.
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

/// Simulates a unit that accepts a beat in every clock in which its output may move. In each such clock, `leaves` is
/// called with the input's valid and returns whether a beat enters the pipeline. The beat reaches the output after
/// `clocks` clocks. (If `clocks` is 1, only m_valid is a register.)
template <class Leaves>
TimingUnit pipeline(const PlayedInstance& p, std::uint64_t clocks, Leaves leaves) {
  return {[&in = p.in(), &out = p.out(), delay = Delay(clocks), leaves]() mutable {
    in.ready = out.free();
    if (in.ready) out.valid = delay(leaves(in.valid));
  }};
}

/// The `play` function of a module that is a pipeline with latency() stages.
inline TimingUnit play_pipeline(const PlayedInstance& p, const Values& v) {
  return pipeline(p, v.module().latency(v), [](bool valid) { return valid; });
}

/// Simulates a pipeline that repeats `taps` rounds of `folds` beats. Only the beats of the last round leave it.
inline TimingUnit play_last_round(const PlayedInstance& p, std::uint64_t clocks, std::int64_t taps,
                                  std::int64_t folds) {
  return pipeline(p, clocks, [=, at = std::int64_t{0}](bool valid) mutable {
    const bool leaves = valid && at >= (taps - 1) * folds;
    if (valid && ++at == taps * folds) at = 0;
    return leaves;
  });
}

/// Simulates wires, and adapters between equal widths.
inline TimingUnit play_through(const PlayedInstance& p) {
  return {.step = [&in = p.in(), &out = p.out()] { in.ready = out.ready; },
          .offer = [&in = p.in(), &out = p.out()] { out.valid = in.valid; }};
}

/// The `latency` function of a module whose latency does not depend on its parameters.
template <std::uint64_t kCycles>
std::uint64_t always(const Values&) {
  return kCycles;
}

/// The `frame` function of a module that passes beats on: its frame has as many beats as the bench asks for.
inline Beats passing_frame(const Values&, std::int64_t interval) {
  return {{interval}, {interval}};
}

}  // namespace millrace::compiler::generators
