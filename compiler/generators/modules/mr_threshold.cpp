#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// Lines of thresholds at the search's first level.
std::int64_t lines(const Values& v) {
  return v["UNIFORM"] != 0 ? 1 : v["CHANNELS"] / v["PE"];
}

void cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], nf = lines(v), acc = v["ACCBITS"], levels = v["OBITS"];
  f.add_both("one", 1);
  f.add_both("counter", clog2(nf));
  f.add_lut("compare", pe * levels * (acc + 1));
  f.add_ff("flags", levels);
  f.add_ff("input", pe * levels * acc);
  f.add_ff("found", pe * levels * (levels - 1) / 2 + pe * levels);
  f.add_ff("channel", clog2(nf) * (levels - 1));
  for (std::int64_t level = 0; level < levels; ++level)
    for (std::int64_t lane = 0; lane < pe; ++lane)
      add_table(f, acc + 1, nf << std::min<std::int64_t>(level, 20), 0, v["LOADED"] != 0);
}

/// A file a level of the search and a lane.
std::vector<ConstantFile> constants(const Values& v) {
  std::vector<ConstantFile> files;
  if (v["LOADED"] != 0) return files;
  for (std::int64_t level = 0; level < v["OBITS"]; ++level)
    for (std::int64_t lane = 0; lane < v["PE"]; ++lane) {
      std::string number = std::to_string(lane);
      number.insert(0, 3 - number.size(), '0');
      files.push_back(element_lines("TFILE", "thresholds", lines(v) << level, 1, v["ACCBITS"] + 1, kSigned));
      files.back().suffix = "." + std::to_string(level) + "." + number;
    }
  return files;
}

}  // namespace

Module mr_threshold() {
  return {.name = "mr_threshold",
          .any_value = {"LOWEST", "UNIFORM", "LOADED"},
          .divides = {{"CHANNELS", "PE"}},
          .load_bits = [](const Values& v) { return v["ACCBITS"] + 1; },
          .cost = cost,
          .play = play_pipeline,
          .latency = [](const Values& v) { return static_cast<std::uint64_t>(v["OBITS"]) + 1; },
          .constants = constants,
          .frame = vectors_frame};
}

}  // namespace millrace::compiler::generators::modules
