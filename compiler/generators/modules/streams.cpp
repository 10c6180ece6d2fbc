// Describes modules that pass beats on: they buffer, copy, join, reorder or regroup beats, and compute nothing.
#include <algorithm>
#include <memory>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// Describes mr_fork or mr_split. Each reader accepts a beat when it can. The beat is removed when all readers have it.
Module fork(std::string_view name) {
  Module m{.name = name, .bundles_outputs = true, .latency = always<0>};
  m.cost = [](const Values& v, Features& f) { f.add_both("readers", v["N"]); };
  m.play = [](const PlayedInstance& p, const Values&) -> TimingUnit {
    const auto served = std::make_shared<std::vector<bool>>(p.unit.outputs.size());
    const auto step = [&in = p.in(), outs = p.all(p.unit.outputs), served] {
      in.ready = true;
      for (std::size_t i = 0; i < outs.size(); ++i) in.ready = in.ready && ((*served)[i] || outs[i]->ready);
      for (std::size_t i = 0; i < outs.size(); ++i)
        (*served)[i] = !in.moves() && ((*served)[i] || (in.valid && outs[i]->ready));
    };
    const auto offer = [&in = p.in(), outs = p.all(p.unit.outputs), served] {
      for (std::size_t i = 0; i < outs.size(); ++i) outs[i]->valid = in.valid && !(*served)[i];
    };
    return {step, offer};
  };
  m.frame = [](const Values& v, std::int64_t interval) {
    return Beats{{interval}, std::vector<std::int64_t>(static_cast<std::size_t>(v["N"]), interval)};
  };
  return m;
}

}  // namespace

Module mr_fork() {
  return fork("mr_fork");
}

Module mr_split() {
  return fork("mr_split");
}

Module mr_join() {
  Module m{.name = "mr_join", .bundles_inputs = true, .latency = always<0>};
  m.cost = [](const Values& v, Features& f) { f.add_lut("streams", v["N"]); };
  m.play = [](const PlayedInstance& p, const Values&) -> TimingUnit {
    const auto step = [ins = p.all(p.unit.inputs), &out = p.out()] {
      for (Wire* in : ins) in->ready = out.moves();
    };
    const auto offer = [ins = p.all(p.unit.inputs), &out = p.out()] {
      out.valid = std::all_of(ins.begin(), ins.end(), [](const Wire* in) { return in->valid; });
    };
    return {step, offer};
  };
  m.frame = [](const Values& v, std::int64_t interval) {
    return Beats{std::vector<std::int64_t>(static_cast<std::size_t>(v["N"]), interval), {interval}};
  };
  return m;
}

Module mr_concat() {
  Module m{.name = "mr_concat"};
  m.cost = [](const Values& v, Features& f) {
    f.add_both("one", 1);
    f.add_both("counter", clog2(v["CF0"] + v["CF1"]));
    f.add_both("data", v["WIDTH"]);
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    return {[&a = p.in(0), &b = p.in(1), &out = p.out(), first = v["CF0"], all = v["CF0"] + v["CF1"],
             at = std::int64_t{0}]() mutable {
      const bool en = out.free(), of_a = at < first;
      a.ready = en && of_a;
      b.ready = en && !of_a;
      if (!en) return;
      out.valid = (of_a ? a : b).valid;
      if (out.valid && ++at == all) at = 0;
    }};
  };
  m.frame = [](const Values& v, std::int64_t) {
    constexpr std::int64_t kPixels = 20;
    return Beats{{v["CF0"] * kPixels, v["CF1"] * kPixels}, {(v["CF0"] + v["CF1"]) * kPixels}};
  };
  return m;
}

