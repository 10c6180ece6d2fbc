#include <bit>

#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t words = ceil_div(v["WIDTH"], 64), own = words * v["LINES"];
  const std::int64_t count = clog2(own + v["REST"] + 1), word = words > 1 ? clog2(words) : 1;
  f.add_lut("one", 1);
  f.add_lut("counter", count);
  f.add_lut("word", words > 1 ? word : 0);
  // The count tells whose a word is: no bit below the lowest that is set in the bound matters.
  f.add_lut("compare", count - std::countr_zero(static_cast<std::uint64_t>(own)));
  f.add_ff("one", 1);
  // Every word of a line of several shifts through the topmost.
  f.add_ff("register", count + word + 64 + (words > 1 ? words * 64 : v["WIDTH"]));
}

}  // namespace

Module mr_load() {
  return {.name = "mr_load", .any_value = {"REST"}, .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
