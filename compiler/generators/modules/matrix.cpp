// Describes modules that multiply by weights: matrix-vector units, which compute PE outputs by SIMD inputs at once, and
// units for depthwise convolutions, which have one weight per channel and tap.
#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"
#include "compiler/generators/timing.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// The lines of weights that a matrix unit uses, one line per step. Lines of a table are always available. Lines of a
/// weight reader arrive one after another.
class Lines {
 public:
  Lines() = default;
  Lines(const ReaderTiming& reader, std::uint64_t lines)
      : lines_(lines),
        wait_after_line_(reader.line_cycles - 1),
        wait_after_pass_(reader.pass_cycles - lines * reader.line_cycles) {}
  bool there() const { return wait_ == 0; }
  void tick(bool taken) {
    if (wait_ != 0) --wait_;
    if (!taken || lines_ == 0) return;
    wait_ = wait_after_line_;
    if (++at_ < lines_) return;
    at_ = 0;
    wait_ += wait_after_pass_;
  }

 private:
  std::uint64_t lines_ = 0, wait_after_line_ = 0, wait_after_pass_ = 0, at_ = 0, wait_ = 0;
};

Lines lines_of(const Netlist& netlist, const Instance& unit) {
  for (const WeightReader& reader : netlist.readers)
    if (reader.unit == unit.name)
      return Lines(reader_timing(reader.instance),
                   static_cast<std::uint64_t>(parameter(reader.instance, "LINES", 1)));
  return Lines();
}

/// Simulates mr_mvu or mr_mvu_streamed. A unit with one pass uses each vector once. A unit with several passes buffers
/// vectors and reads each of them in every pass.
TimingUnit play_matrix_unit(const PlayedInstance& p, const Values& v) {
  const std::int64_t nf = v["MH"] / v["PE"], sf = v["MW"] / v["SIMD"];
  Delay delay(static_cast<std::uint64_t>(clog2(v["SIMD"])) + 3);
  Lines lines = lines_of(p.netlist, p.unit.instance);
  if (nf == 1)
    return {[&in = p.in(), &out = p.out(), delay, lines, sf, at = std::int64_t{0}]() mutable {
      in.ready = out.free() && lines.there();
      const bool step = in.moves(), whole = step && ++at == sf;
      lines.tick(step);
      if (whole) at = 0;
      if (out.free()) out.valid = delay(whole);
    }};
  return {[&in = p.in(), &out = p.out(), delay, lines, sf, nf, room = v["IBUF"], at = std::int64_t{0},
           pass = std::int64_t{0}, held = std::int64_t{0}, ahead = std::int64_t{0}]() mutable {
    in.ready = held != room;
    const bool write = in.moves(), en = out.free();
    const bool step = en && ahead != 0 && lines.there(), sf_end = at == sf - 1, nf_end = pass == nf - 1;
    lines.tick(step);
    if (en) out.valid = delay(step && sf_end);
    held += (write ? 1 : 0) - (step && nf_end ? 1 : 0);
    ahead += (write ? 1 : 0) - (step ? 1 : 0) + (step && sf_end && !nf_end ? sf : 0);
    if (!step) return;
    at = sf_end ? 0 : at + 1;
    if (sf_end) pass = nf_end ? 0 : pass + 1;
  }};
}

/// Returns the common description of mr_mvu and mr_mvu_streamed.
Module matrix_unit(std::string_view name) {
  Module m{.name = name, .divides = {{"MH", "PE"}, {"MW", "SIMD"}}, .play = play_matrix_unit};
  m.latency = [](const Values& v) {
    return static_cast<std::uint64_t>(3 + clog2(v["SIMD"]) + (v["MH"] > v["PE"] ? 1 : 0));
  };
  m.frame = [](const Values& v, std::int64_t) { return Beats{{v["MW"] / v["SIMD"]}, {v["MH"] / v["PE"]}}; };
  return m;
}