Module mr_fifo() {
  Module m{.name = "mr_fifo", .any_value = {"MEMORY"}, .latency = always<2>, .frame = passing_frame};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t depth = v["DEPTH"], width = v["WIDTH"], memory = v["MEMORY"];
    const bool whole = (depth & (depth - 1)) == 0;  // if so, pointers wrap around without logic
    f.add_both("one", 1);
    f.add_lut("pointer", clog2(depth));
    f.add_lut("wrap", whole ? 0 : clog2(depth));
    f.add_lut("count", clog2(depth + 1));
    f.add_ff("control", 2 * clog2(depth) + clog2(depth + 1));
    add_memory(f, width, depth, memory == 2 || (memory == 0 && wants_block(width, depth)));
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    const std::uint64_t depth =
        p.unlimited_fifos ? ~std::uint64_t{0} : static_cast<std::uint64_t>(v["DEPTH"]);
    return {[&in = p.in(), &out = p.out(), &high_water = p.high_water, depth,
             count = std::uint64_t{0}]() mutable {
      in.ready = count != depth;
      high_water = std::max(high_water, count + (out.valid ? 1 : 0));
      const bool en = out.free(), read = en && count != 0;
      if (en) out.valid = read;
      count += in.moves() ? 1U : 0U;
      count -= read ? 1U : 0U;
    }};
  };
  return m;
}

Module mr_skid() {
  Module m{.name = "mr_skid", .frame = passing_frame};
  m.cost = [](const Values& v, Features& f) {
    f.add_both("one", 1);
    f.add_both("width", v["WIDTH"]);
  };
  m.play = [](const PlayedInstance& p, const Values&) -> TimingUnit {
    return {[&in = p.in(), &out = p.out(), full = false]() mutable {
      in.ready = !full;
      if (out.free()) {
        out.valid = full || in.valid;
        full = false;
      } else if (in.valid) {
        full = true;
      }
    }};
  };
  return m;
}

Module mr_width_adapter() {
  Module m{.name = "mr_width_adapter"};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t from = v["S_LANES"], to = v["M_LANES"];
    if (from == to) return;
    f.add_lut("up", to % from == 0 ? 1 : 0);
    f.add_lut("down", from % to == 0 ? 1 : 0);
    add_width_adapter(f, v["LANE"], from, to);
    f.add_ff("one", 1);
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    const std::int64_t from = v["S_LANES"], to = v["M_LANES"];
    if (from == to) return play_through(p);
    if (to % from == 0)
      return pipeline(p, 1, [n = to / from, have = std::int64_t{0}](bool valid) mutable {
        const bool whole = valid && ++have == n;
        if (whole) have = 0;
        return whole;
      });
    if (from % to == 0)
      return {[&in = p.in(), &out = p.out(), n = from / to, left = std::int64_t{0}]() mutable {
        in.ready = !out.valid || (out.ready && left == 0);
        if (in.moves()) {
          out.valid = true;
          left = n - 1;
        } else if (out.ready) {
          out.valid = out.valid && left != 0;
          if (left != 0) --left;
        }
      }};
    return {[&in = p.in(), &out = p.out(), from, to, count = std::int64_t{0}]() mutable {
      if (out.moves()) count -= to;
      in.ready = count < to;
      if (in.moves()) count += from;
      out.valid = count >= to;
    }};
  };
  m.frame = [](const Values& v, std::int64_t) {
    constexpr std::int64_t kFrames = 12;
    return Beats{{v["M_LANES"] * kFrames}, {v["S_LANES"] * kFrames}};
  };
  return m;
}

Module mr_pad() {
  Module m{.name = "mr_pad", .any_value = {"TOP", "LEFT", "BOTTOM", "RIGHT", "VALUE"}};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t oh = v["TOP"] + v["H"] + v["BOTTOM"], ow = v["LEFT"] + v["W"] + v["RIGHT"];
    f.add_both("one", 1);
    f.add_both("counter", clog2(oh) + clog2(ow) + clog2(v["CF"]));
    f.add_both("data", v["SIMD"] * v["ABITS"]);
  };
  return m;
}

Module mr_crop() {
  Module m{.name = "mr_crop", .any_value = {"TOP", "LEFT", "BOTTOM", "RIGHT"}};
  m.cost = [](const Values& v, Features& f) {
    f.add_both("one", 1);
    f.add_both("counter", clog2(v["H"]) + clog2(v["W"]) + clog2(v["CF"]));
    f.add_ff("data", v["WIDTH"]);
  };
  return m;
}

}  // namespace millrace::compiler::generators::modules
