#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Skid {
 public:
  Skid(Wire& in, Wire& out) : in_(in), out_(out) {}
  void accept() { in_.ready = !spare_; }
  void tick() {
    if (!out_.valid || out_.ready) {
      out_.valid = spare_ || in_.valid;
      spare_ = false;
    } else if (in_.valid) {
      spare_ = true;
    }
  }

 private:
  Wire &in_, &out_;
  bool spare_ = false;
};

void cost(const Values& v, Features& f) {
  f.add_both("one", 1);
  f.add_both("width", v["WIDTH"]);
}

}  // namespace

Module mr_skid() {
  return {.name = "mr_skid",
          .cost = cost,
          .play = [](const PlayedInstance& p, const Values&) { return played<Skid>(p.in(), p.out()); },
          .frame = passing_frame};
}

}  // namespace millrace::compiler::generators::modules