/// Returns the cycles of a frame with `beats_out` output beats if a line of weights takes `line_cycles`.
std::uint64_t matrix_unit_interval(const Values& v, std::uint64_t beats_out, std::uint64_t line_cycles) {
  const auto nf = static_cast<std::uint64_t>(v["MH"] / v["PE"]),
             sf = static_cast<std::uint64_t>(v["MW"] / v["SIMD"]);
  return beats_out / nf * nf * sf * line_cycles;
}

/// Returns how many bits an operand has as a signed number.
std::int64_t signed_operand_bits(std::int64_t bits, std::int64_t kind) {
  return bits + (kind == kSigned ? 0 : 1);
}
std::int64_t input_bits(const Values& v) {
  return signed_operand_bits(v["ABITS"], v["AKIND"]);
}
std::int64_t weight_bits(const Values& v) {
  return signed_operand_bits(v["WBITS"], v["WKIND"]);
}

/// The cost of a tree that adds `leaves` values pairwise, level by level. Every level stores its sums, and also a value
/// without a partner, in registers. Each level is `grow` bits wider than the level below.
struct AdderTree {
  double adder_bits = 0;     // bits of all adders' results
  double register_bits = 0;  // bits of all levels, including the registers of the leaves
};

AdderTree adder_tree(std::int64_t leaves, std::int64_t leaf_bits, std::int64_t grow, std::int64_t levels) {
  AdderTree result;
  result.register_bits = static_cast<double>(leaves * leaf_bits);
  std::int64_t nodes = leaves, bits = leaf_bits;
  for (std::int64_t level = 0; level < levels; ++level) {
    bits += grow;
    const std::int64_t adders = nodes / 2, alone = nodes % 2;
    result.adder_bits += static_cast<double>(adders * bits);
    result.register_bits += static_cast<double>(adders * bits + alone * (bits - grow));
    nodes = adders + alone;
  }
  return result;
}

/// Adds the cost of the buffer for a vector's inputs, with `width` bits per beat. If `buffered`, the buffer stores
/// `held` beats, because later passes read them again.
void add_input_buffer(Features& f, std::int64_t width, std::int64_t held, bool buffered) {
  f.add_both("pointer", buffered ? 3 * clog2(held) + 2 * (clog2(held + 1) + 1) : 0);
  if (buffered)
    add_memory(f, width, held, held > 64 && held * width > 4096);
  else
    f.add_ff("memory", width);
}

/// Adds the cost of `count` products. Their operands are described by ABITS, AKIND, WBITS, WKIND and MUL.
void add_products(Features& f, const Values& v, std::int64_t count) {
  const std::int64_t ax = input_bits(v), wx = weight_bits(v);
  if (v["WKIND"] == kBipolar || v["AKIND"] == kBipolar) {
    f.add_lut("sign", count * (ax + wx));
  } else if (v["MUL"] == 0) {  // rows of a Booth multiplier, and the adders that sum them up
    const std::int64_t digits = (wx + 1) / 2;
    f.add_lut("booth_row", count * digits * (ax + 1));
    f.add_lut("booth_sum", count * ((digits - 1) * (ax + 5) + ax + 3));
  } else {
    const std::uint64_t slices = product_slices(ax, wx, ax + wx);
    f.add_slices(slices, count);
    f.add_lut("small_product", slices == 0 ? count * ax * wx : 0);
  }
}

/// Adds the cost of `count` dot products of SIMD elements.
void add_dot_products(Features& f, const Values& v, std::int64_t count) {
  const std::int64_t simd = v["SIMD"], levels = clog2(simd);
  const bool signs = v["AKIND"] == kBipolar && v["WKIND"] == kBipolar;
  const AdderTree adders = adder_tree(simd, signs ? 1 : input_bits(v) + weight_bits(v), 1, levels);
  f.add_lut("tree", static_cast<double>(count) * adders.adder_bits);
  f.add_ff("tree", static_cast<double>(count) * adders.register_bits);
  if (signs)
    f.add_lut("sign", count * (simd + levels + 1));
  else
    add_products(f, v, count * simd);
}

