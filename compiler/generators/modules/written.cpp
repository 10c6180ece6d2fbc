// Describes modules whose SystemVerilog the compiler generates for a partition. Such modules are not in kernels/rtl.
#include <algorithm>
#include <deque>

#include "compiler/generators/modules/play.hpp"
#include "compiler/generators/plugin.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators::modules {

/// Describes a matrix of constants as shifts and adders (unrolled.hpp).
Module mr_unrolled() {
  Module m{.name = kUnrolledModule, .play = play_pipeline};
  m.parameters = {{"MH", 1},      {"MW", 1},     {"ABITS", 8},   {"ACCBITS", 16},
                  {"LATENCY", 1}, {"ADDERS", 0}, {"ADDBITS", 0}, {"REGBITS", 0}};
  m.any_value = {"LATENCY", "ADDERS", "ADDBITS", "REGBITS"};
  m.cost = [](const Values& v, Features& f) {
    f.add_lut("one", 1);
    f.add_lut("add", v["ADDBITS"]);
    f.add_lut("adder", v["ADDERS"]);
    f.add_ff("one", 1);
    f.add_ff("flags", v["LATENCY"]);
    f.add_ff("value", v["REGBITS"]);
  };
  m.latency = [](const Values& v) { return static_cast<std::uint64_t>(v["LATENCY"]); };
  return m;
}

/// Simulates what a plugin promises. The unit accepts the beats of each input evenly over INTERVAL. The first beat of an
/// output needs the fraction LEAD of each input's beats, and the last beat needs all of them. Each output beat leaves
/// LATENCY cycles after the last input beat that it needs. The unit stores at most a frame.
class PromisedUnit {
 public:
  PromisedUnit(const PlayedInstance& p, const Values& v)
      : interval_(static_cast<std::uint64_t>(v["INTERVAL"])),
        latency_(static_cast<std::uint64_t>(v["LATENCY"])) {
    const auto lead = static_cast<std::uint64_t>(v["LEAD"]);  // in beats of the first input
    const std::uint64_t first = p.netlist.streams[p.unit.inputs.front()].beats;
    for (const StreamIndex s : p.unit.inputs) {
      const std::uint64_t beats = p.netlist.streams[s].beats;
      inputs_.push_back({&p.wires[s], beats, (lead * beats + first - 1) / first});
    }
    for (const StreamIndex s : p.unit.outputs)
      outputs_.push_back({&p.wires[s], p.netlist.streams[s].beats, 0, {}});
  }

  void operator()() {
    const bool room = std::all_of(outputs_.begin(), outputs_.end(), [&](const Output& out) {
      return out.pending.size() <= out.beats + latency_;
    });
    for (Output& out : outputs_)
      if (out.wire->moves()) out.pending.pop_front();
    for (Input& in : inputs_) in.wire->ready = room && now_ >= in.due && in.taken < in.beats;
    if (std::any_of(inputs_.begin(), inputs_.end(), [](const Input& in) { return in.wire->moves(); })) take();
    for (Output& out : outputs_) out.wire->valid = !out.pending.empty() && out.pending.front() <= now_ + 1;
    ++now_;
  }

 private:
  struct Input {
    Wire* wire;
    std::uint64_t beats, lead;
    std::uint64_t taken = 0;  // beats of the current frame
    std::uint64_t due = 0;    // the cycle from which on the next beat is accepted
  };
  struct Output {
    Wire* wire;
    std::uint64_t beats, given;  // given: beats of the current frame that are in `pending` or have left
    std::deque<std::uint64_t> pending;  // the cycles in which waiting beats are ready
  };

  /// Whether input `in` has received all beats that beat k of the output needs.
  static bool suffices(const Input& in, const Output& out, std::uint64_t k) {
    if (out.beats == 1) return in.taken == in.beats;
    const std::uint64_t steps = out.beats - 1;
    return in.lead + ((in.beats - in.lead) * k + steps - 1) / steps <= in.taken;
  }

  /// Takes the beats that move in this cycle.
  void take() {
    const auto starts = [](const Input& in) { return in.taken == 0; };
    if (std::all_of(inputs_.begin(), inputs_.end(), starts)) start_ = now_;
    for (Input& in : inputs_) {
      if (!in.wire->moves()) continue;
      ++in.taken;
      in.due = start_ + in.taken * interval_ / in.beats;
    }
    for (Output& out : outputs_) {
      const auto ready = [&](const Input& in) { return suffices(in, out, out.given); };
      for (; out.given < out.beats && std::all_of(inputs_.begin(), inputs_.end(), ready); ++out.given)
        out.pending.push_back(now_ + latency_);
    }
    if (!std::all_of(inputs_.begin(), inputs_.end(), [](const Input& in) { return in.taken == in.beats; }))
      return;
    for (Input& in : inputs_) in.taken = 0;
    for (Output& out : outputs_) out.given = 0;
  }

  std::uint64_t interval_, latency_;
  std::uint64_t now_ = 0, start_ = 0;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

/// Describes any module that a plugin writes. The plugin's figures are not checked here.
Module plugin() {
  Module m{.name = kPluginModule};
  for (const char* name :
       {"INTERVAL", "LATENCY", "LEAD", "LUT", "LUTRAM", "FF", "DSP", "RAMB18", "RAMB36", "URAM"}) {
    m.parameters.emplace_back(name, m.parameters.size() < 3 ? 1 : 0);
    m.any_value.emplace_back(name);
  }
  m.cost = [](const Values& v, Features& f) {
    const auto count = [&](std::string_view name) {
      return static_cast<std::uint64_t>(std::max<std::int64_t>(v[name], 0));
    };
    f.exact += {count("LUT"),    count("LUTRAM"), count("FF"),  count("DSP"),
                count("RAMB18"), count("RAMB36"), count("URAM")};
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit { return {PromisedUnit(p, v)}; };
  m.latency = [](const Values& v) { return static_cast<std::uint64_t>(v["LATENCY"]); };
  m.interval = [](const Values& v, std::uint64_t, std::uint64_t) {
    return static_cast<std::uint64_t>(v["INTERVAL"]);
  };
  return m;
}

}  // namespace millrace::compiler::generators::modules
