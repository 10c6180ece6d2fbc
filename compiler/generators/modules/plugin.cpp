#include "compiler/generators/plugin.hpp"

#include <algorithm>
#include <deque>

#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// A module that keeps the plugin's promise. It takes beats no faster than a frame in INTERVAL. Its first
/// output beat belongs to the LEADth of the input and its last to the last; each leaves LATENCY later. It
/// holds a frame.
class Promised {
 public:
  Promised(Wire& in, Wire& out, const Values& v, std::uint64_t beats_in, std::uint64_t beats_out)
      : in_(in),
        out_(out),
        interval_(static_cast<std::uint64_t>(v["INTERVAL"])),
        latency_(static_cast<std::uint64_t>(v["LATENCY"])),
        lead_(static_cast<std::uint64_t>(v["LEAD"])),
        beats_in_(beats_in),
        beats_out_(beats_out) {}
  void accept() { in_.ready = now_ >= due_ && pending_.size() <= beats_out_ + latency_; }
  void tick() {
    if (out_.moves()) pending_.pop_front();
    if (in_.moves()) {
      if (taken_ == 0) start_ = now_;
      ++taken_;
      due_ = start_ + taken_ * interval_ / beats_in_;
      for (; given_ < beats_out_ && needed(given_) <= taken_; ++given_) pending_.push_back(now_ + latency_);
      if (taken_ == beats_in_) taken_ = given_ = 0;
    }
    out_.valid = !pending_.empty() && pending_.front() <= now_ + 1;
    ++now_;
  }

 private:
  /// Input beats that output beat k needs.
  std::uint64_t needed(std::uint64_t k) const {
    if (beats_out_ == 1) return beats_in_;
    const std::uint64_t steps = beats_out_ - 1;
    return lead_ + ((beats_in_ - lead_) * k + steps - 1) / steps;
  }

  Wire &in_, &out_;
  std::uint64_t interval_, latency_, lead_, beats_in_, beats_out_;
  std::uint64_t now_ = 0, start_ = 0, due_ = 0, taken_ = 0, given_ = 0;
  std::deque<std::uint64_t> pending_;  // the cycles in which output beats are ready
};

std::unique_ptr<TimingUnit> play(const PlayedInstance& p, const Values& v) {
  return played<Promised>(p.in(), p.out(), v, p.netlist.streams[p.unit.inputs.front()].beats,
                          p.netlist.streams[p.unit.outputs.front()].beats);
}

void cost(const Values& v, Features& f) {
  const auto count = [&](std::string_view name) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(v[name], 0));
  };
  f.exact += {count("LUT"),    count("LUTRAM"), count("FF"),  count("DSP"),
              count("RAMB18"), count("RAMB36"), count("URAM")};
}

}  // namespace

/// Any module that a plugin writes. Nothing checks the plugin's figures here.
Module plugin() {
  return {
      .name = kPluginModule,
      .parameters = {{"INTERVAL", 1},
                     {"LATENCY", 1},
                     {"LEAD", 1},
                     {"LUT", 0},
                     {"LUTRAM", 0},
                     {"FF", 0},
                     {"DSP", 0},
                     {"RAMB18", 0},
                     {"RAMB36", 0},
                     {"URAM", 0}},
      .any_value = {"INTERVAL", "LATENCY", "LEAD", "LUT", "LUTRAM", "FF", "DSP", "RAMB18", "RAMB36", "URAM"},
      .cost = cost,
      .play = play,
      .latency = [](const Values& v) { return static_cast<std::uint64_t>(v["LATENCY"]); },
      .interval = [](const Values& v, std::uint64_t,
                     std::uint64_t) { return static_cast<std::uint64_t>(v["INTERVAL"]); }};
}

}  // namespace millrace::compiler::generators::modules