/// Adds the cost of pairs of dot products, with one DSP slice per lane of a pair. Returns the width of their sums.
std::int64_t add_pairs(Features& f, const Values& v, std::int64_t pairs) {
  const std::int64_t simd = v["SIMD"], levels = clog2(simd);
  // A DSP slice packs its two products into two fields of one word. The first two levels of the adder tree add whole
  // words. Each later level has an adder for each field, and a carry.
  const std::int64_t packed_levels = std::min<std::int64_t>(levels, 2);
  const std::int64_t product = 27 + input_bits(v);
  const AdderTree packed = adder_tree(simd, product, 0, packed_levels);
  const std::int64_t groups = (simd + (std::int64_t{1} << packed_levels) - 1) >> packed_levels;
  const AdderTree split = adder_tree(groups, 2 * 18 + 1, 2, levels - packed_levels);
  const double groups_own = static_cast<double>(groups * (2 * 18 + 1));
  f.add_lut("pair_tree", static_cast<double>(pairs) * (packed.adder_bits + split.adder_bits));
  f.add_ff("pair_tree",
           static_cast<double>(pairs) * (packed.register_bits + split.register_bits - groups_own));
  f.add_slices(product_slices(27, 9, 36), pairs * simd);
  return 18 + levels;
}

void mvu_cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], simd = v["SIMD"], nf = v["MH"] / pe, sf = v["MW"] / simd;
  const std::int64_t acc = v["ACCBITS"], levels = clog2(simd);
  const bool bias = v["BIAS"] != 0, loaded = v["LOADED"] != 0;
  f.add_lut("one", 1);
  f.add_both("counter", clog2(sf) + clog2(nf) + clog2(sf * nf));
  f.add_ff("one", 1);
  f.add_ff("flags", (levels + 2) * (sf > 1 ? 3 : 1));
  add_table(f, pe * simd * v["WBITS"], sf * nf, v["WSTYLE"], loaded);
  add_input_buffer(f, simd * v["ABITS"], v["IBUF"], nf > 1);

  const std::int64_t pairs = v["MUL"] == 2 ? pe / 2 : 0, plain = pe - 2 * pairs;
  std::int64_t sum_bits = 0;
  if (plain > 0) {
    add_dot_products(f, v, plain);
    sum_bits = input_bits(v) + weight_bits(v) + levels;
  }
  if (pairs > 0) sum_bits = add_pairs(f, v, pairs);
  f.add_lut("accumulate", sf > 1 ? pe * acc : 0);
  f.add_lut("add_bias", sf == 1 && bias ? pe * acc : 0);
  f.add_ff("accumulate", sf > 1 || bias ? pe * acc : pe * std::min(acc, sum_bits));
  f.add_both("bias", bias ? clog2(nf) : 0);
  if (bias) add_table(f, pe * acc, nf, 0, loaded);
}

/// Returns the files of a unit's weights and, if it has biases, of the biases of `rows` rows in PE lanes.
std::vector<ConstantFile> weight_files(const Values& v, std::int64_t lines, std::int64_t elements,
                                       std::int64_t rows) {
  std::vector<ConstantFile> files;
  if (v["LOADED"] == 0)
    files.push_back(element_lines("WFILE", "weights.hex", lines, elements, v["WBITS"], v["WKIND"]));
  if (v["BIAS"] == 0) return files;
  const ConstantField bias{v["ACCBITS"], std::max<std::int64_t>(v["ACCBITS"] - 4, 2)};
  const auto lanes = static_cast<std::size_t>(v["PE"]);
  files.push_back({"BFILE", "bias.hex", {}, rows / v["PE"], std::vector<ConstantField>(lanes, bias)});
  return files;
}

}  // namespace

