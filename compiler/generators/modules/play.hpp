// The handshake and the counters of a module, without data. Private to compiler/generators.
//
// A clock has two phases. First, valids that pass through combinationally (offer(), in topological order).
// Then, from the outputs back, each unit's readies and its clock edge (step()): a unit reads its input wires
// and writes its output wires, and its readers went before it. A unit's registers are its members; names are
// the modules'.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/generators/module.hpp"

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

/// An instance to be played, and the wires of its netlist's streams.
struct PlayedInstance {
  const Netlist& netlist;
  const Unit& unit;
  std::vector<Wire>& wires;
  bool unlimited_fifos = false;

  Wire& in(std::size_t i = 0) const { return wires[unit.inputs[i]]; }
  Wire& out() const { return wires[unit.outputs.front()]; }
  std::vector<Wire*> all(const std::vector<StreamIndex>& streams) const {
    std::vector<Wire*> found;
    for (const auto s : streams) found.push_back(&wires[s]);
    return found;
  }
};

/// `s_ready = en`, and a beat leaves `delay` enabled clocks after it was taken (1: only m_valid is a
/// register).
class Pipeline {
 public:
  Pipeline(Wire& in, Wire& out, std::uint64_t delay) : in_(in), out_(out), stages_(delay - 1) {}
  void accept() { in_.ready = enabled(); }
  void tick() {
    if (enabled()) shift(in_.valid);
  }

 protected:
  bool enabled() const { return !out_.valid || out_.ready; }
  void shift(bool token) {
    flags_ = flags_ << 1 | (token ? 1U : 0U);
    out_.valid = (flags_ >> stages_ & 1U) != 0;
  }
  Wire &in_, &out_;

 private:
  std::uint64_t stages_, flags_ = 0;
};

/// Bare wires, and adapters between equal widths.
class Through {
 public:
  Through(Wire& in, Wire& out) : in_(in), out_(out) {}
  void offer() { out_.valid = in_.valid; }
  void accept() { in_.ready = out_.ready; }
  void tick() {}

 private:
  Wire &in_, &out_;
};

/// Of TAPS rounds over the folds, the last one's beats leave.
class LastRound : public Pipeline {
 public:
  LastRound(Wire& in, Wire& out, unsigned delay, std::int64_t taps, std::int64_t folds)
      : Pipeline(in, out, delay), before_((taps - 1) * folds), all_(taps * folds) {}
  void tick() {
    if (!enabled()) return;
    shift(in_.valid && at_ >= before_);
    if (in_.valid && ++at_ == all_) at_ = 0;
  }

 private:
  std::int64_t before_, all_, at_ = 0;
};

/// mr_fork and mr_split.
class Fork {
 public:
  Fork(Wire& in, std::vector<Wire*> out) : in_(in), out_(std::move(out)), served_(out_.size(), false) {}
  void offer() {
    for (std::size_t i = 0; i < out_.size(); ++i) out_[i]->valid = in_.valid && !served_[i];
  }
  void accept() {
    in_.ready = true;
    for (std::size_t i = 0; i < out_.size(); ++i) in_.ready = in_.ready && (served_[i] || out_[i]->ready);
  }
  void tick() {
    for (std::size_t i = 0; i < out_.size(); ++i)
      served_[i] = !in_.moves() && (served_[i] || (in_.valid && out_[i]->ready));
  }

 private:
  Wire& in_;
  std::vector<Wire*> out_;
  std::vector<bool> served_;
};

template <class Model, class... Arguments>
std::unique_ptr<TimingUnit> played(Arguments&&... arguments) {
  return std::make_unique<Played<Model>>(std::forward<Arguments>(arguments)...);
}

/// `play` of a module that is a pipeline of latency() stages.
inline std::unique_ptr<TimingUnit> play_pipeline(const PlayedInstance& p, const Values& v) {
  return played<Pipeline>(p.in(), p.out(), v.module().latency(v));
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

/// `frame` of a module that works on vectors of CHANNELS, PE a beat.
inline Beats vectors_frame(const Values& v, std::int64_t) {
  constexpr std::int64_t kVectors = 10;
  const std::int64_t beats = kVectors * v["CHANNELS"] / v["PE"];
  return {{beats}, {beats}};
}

}  // namespace millrace::compiler::generators
