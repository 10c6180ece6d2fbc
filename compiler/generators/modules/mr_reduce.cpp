#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t depth = std::max<std::int64_t>(v["CF"], 2);
  add_pool_lanes(f, v, depth, clog2(v["CF"]) + clog2(v["TAPS"]), 1,
                 simple_dual_port(v["SIMD"] * v["OBITS"], depth, MemoryStyle::kDistributed));
}

std::unique_ptr<TimingUnit> play(const PlayedInstance& p, const Values& v) {
  return played<LastRound>(p.in(), p.out(), 1U, v["TAPS"], v["CF"]);
}

}  // namespace

Module mr_reduce() {
  return {.name = "mr_reduce",
          .any_value = {"OP", "AKIND"},
          .cost = cost,
          .play = play,
          .frame = [](const Values& v, std::int64_t) {
            return Beats{{v["TAPS"] * v["CF"]}, {v["CF"]}};
          }};
}

}  // namespace millrace::compiler::generators::modules
