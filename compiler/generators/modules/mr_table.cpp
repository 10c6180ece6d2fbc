#include <algorithm>

#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// Words of eight bits, as weights are; narrow ones without any pattern.
std::vector<ConstantFile> constants(const Values& v) {
  if (v["LOADED"] != 0) return {};
  const std::int64_t width = v["WIDTH"];
  return {element_lines("FILE", "table.hex", v["DEPTH"], std::max<std::int64_t>(width / 8, 1),
                        std::min<std::int64_t>(width, 8), width < 8 ? kUnsigned : kSigned)};
}

}  // namespace

Module mr_table() {
  return {.name = "mr_table",
          .any_value = {"STYLE", "LOADED"},
          .cost = [](const Values& v,
                     Features& f) { add_table(f, v["WIDTH"], v["DEPTH"], v["STYLE"], v["LOADED"] != 0); },
          .constants = constants};
}

}  // namespace millrace::compiler::generators::modules
