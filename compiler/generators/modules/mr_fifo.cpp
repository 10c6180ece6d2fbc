#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Fifo {
 public:
  Fifo(Wire& in, Wire& out, std::uint64_t depth) : in_(in), out_(out), depth_(depth) {}
  void accept() { in_.ready = count_ != depth_; }
  void tick() {
    high_water_ = std::max(high_water_, count_ + (out_.valid ? 1 : 0));
    const bool enabled = !out_.valid || out_.ready, read = enabled && count_ != 0;
    const bool write = in_.moves();
    if (enabled) out_.valid = count_ != 0;
    count_ += (write ? 1U : 0U);
    count_ -= (read ? 1U : 0U);
  }
  std::uint64_t high_water() const { return high_water_; }

 private:
  Wire &in_, &out_;
  std::uint64_t depth_, count_ = 0, high_water_ = 0;
};

void cost(const Values& v, Features& f) {
  const std::int64_t depth = v["DEPTH"], width = v["WIDTH"], memory = v["MEMORY"];
  const bool whole = (depth & (depth - 1)) == 0;  // pointers wrap by themselves
  f.add_both("one", 1);
  f.add_lut("pointer", clog2(depth));
  f.add_lut("wrap", whole ? 0 : clog2(depth));
  f.add_lut("count", clog2(depth + 1));
  f.add_ff("control", 2 * clog2(depth) + clog2(depth + 1));
  add_memory(f, width, depth, memory == 2 || (memory == 0 && wants_block(width, depth)));
}

}  // namespace

Module mr_fifo() {
  return {.name = "mr_fifo",
          .any_value = {"MEMORY"},
          .cost = cost,
          .play =
              [](const PlayedInstance& p, const Values& v) {
                return played<Fifo>(
                    p.in(), p.out(),
                    p.unlimited_fifos ? ~std::uint64_t{0} : static_cast<std::uint64_t>(v["DEPTH"]));
              },
          .latency = always<2>,
          .frame = passing_frame};
}

}  // namespace millrace::compiler::generators::modules
