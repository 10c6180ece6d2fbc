#include "compiler/generators/timing.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators {
namespace {

/// Offers the beats of an input: all at the start, spread evenly over each frame's interval, or at given times.
struct Source {
  Wire* wire = nullptr;
  std::uint64_t beats = 0, frame_interval = 0;  // of one frame
  /// The cycles in which the only frame's beats arrive; null if no such times are set.
  const std::vector<std::uint64_t>* arrivals = nullptr;
  std::uint64_t left = 0, sent = 0;  // beats not yet sent, and beats sent

  bool waits() const { return left != 0 && !wire->valid; }  // whether the next beat is not due yet
  void offer(std::uint64_t now) {
    if (left == 0 || wire->valid) return;
    const std::uint64_t due = arrivals != nullptr
                                  ? (*arrivals)[sent]
                                  : sent / beats * frame_interval + sent % beats * frame_interval / beats;
    wire->valid = now >= due;
  }
  bool tick() {
    if (!wire->moves()) return false;
    wire->valid = false;
    --left;
    ++sent;
    return true;
  }
};

struct Sink {
  const Wire* wire = nullptr;
  std::uint64_t beats = 0, taken = 0;
  std::vector<std::uint64_t> times;  // cycles of all beats, recorded if arrivals are set
};

class Player {
 public:
  Player(const Netlist& netlist, const TimingOptions& options) : netlist_(netlist), options_(options) {}

  Result<Timing> run() {
    MILLRACE_TRY(build());
    std::uint64_t idle = 0;
    for (now_ = 0; done_.size() < options_.frames; ++now_) {
      idle = clock() ? 0 : idle + 1;
      if (idle > patience_) return standstill();
      if (done_.empty() && first_in_ && now_ - *first_in_ >= options_.most_latency)
        return Error(ErrorCode::kDoesNotFit, "timing: the first frame takes longer than " +
                                                 std::to_string(options_.most_latency) + " cycles");
      if (steady()) break;
    }
    return result();
  }

 private:
  Status build() {
    wires_.resize(netlist_.streams.size());
    high_water_.resize(netlist_.units.size());
    for (const auto& unit : netlist_.units) {
      MILLRACE_ASSIGN(TimingUnit made, play(unit, high_water_[steps_.size()]));
      if (made.offer) offers_.push_back(std::move(made.offer));
      steps_.push_back(std::move(made.step));
      patience_ += 2 * unit_cycles(netlist_, unit).interval;
    }
    for (std::size_t i = 0; i < netlist_.inputs.size(); ++i) {
      const auto s = netlist_.inputs[i];
      const std::uint64_t beats = netlist_.streams[s].beats;
      sources_.push_back({&wires_[s], beats, options_.frame_interval,
                          options_.arrivals.empty() ? nullptr : &options_.arrivals[i],
                          beats * options_.frames});
    }
    for (const auto s : netlist_.outputs) {
      wires_[s].ready = true;
      sinks_.push_back({&wires_[s], netlist_.streams[s].beats, 0, {}});
    }
    return {};
  }

  Result<TimingUnit> play(const Unit& unit, std::uint64_t& high_water) {
    const PlayedInstance instance{netlist_, unit, wires_, high_water, options_.unlimited_fifos};
    if (unit.wiring != Wiring::kNone) return play_through(instance);
    const Module* module = find_module(unit.instance.module);
    if (module == nullptr || module->play == nullptr)
      return Error(ErrorCode::kInternal,
                   "timing: there is no timing model of module '" + unit.instance.module + "'");
    MILLRACE_ASSIGN(const Values values, Values::of(*module, unit.instance.parameters));
    return module->play(instance, values);
  }

  /// Simulates one clock. Returns false if no beat entered or left the dataflow, and all input beats are already due.
  bool clock() {
    for (auto& source : sources_) source.offer(now_);
    for (const auto& offer : offers_) offer();
    bool moved = take_outputs();
    for (std::size_t i = steps_.size(); i-- > 0;) steps_[i]();
    for (auto& source : sources_) {
      const bool sent = source.tick();
      if (sent && !first_in_) first_in_ = now_;
      moved = moved || sent || source.waits();
    }
    if (taken_) finish_frames();
    return moved;
  }

  bool take_outputs() {
    taken_ = false;
    for (auto& sink : sinks_) {
      if (!sink.wire->valid) continue;
      ++sink.taken;
      taken_ = true;
      if (!options_.arrivals.empty()) sink.times.push_back(now_);
    }
    if (taken_ && !first_out_) first_out_ = now_;
    return taken_;
  }
  void finish_frames() {
    const std::uint64_t frame = done_.size() + 1;
    if (std::all_of(sinks_.begin(), sinks_.end(), [&](const Sink& s) { return s.taken >= s.beats * frame; }))
      done_.push_back(now_);
  }

  /// Whether the dataflow is in its steady state: the last three intervals are equal.
  bool steady() const {
    const std::size_t n = done_.size();
    if (n < 5 || options_.frame_interval != 0) return false;
    const std::uint64_t last = done_[n - 1] - done_[n - 2];
    return done_[n - 2] - done_[n - 3] == last && done_[n - 3] - done_[n - 4] == last;
  }

  Error standstill() const {
    std::string waiting;
    for (std::size_t s = 0; s < wires_.size(); ++s)
      if (wires_[s].valid && !wires_[s].ready)
        waiting += (waiting.empty() ? "" : ", ") + netlist_.streams[s].name;
    return Error(ErrorCode::kInternal,
                 "timing: the dataflow deadlocks after " + std::to_string(done_.size()) +
                     " frames; these streams are waiting: " + (waiting.empty() ? "none" : waiting));
  }

  Timing result() const {
    Timing timing;
    const std::size_t n = done_.size();
    timing.interval_cycles = n < 2 ? 0 : done_[n - 1] - done_[n - 2];
    timing.latency_cycles = done_.front() - *first_in_;
    timing.first_output_cycles = *first_out_ - *first_in_;
    timing.high_water = high_water_;
    timing.first_input_cycle = *first_in_;
    if (!options_.arrivals.empty())
      for (const auto& sink : sinks_) timing.departures.push_back(sink.times);
    return timing;
  }

  const Netlist& netlist_;
  const TimingOptions& options_;
  std::vector<Wire> wires_;
  std::vector<std::uint64_t> high_water_;  // one entry for each unit
  /// Called in each clock: first `offer` of the units that have this function, then `step` of every unit.
  std::vector<std::function<void()>> steps_, offers_;
  std::vector<Source> sources_;
  std::vector<Sink> sinks_;
  std::vector<std::uint64_t> done_;
  std::uint64_t now_ = 0;
  std::optional<std::uint64_t> first_in_, first_out_;  // the cycles of the first beats
  /// The simulation ends after this many clocks in which no beat enters or leaves. The number exceeds the total of the
  /// clocks that one frame takes in each unit.
  std::uint64_t patience_ = 1000;
  bool taken_ = false;
};

}  // namespace

Result<Timing> simulate(const Netlist& netlist, const TimingOptions& options) {
  return Player(netlist, options).run();
}

}  // namespace millrace::compiler::generators
