#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Pool : public Pipeline {
 public:
  Pool(Wire& in, Wire& out, const Values& v)
      : Pipeline(in, out, 1),
        h_(v["H"]),
        w_(v["W"] / v["PX"]),
        cf_(v["CF"]),
        kh_(v["KH"]),
        kw_(v["KW"] / v["PX"]) {}
  void tick() {
    if (!enabled()) return;
    const bool used = x_ < w_ / kw_ * kw_ && y_ < h_ / kh_ * kh_;
    shift(in_.valid && used && x_ % kw_ == kw_ - 1 && y_ % kh_ == kh_ - 1);
    if (!in_.valid || ++c_ < cf_) return;
    c_ = 0;
    if (++x_ < w_) return;
    x_ = 0;
    if (++y_ == h_) y_ = 0;
  }

 private:
  std::int64_t h_, w_, cf_, kh_, kw_, c_ = 0, x_ = 0, y_ = 0;
};

void cost(const Values& v, Features& f) {
  const std::int64_t depth = std::max<std::int64_t>(v["W"] / v["KW"] * v["CF"], 1);
  const std::int64_t counters = clog2(v["CF"]) + clog2(v["W"] / v["PX"]) + clog2(v["H"]) +
                                clog2(v["KW"] / v["PX"]) + clog2(v["KH"]) + clog2(depth);
  add_pool_lanes(f, v, depth, counters, v["PX"], read_modify_write(v["SIMD"] * v["OBITS"], depth));
}

Beats frame(const Values& v, std::int64_t) {
  return {{v["H"] * v["W"] / v["PX"] * v["CF"]}, {v["H"] / v["KH"] * (v["W"] / v["KW"]) * v["CF"]}};
}

}  // namespace

Module mr_pool() {
  return {.name = "mr_pool",
          .any_value = {"OP", "AKIND"},
          .divides = {{"KW", "PX"}},
          .cost = cost,
          .play = [](const PlayedInstance& p, const Values& v) { return played<Pool>(p.in(), p.out(), v); },
          .frame = frame};
}

}  // namespace millrace::compiler::generators::modules
