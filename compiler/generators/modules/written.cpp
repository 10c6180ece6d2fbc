// Describes modules whose SystemVerilog is written for a partition, so that they are in no folder of kernels/rtl.
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
  // Simulates what the plugin promises. The unit accepts a frame's beats evenly over INTERVAL. The first output beat
  // needs LEAD input beats, and the last output beat needs all. Each output beat leaves LATENCY cycles after the input
  // that it needs. The unit stores at most a frame.
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    const auto count = [&](std::string_view name) { return static_cast<std::uint64_t>(v[name]); };
    const std::uint64_t beats_in = p.netlist.streams[p.unit.inputs.front()].beats,
                        beats_out = p.netlist.streams[p.unit.outputs.front()].beats;
    const auto needed = [=, lead = count("LEAD")](std::uint64_t k) {  // input beats that output beat k needs
      if (beats_out == 1) return beats_in;
      const std::uint64_t steps = beats_out - 1;
      return lead + ((beats_in - lead) * k + steps - 1) / steps;
    };
    std::uint64_t now = 0, start = 0, due = 0, taken = 0, given = 0;
    std::deque<std::uint64_t> pending;  // the cycles in which waiting output beats are ready
    return {[=, &in = p.in(), &out = p.out(), interval = count("INTERVAL"),
             latency = count("LATENCY")]() mutable {
      in.ready = now >= due && pending.size() <= beats_out + latency;
      if (out.moves()) pending.pop_front();
      if (in.moves()) {
        if (taken == 0) start = now;
        ++taken;
        due = start + taken * interval / beats_in;
        for (; given < beats_out && needed(given) <= taken; ++given) pending.push_back(now + latency);
        if (taken == beats_in) taken = given = 0;
      }
      out.valid = !pending.empty() && pending.front() <= now + 1;
      ++now;
    }};
  };
  m.latency = [](const Values& v) { return static_cast<std::uint64_t>(v["LATENCY"]); };
  m.interval = [](const Values& v, std::uint64_t, std::uint64_t) {
    return static_cast<std::uint64_t>(v["INTERVAL"]);
  };
  return m;
}

}  // namespace millrace::compiler::generators::modules
