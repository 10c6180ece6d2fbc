#include "compiler/generators/modules/play.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  f.add_lut("one", 1);
  f.add_lut("add", v["ADDBITS"]);
  f.add_lut("adder", v["ADDERS"]);
  f.add_ff("one", 1);
  f.add_ff("flags", v["LATENCY"]);
  f.add_ff("value", v["REGBITS"]);
}

}  // namespace

/// Written for its constants: it is in no folder of kernels/rtl.
Module mr_unrolled() {
  return {.name = kUnrolledModule,
          .parameters = {{"MH", 1},
                         {"MW", 1},
                         {"ABITS", 8},
                         {"ACCBITS", 16},
                         {"LATENCY", 1},
                         {"ADDERS", 0},
                         {"ADDBITS", 0},
                         {"REGBITS", 0}},
          .any_value = {"LATENCY", "ADDERS", "ADDBITS", "REGBITS"},
          .cost = cost,
          .play = play_pipeline,
          .latency = [](const Values& v) { return static_cast<std::uint64_t>(v["LATENCY"]); }};
}

}  // namespace millrace::compiler::generators::modules
