#include "compiler/generators/modules/matrix_unit.hpp"

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/timing.hpp"

namespace millrace::compiler::generators {
namespace {

/// The weights of a matrix unit, a line a step: from a table, always there, or from a reader.
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

/// Uses each vector once.
class MatrixOnce : public Pipeline {
 public:
  MatrixOnce(Wire& in, Wire& out, std::uint64_t delay, std::int64_t sf, Lines lines)
      : Pipeline(in, out, delay), lines_(lines), sf_(sf) {}
  void accept() { in_.ready = enabled() && lines_.there(); }
  void tick() {
    const bool en = enabled(), step = in_.moves(), whole = step && ++at_ == sf_;
    lines_.tick(step);
    if (whole) at_ = 0;
    if (en) shift(whole);
  }

 private:
  Lines lines_;
  std::int64_t sf_, at_ = 0;
};

/// Keeps each vector for NF passes.
class MatrixBuffered : public Pipeline {
 public:
  MatrixBuffered(Wire& in, Wire& out, std::uint64_t delay, std::int64_t sf, std::int64_t nf,
                 std::int64_t room, Lines lines)
      : Pipeline(in, out, delay), lines_(lines), sf_(sf), nf_(nf), room_(room) {}
  void accept() { in_.ready = held_ != room_; }
  void tick() {
    const bool write = in_.moves(), en = enabled();
    const bool step = en && ahead_ != 0 && lines_.there(), sf_end = at_ == sf_ - 1, nf_end = pass_ == nf_ - 1;
    lines_.tick(step);
    if (en) shift(step && sf_end);
    held_ += (write ? 1 : 0) - (step && nf_end ? 1 : 0);
    ahead_ += (write ? 1 : 0) - (step ? 1 : 0) + (step && sf_end && !nf_end ? sf_ : 0);
    if (!step) return;
    at_ = sf_end ? 0 : at_ + 1;
    if (sf_end) pass_ = nf_end ? 0 : pass_ + 1;
  }

 private:
  Lines lines_;
  std::int64_t sf_, nf_, room_, at_ = 0, pass_ = 0, held_ = 0, ahead_ = 0;
};

Lines lines_of(const Netlist& netlist, const Instance& unit) {
  for (const WeightReader& reader : netlist.readers)
    if (reader.unit == unit.name)
      return Lines(reader_timing(reader.instance),
                   static_cast<std::uint64_t>(parameter(reader.instance, "LINES", 1)));
  return Lines();
}

}  // namespace

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

void add_input_buffer(Features& f, std::int64_t width, std::int64_t held, bool buffered) {
  f.add_both("pointer", buffered ? 3 * clog2(held) + 2 * (clog2(held + 1) + 1) : 0);
  if (buffered)
    add_memory(f, width, held, held > 64 && held * width > 4096);
  else
    f.add_ff("memory", width);
}

void add_dot_products(Features& f, const Values& v, std::int64_t count) {
  const std::int64_t simd = v["SIMD"], levels = clog2(simd);
  const bool signs = v["AKIND"] == kBipolar && v["WKIND"] == kBipolar;
  const AdderTree adders = adder_tree(
      simd,
      signs ? 1 : signed_operand_bits(v["ABITS"], v["AKIND"]) + signed_operand_bits(v["WBITS"], v["WKIND"]),
      1, levels);
  f.add_lut("tree", static_cast<double>(count) * adders.adder_bits);
  f.add_ff("tree", static_cast<double>(count) * adders.register_bits);
  if (signs)
    f.add_lut("sign", count * (simd + levels + 1));
  else
    add_products(f, v, count * simd);
}

std::unique_ptr<TimingUnit> play_matrix_unit(const PlayedInstance& p, const Values& v) {
  const std::int64_t nf = v["MH"] / v["PE"], sf = v["MW"] / v["SIMD"];
  const std::uint64_t delay = static_cast<std::uint64_t>(clog2(v["SIMD"])) + 3;
  const Lines lines = lines_of(p.netlist, p.unit.instance);
  if (nf == 1) return played<MatrixOnce>(p.in(), p.out(), delay, sf, lines);
  return played<MatrixBuffered>(p.in(), p.out(), delay, sf, nf, v["IBUF"], lines);
}

std::uint64_t matrix_unit_latency(const Values& v) {
  return static_cast<std::uint64_t>(3 + clog2(v["SIMD"]) + (v["MH"] > v["PE"] ? 1 : 0));
}

Beats matrix_unit_frame(const Values& v, std::int64_t) {
  return {{v["MW"] / v["SIMD"]}, {v["MH"] / v["PE"]}};
}

}  // namespace millrace::compiler::generators
