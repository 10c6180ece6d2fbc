#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Concat {
 public:
  Concat(Wire& a, Wire& b, Wire& out, std::int64_t first, std::int64_t second)
      : a_(a), b_(b), out_(out), first_(first), all_(first + second) {}
  void accept() {
    const bool en = !out_.valid || out_.ready;
    a_.ready = en && at_ < first_;
    b_.ready = en && at_ >= first_;
  }
  void tick() {
    if (out_.valid && !out_.ready) return;
    out_.valid = (at_ < first_ ? a_ : b_).valid;
    if (out_.valid && ++at_ == all_) at_ = 0;
  }

 private:
  Wire &a_, &b_, &out_;
  std::int64_t first_, all_, at_ = 0;
};

void cost(const Values& v, Features& f) {
  f.add_both("one", 1);
  f.add_both("counter", clog2(v["CF0"] + v["CF1"]));
  f.add_both("data", v["WIDTH"]);
}

Beats frame(const Values& v, std::int64_t) {
  constexpr std::int64_t kPixels = 20;
  return {{v["CF0"] * kPixels, v["CF1"] * kPixels}, {(v["CF0"] + v["CF1"]) * kPixels}};
}

}  // namespace

Module mr_concat() {
  return {
      .name = "mr_concat",
      .cost = cost,
      .play = [](const PlayedInstance& p,
                 const Values& v) { return played<Concat>(p.in(0), p.in(1), p.out(), v["CF0"], v["CF1"]); },
      .frame = frame};
}

}  // namespace millrace::compiler::generators::modules
