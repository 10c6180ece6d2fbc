#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Add {
 public:
  Add(Wire& a, Wire& b, Wire& out) : a_(a), b_(b), out_(out) {}
  void accept() {
    const bool en = !out_.valid || out_.ready;
    a_.ready = en && b_.valid;
    b_.ready = en && a_.valid;
  }
  void tick() {
    if (out_.valid && !out_.ready) return;
    flags_ = flags_ << 1 | (a_.valid && b_.valid ? 1U : 0U);
    out_.valid = (flags_ >> 2 & 1U) != 0;
  }

 private:
  Wire &a_, &b_, &out_;
  unsigned flags_ = 0;
};

/// DSP slices of a product with a constant.
std::uint64_t slices(std::int64_t factor, std::int64_t bits, std::int64_t z) {
  const std::uint64_t size = static_cast<std::uint64_t>(factor < 0 ? -factor : factor);
  if (size == 0 || (factor > 0 && (size & (size - 1)) == 0)) return 0;  // a shift
  const std::int64_t constant =
      std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_width(size)) + 1, z);
  return product_slices(bits + 1, constant, std::min(z, bits + 1 + constant));
}

void cost(const Values& v, Features& f) {
  const std::int64_t simd = v["SIMD"], z = v["ZBITS"];
  f.add_slices(slices(v["A_FACTOR"], v["ABITS"], z), simd);
  f.add_slices(slices(v["B_FACTOR"], v["BBITS"], z), simd);
  f.add_lut("one", 1);
  f.add_lut("sum", simd * z);
  f.add_lut("offset", v["OFFSET"] != 0 ? simd * z : 0);
  f.add_lut("clamp", simd * std::max<std::int64_t>(z - v["SHIFT"], 1));
  f.add_lut("output", simd * v["OBITS"]);
  f.add_ff("one", 1);
  f.add_ff("products", 2 * simd * z);
  f.add_ff("sum", simd * z);
  f.add_ff("output", simd * v["OBITS"]);
}

}  // namespace

Module mr_add() {
  return {
      .name = "mr_add",
      .any_value = {"AKIND", "BKIND", "A_FACTOR", "B_FACTOR", "OFFSET", "SHIFT", "LOWEST", "HIGHEST"},
      .cost = cost,
      .play = [](const PlayedInstance& p, const Values&) { return played<Add>(p.in(0), p.in(1), p.out()); },
      .latency = always<3>,
      .frame =
          [](const Values&, std::int64_t interval) {
            return Beats{{interval, interval}, {interval}};
          }};
}

}  // namespace millrace::compiler::generators::modules
