#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Up : public Pipeline {
 public:
  Up(Wire& in, Wire& out, std::int64_t n) : Pipeline(in, out, 1), n_(n) {}
  void tick() {
    if (!enabled()) return;
    const bool whole = in_.valid && ++have_ == n_;
    if (whole) have_ = 0;
    shift(whole);
  }

 private:
  std::int64_t n_, have_ = 0;
};

class Down {
 public:
  Down(Wire& in, Wire& out, std::int64_t n) : in_(in), out_(out), n_(n) {}
  void accept() { in_.ready = !out_.valid || (out_.ready && left_ == 0); }
  void tick() {
    if (in_.moves()) {
      out_.valid = true;
      left_ = n_ - 1;
    } else if (out_.ready) {
      out_.valid = out_.valid && left_ != 0;
      if (left_ != 0) --left_;
    }
  }

 private:
  Wire &in_, &out_;
  std::int64_t n_, left_ = 0;
};

class AnyRatio {
 public:
  AnyRatio(Wire& in, Wire& out, std::int64_t s, std::int64_t m) : in_(in), out_(out), s_(s), m_(m) {}
  void accept() { in_.ready = stay() < m_; }
  void tick() {
    count_ = stay() + (in_.moves() ? s_ : 0);
    out_.valid = count_ >= m_;
  }

 private:
  std::int64_t stay() const { return out_.moves() ? count_ - m_ : count_; }
  Wire &in_, &out_;
  std::int64_t s_, m_, count_ = 0;
};

std::unique_ptr<TimingUnit> play(const PlayedInstance& p, const Values& v) {
  const std::int64_t s = v["S_LANES"], m = v["M_LANES"];
  if (s == m) return played<Through>(p.in(), p.out());
  if (m % s == 0) return played<Up>(p.in(), p.out(), m / s);
  if (s % m == 0) return played<Down>(p.in(), p.out(), s / m);
  return played<AnyRatio>(p.in(), p.out(), s, m);
}

void cost(const Values& v, Features& f) {
  const std::int64_t s = v["S_LANES"], m = v["M_LANES"];
  if (s == m) return;
  f.add_lut("up", m % s == 0 ? 1 : 0);
  f.add_lut("down", s % m == 0 ? 1 : 0);
  add_width_adapter(f, v["LANE"], s, m);
  f.add_ff("one", 1);
}

Beats frame(const Values& v, std::int64_t) {
  constexpr std::int64_t kFrames = 12;
  return {{v["M_LANES"] * kFrames}, {v["S_LANES"] * kFrames}};
}

}  // namespace

Module mr_width_adapter() {
  return {.name = "mr_width_adapter", .cost = cost, .play = play, .frame = frame};
}

}  // namespace millrace::compiler::generators::modules