Module mr_mvu() {
  Module m = matrix_unit("mr_mvu");
  m.any_value = {"AKIND", "WKIND", "MUL", "BIAS", "LOADED", "WSTYLE"};
  m.load_bits = [](const Values& v) { return v["PE"] * v["SIMD"] * v["WBITS"]; };
  m.cost = mvu_cost;
  m.interval = [](const Values& v, std::uint64_t, std::uint64_t out) {
    return matrix_unit_interval(v, out, 1);
  };
  m.constants = [](const Values& v) {
    const std::int64_t pe = v["PE"], simd = v["SIMD"];
    return weight_files(v, v["MH"] / pe * (v["MW"] / simd), pe * simd, v["MH"]);
  };
  return m;
}

Module mr_mvu_streamed() {
  Module m = matrix_unit("mr_mvu_streamed");
  m.any_value = {"AKIND", "WKIND", "MUL"};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t pe = v["PE"], simd = v["SIMD"], nf = v["MH"] / pe, sf = v["MW"] / simd;
    const std::int64_t acc = v["ACCBITS"], levels = clog2(simd);
    f.add_both("one", 1);
    f.add_both("counter", clog2(sf) + clog2(nf));
    f.add_ff("flags", (levels + 2) * (sf > 1 ? 3 : 1));
    f.add_ff("line", pe * simd * v["WBITS"]);
    add_input_buffer(f, simd * v["ABITS"], v["IBUF"], nf > 1);
    add_dot_products(f, v, pe);
    f.add_lut("accumulate", sf > 1 ? pe * acc : 0);
    f.add_ff("accumulate", sf > 1 ? pe * acc : pe * std::min(acc, input_bits(v) + weight_bits(v) + levels));
  };
  m.interval = [](const Values& v, std::uint64_t, std::uint64_t out) {
    const std::int64_t line_bits = v["PE"] * v["SIMD"] * v["WBITS"];
    return matrix_unit_interval(v, out, weight_line_cycles(static_cast<std::uint64_t>(line_bits)));
  };
  return m;
}

Module mr_vvu() {
  Module m{.name = "mr_vvu", .divides = {{"CHANNELS", "PE"}}, .latency = always<3>};
  m.any_value = {"AKIND", "WKIND", "MUL", "BIAS", "LOADED", "WSTYLE"};
  m.load_bits = [](const Values& v) { return v["PE"] * v["WBITS"]; };
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t pe = v["PE"], cf = v["CHANNELS"] / pe, taps = v["TAPS"], acc = v["ACCBITS"];
    const std::int64_t depth = std::max<std::int64_t>(cf, 2);
    const std::int64_t counters = clog2(cf) + clog2(taps) + clog2(cf * taps);
    f.add_lut("one", 1);
    f.add_lut("counter", counters);
    f.add_ff("one", 1);
    f.add_ff("counter", counters + 2 * clog2(cf));
    add_table(f, pe * v["WBITS"], cf * taps, v["WSTYLE"], v["LOADED"] != 0);
    f.add_ff("input", pe * v["ABITS"]);
    add_products(f, v, pe);
    f.add_ff("product", pe * (input_bits(v) + weight_bits(v)));
    f.exact += simple_dual_port(pe * acc, depth, MemoryStyle::kDistributed);
    f.add_lut("memory", ((depth + 63) / 64 - 1) * pe * acc);
    f.add_both("accumulate", pe * acc);
    const bool loaded = v["LOADED"] != 0;
    if (v["BIAS"] != 0) add_table(f, pe * acc, cf, 0, loaded);
  };
  m.play = [](const PlayedInstance& p, const Values& v) {
    return play_last_round(p, 3, v["TAPS"], v["CHANNELS"] / v["PE"]);
  };
  m.constants = [](const Values& v) {
    const std::int64_t pe = v["PE"];
    return weight_files(v, v["TAPS"] * (v["CHANNELS"] / pe), pe, v["CHANNELS"]);
  };
  m.frame = [](const Values& v, std::int64_t) {
    const std::int64_t folds = v["CHANNELS"] / v["PE"];
    return Beats{{v["TAPS"] * folds}, {folds}};
  };
  return m;
}

}  // namespace millrace::compiler::generators::modules
