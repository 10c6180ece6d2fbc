#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {

Module mr_split() {
  return {
      .name = "mr_split",
      .bundles_outputs = true,
      .cost = [](const Values& v, Features& f) { f.add_both("readers", v["N"]); },
      .play = [](const PlayedInstance& p,
                 const Values&) { return played<Fork>(p.in(), p.all(p.unit.outputs)); },
      .latency = always<0>,
      .frame =
          [](const Values& v, std::int64_t interval) {
            return Beats{{interval}, std::vector<std::int64_t>(static_cast<std::size_t>(v["N"]), interval)};
          }};
}

}  // namespace millrace::compiler::generators::modules
