#include <algorithm>

#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class Join {
 public:
  Join(std::vector<Wire*> in, Wire& out) : in_(std::move(in)), out_(out) {}
  void offer() {
    out_.valid = std::all_of(in_.begin(), in_.end(), [](const Wire* w) { return w->valid; });
  }
  void accept() {
    for (Wire* w : in_) w->ready = out_.moves();
  }
  void tick() {}

 private:
  std::vector<Wire*> in_;
  Wire& out_;
};

}  // namespace

Module mr_join() {
  return {
      .name = "mr_join",
      .bundles_inputs = true,
      .cost = [](const Values& v, Features& f) { f.add_lut("streams", v["N"]); },
      .play = [](const PlayedInstance& p,
                 const Values&) { return played<Join>(p.all(p.unit.inputs), p.out()); },
      .latency = always<0>,
      .frame =
          [](const Values& v, std::int64_t interval) {
            return Beats{std::vector<std::int64_t>(static_cast<std::size_t>(v["N"]), interval), {interval}};
          }};
}

}  // namespace millrace::compiler::generators::modules
