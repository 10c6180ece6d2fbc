// Describes the module that outputs the beats of a frame in another order.
#include <array>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators {
namespace {

constexpr std::size_t kLoops = 6;

/// The nested loops that determine the order in which an mr_reorder instance reads its memory, outermost loop first.
struct Loops {
  explicit Loops(const Values& v) : words(v["WORDS"]), offset(v["OFFSET"]) {
    for (std::size_t k = 0; k < kLoops; ++k) {
      const std::string number = std::to_string(k);
      extent[k] = v["E" + number];
      stride[k] = v["S" + number];
      beats *= extent[k];
    }
  }
  std::int64_t words, offset, beats = 1;
  std::array<std::int64_t, kLoops> extent{}, stride{};
};

class Reorder {
 public:
  Reorder(Wire& in, Wire& out, const Values& v) : in_(in), out_(out), loops_(v), address_(loops_.offset) {}

  void operator()() {
    const std::int64_t written = written_, frame = frame_;  // the registers before the clock edge
    in_.ready = frame < read_ + 2;
    if (out_.free()) {
      const bool is_last = left_ == 1;
      const bool have = frame > read_ || (frame == read_ && address_ < written && !is_last);
      out_.valid = have;
      if (have) advance();
    }
    if (in_.moves() && ++written_ == loops_.words) {
      written_ = 0;
      ++frame_;
    }
  }

 private:
  void advance() {
    if (--left_ == 0) {
      left_ = loops_.beats;
      address_ = loops_.offset;
      turn_ = {};
      ++read_;
      return;
    }
    for (std::size_t k = kLoops; k-- > 0;) {
      address_ += loops_.stride[k];
      if (++turn_[k] < loops_.extent[k]) return;
      address_ -= loops_.extent[k] * loops_.stride[k];
      turn_[k] = 0;
    }
  }

  Wire &in_, &out_;
  Loops loops_;
  std::array<std::int64_t, kLoops> turn_{};
  std::int64_t address_ = 0, left_ = loops_.beats;  // of the beat that is read next; beats left of its frame
  std::int64_t written_ = 0;                        // beats of the frame that is being written
  std::int64_t frame_ = 0, read_ = 0;               // frames that were written and read
};

}  // namespace

namespace modules {

Module mr_reorder() {
  Module m{.name = "mr_reorder",
           .any_value = {"OFFSET", "S0", "S1", "S2", "S3", "S4", "S5", "MEMORY"},
           .latency = always<2>};
  m.cost = [](const Values& v, Features& f) {
    const Loops loops(v);
    const std::int64_t width = v["WIDTH"], depth = 2 * loops.words, memory = v["MEMORY"];
    std::int64_t counters = 0, turns = 0;
    for (const std::int64_t extent : loops.extent) {
      counters += clog2(extent);
      turns += extent > 1 ? 1 : 0;
    }
    f.add_both("one", 1);
    f.add_both("counter", counters);
    f.add_lut("loop", turns);
    f.add_lut("address", clog2(depth));
    f.add_lut("step", turns * clog2(depth));
    f.add_ff("address", 2 * clog2(depth));
    add_memory(f, width, depth, memory == 2 || (memory == 0 && wants_block(width, depth)));
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    return {Reorder(p.in(), p.out(), v)};
  };
  m.frame = [](const Values& v, std::int64_t) {
    const Loops loops(v);
    return Beats{{loops.words}, {loops.beats}};
  };
  return m;
}

}  // namespace modules
}  // namespace millrace::compiler::generators
