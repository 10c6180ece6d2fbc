// Generators for blocks that compute element by element or only move elements: Rescale, Lookup, Add, Concat, Rearrange.
#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/step_function.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::ElementType;

/// A block whose beats have a number of output elements that divides a row of the tensor.
class ElementwiseBlock : public LanesBlock {
 public:
  ElementwiseBlock(const kernels::Program& program, std::uint32_t block)
      : LanesBlock(program, block), image_(image(output())) {}

 protected:
  std::vector<Folding> possible() const override { return lane_foldings(image_); }
  std::uint64_t interval(const Folding& folding) const override {
    return image_.elements() / (folding.simd * folding.pixels);
  }
  Status check(const Folding& folding) const override {
    if (folding.pe != 1) return refuse("only SIMD and pixels can be changed for this operation; set PE to 1");
    const bool fits = folding.pixels == 1 ? image_.c % folding.simd == 0
                                          : folding.simd == image_.c && image_.w % folding.pixels == 0;
    if (fits) return {};
    return refuse(std::to_string(folding.simd) + " lanes of " + std::to_string(folding.pixels) +
                  " pixels do not divide rows of " + std::to_string(image_.w) + " pixels with " +
                  std::to_string(image_.c) +
                  " channels; choose divisors; "
                  "for several pixels per cycle, SIMD must equal the number of channels");
  }
  double lead() const override { return 1.0 / static_cast<double>(image_.elements()); }
  StreamIndex take(NetlistBuilder& netlist, std::size_t i, std::uint32_t lanes) const {
    return netlist.input(lanes, input(i).type.bits, input(i).elements());
  }
  static std::string table_file(const NetlistBuilder& netlist) { return netlist.prefix() + "_table.hex"; }
  /// Adds an mr_lut (a lookup table for each element). The host loads its table, or a memory file contains it.
  /// `flipped` masks index bits to be inverted.
  StreamIndex look_up(NetlistBuilder& netlist, StreamIndex from, TableStyle style, std::int64_t flipped,
                      bool table_loaded) const {
    const Stream in = netlist.stream(from);
    const unsigned out_bits = output().type.bits;
    Parameters parameters = {{"SIMD", in.lanes},
                             {"IBITS", in.bits},
                             {"OBITS", out_bits},
                             {"FLIP", flipped},
                             {"STYLE", static_cast<int>(style)}};
    std::vector<std::pair<std::string, std::string>> files;
    if (table_loaded)
      parameters.emplace_back("LOADED", 1);
    else
      files = {{"FILE", table_file(netlist)}};
    return netlist.add("mr_lut", "lut", std::move(parameters), {from}, {in.lanes, out_bits, in.beats},
                       std::move(files));
  }

  Image image_;
};

class RescaleBlock : public ElementwiseBlock {
 public:
  RescaleBlock(const kernels::Program& program, std::uint32_t block)
      : ElementwiseBlock(program, block),
        step_(std::get<kernels::Rescale>(block_.operation).requantise, output().type, image_.c, {},
              loaded()) {}

 protected:
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override {
    const std::uint32_t lanes = folding.simd * folding.pixels;
    StreamIndex at = take(netlist, 0, lanes);
    const Stream in = netlist.stream(at);
    unsigned bits = in.bits;
    if (kind(input().type) == 0) {
      // mr_requant and mr_threshold accept only signed numbers.
      at = netlist.wires(Wiring::kZeroExtend, "signed", at, {in.lanes, ++bits, in.beats});
    }
    step_.write_files(netlist, lanes, bits, {"requant"});
    return netlist.finish(step_.add(netlist, "requant", at));
  }

 private:
  StepFunction step_;
};

/// The lowest value of the type must select line 0 of a table. Returns a mask of the index bit to invert for this
/// purpose: the sign bit of a signed type, otherwise no bit.
std::int64_t flip(ElementType type) {
  return kind(type) == 1 ? std::int64_t{1} << (type.bits - 1) : 0;
}

class LookupBlock : public ElementwiseBlock {
 public:
  using ElementwiseBlock::ElementwiseBlock;

 protected:
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override {
    const std::uint32_t lanes = folding.simd * folding.pixels;
    const auto& table = std::get<kernels::Lookup>(block_.operation).table;
    const unsigned out_bits = output().type.bits;
    const StreamIndex from = take(netlist, 0, lanes);
    HexLines lines(out_bits);
    for (std::size_t i = 0; netlist.memories() && i < table.size(); ++i) {
      lines.put(static_cast<std::uint64_t>(std::int64_t{table[i]}), out_bits);
      lines.end_line();
    }
    if (loaded())
      netlist.load("table", {"lut"}, out_bits, table.size(), lines.take());
    else if (netlist.memories())
      netlist.file(table_file(netlist), lines.take());
    const TableStyle style = folding.memory == TableStyle::kAuto ? TableStyle::kLogic : folding.memory;
    return netlist.finish(look_up(netlist, from, style, flip(input().type), loaded()));
  }
};

class AddBlock : public ElementwiseBlock {
 public:
  AddBlock(const kernels::Program& program, std::uint32_t block)
      : ElementwiseBlock(program, block), add_(std::get<kernels::Add>(block_.operation)) {}

 protected:
  Status check(const Folding& folding) const override {
    MILLRACE_TRY(ElementwiseBlock::check(folding));
    if (add_.table.empty()) return {};
    return check_table(folding, std::uint64_t{1} << (2U * table_bits()), "");
  }
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override {
    const std::uint32_t lanes = folding.simd * folding.pixels;
    const StreamIndex a = take(netlist, 0, lanes), b = take(netlist, 1, lanes);
    return netlist.finish(add_.table.empty() ? sum(lanes, a, b, netlist)
                                             : table(lanes, a, b, folding, netlist));
  }

 private:
  /// Returns how many bits each operand has in the table's index.
  unsigned table_bits() const { return std::max(input(0).type.bits, input(1).type.bits); }

  StreamIndex sum(std::uint32_t lanes, StreamIndex a, StreamIndex b, NetlistBuilder& netlist) const {
    const ElementType ta = input(0).type, tb = input(1).type;
    const auto products = [](std::int64_t factor, ElementType type) -> std::pair<std::int64_t, std::int64_t> {
      const std::int64_t one = factor * type.lowest(), other = factor * type.highest();
      return {std::min(one, other), std::max(one, other)};
    };
    const auto pa = products(add_.multiplier_a, ta), pb = products(add_.multiplier_b, tb);
    const std::int64_t low =
        std::min({pa.first, pb.first, pa.first + pb.first, pa.first + pb.first + add_.offset});
    const std::int64_t high =
        std::max({pa.second, pb.second, pa.second + pb.second, pa.second + pb.second + add_.offset});
    // The bit width that mr_add uses for the sum, the bounds, the offset and both multipliers.
    const unsigned bits = std::max({signed_bits(std::min({low, std::int64_t{add_.lowest}, add_.offset}),
                                                std::max({high, std::int64_t{add_.highest}, add_.offset})),
                                    signed_bits(std::min(add_.multiplier_a, add_.multiplier_b),
                                                std::max(add_.multiplier_a, add_.multiplier_b)),
                                    static_cast<unsigned>(std::max(ta.bits, tb.bits)) + 1U});
    return netlist.add("mr_add", "add",
                       {{"SIMD", lanes},
                        {"ABITS", ta.bits},
                        {"AKIND", kind(ta)},
                        {"BBITS", tb.bits},
                        {"BKIND", kind(tb)},
                        {"A_FACTOR", add_.multiplier_a},
                        {"B_FACTOR", add_.multiplier_b},
                        {"OFFSET", add_.offset},
                        {"SHIFT", add_.shift},
                        {"ZBITS", bits},
                        {"OBITS", output().type.bits},
                        {"LOWEST", add_.lowest},
                        {"HIGHEST", add_.highest}},
                       {a, b}, {lanes, output().type.bits, image_.elements() / lanes});
  }

  StreamIndex table(std::uint32_t lanes, StreamIndex a, StreamIndex b, const Folding& folding,
                    NetlistBuilder& netlist) const {
    const ElementType ta = input(0).type, tb = input(1).type;
    const unsigned bits = table_bits(), out_bits = output().type.bits;
    const std::uint64_t beats = image_.elements() / lanes;
    const auto widen = [&](StreamIndex s, ElementType type, const char* suffix) {
      if (type.bits == bits) return s;
      return netlist.wires(kind(type) == 1 ? Wiring::kSignExtend : Wiring::kZeroExtend, suffix, s,
                           {lanes, bits, beats});
    };
    const StreamIndex joined = netlist.join("join", {widen(a, ta, "a"), widen(b, tb, "b")});
    const StreamIndex pairs = netlist.wires(Wiring::kInterleave, "pairs", joined, {lanes, 2 * bits, beats});
    const ElementType wide_a{ta.kind, static_cast<std::uint8_t>(bits)},
        wide_b{tb.kind, static_cast<std::uint8_t>(bits)};
    if (netlist.memories()) {
      HexLines lines(out_bits);
      for (std::int64_t x = wide_a.lowest(); x <= wide_a.highest(); ++x)
        for (std::int64_t y = wide_b.lowest(); y <= wide_b.highest(); ++y) {
          const bool there = x >= ta.lowest() && x <= ta.highest() && y >= tb.lowest() && y <= tb.highest();
          const auto at = static_cast<std::size_t>(((x - ta.lowest()) << tb.bits) + (y - tb.lowest()));
          lines.put(there ? static_cast<std::uint64_t>(std::int64_t{add_.table[at]}) : 0, out_bits);
          lines.end_line();
        }
      netlist.file(table_file(netlist), lines.take());
    }
    const TableStyle style = folding.memory != TableStyle::kAuto ? folding.memory
                             : bits > 4                          ? TableStyle::kBlock
                                                                 : TableStyle::kLogic;
    return look_up(netlist, pairs, style, flip(wide_a) << bits | flip(wide_b), false);
  }

  const kernels::Add& add_;
};

class ConcatBlock : public ElementwiseBlock {
 public:
  ConcatBlock(const kernels::Program& program, std::uint32_t block) : ElementwiseBlock(program, block) {
    for (std::size_t i = 0; i < block_.inputs.size(); ++i) shared_ = std::gcd(shared_, image(input(i)).c);
  }

 protected:
  Status check(const Folding& folding) const override {
    if (folding.pe == 1 && folding.pixels == 1 && shared_ % folding.simd == 0) return {};
    return refuse("SIMD " + std::to_string(folding.simd) + " (PE " + std::to_string(folding.pe) + ", " +
                  std::to_string(folding.pixels) +
                  " pixels): SIMD must divide the number of channels of every input; "
                  "choose a divisor of " +
                  std::to_string(shared_) + ", PE 1 and 1 pixel");
  }
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override {
    const unsigned bits = output().type.bits;
    const std::uint64_t pixels = std::uint64_t{image_.h} * image_.w;
    std::vector<StreamIndex> parts;
    for (std::size_t i = 0; i < block_.inputs.size(); ++i) parts.push_back(take(netlist, i, folding.simd));
    StreamIndex at = parts.front();
    std::uint32_t channels = image(input(0)).c;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::uint32_t more = image(input(i)).c;
      at = netlist.add(
          "mr_concat", "concat" + (i == 1 ? std::string() : std::to_string(i)),
          {{"WIDTH", folding.simd * bits}, {"CF0", channels / folding.simd}, {"CF1", more / folding.simd}},
          {at, parts[i]}, {folding.simd, bits, pixels * (channels + more) / folding.simd});
      channels += more;
    }
    return netlist.finish(at);
  }
  double lead() const override { return 1.0 / (static_cast<double>(image_.h) * image_.w); }
  std::vector<Folding> possible() const override {
    std::vector<Folding> all;
    for (const std::uint32_t lanes : divisors(shared_)) {
      all.emplace_back();
      all.back().simd = lanes;
    }
    return all;
  }

 private:
  std::uint32_t shared_ = 0;  // greatest common divisor of the numbers of channels of all inputs
};

/// A block that keeps the order of elements. It needs no hardware, because the stream stays the same.
class ReshapeBlock : public ElementwiseBlock {
 public:
  using ElementwiseBlock::ElementwiseBlock;

 protected:
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override {
    const StreamIndex from =
        netlist.input(folding.simd * folding.pixels, input().type.bits, image_.elements());
    return netlist.finish(from);
  }
};

template <class Block>
MadeGenerator made(const kernels::Program& program, std::uint32_t block) {
  return std::unique_ptr<Generator>(std::make_unique<Block>(program, block));
}

}  // namespace

MadeGenerator make_elementwise(const kernels::Program& program, std::uint32_t index) {
  const auto& block = program.blocks[index];
  if (std::holds_alternative<kernels::Concat>(block.operation)) return made<ConcatBlock>(program, index);
  if (const auto* rearrange = std::get_if<kernels::Rearrange>(&block.operation)) {
    if (kernels::keeps_order(*rearrange, program.tensors[block.inputs[0]].elements(),
                             program.tensors[block.outputs[0]].elements()))
      return made<ReshapeBlock>(program, index);
    return make_reorder(program, index);
  }
  bool bipolar = false;
  for (const auto t : block.inputs) bipolar = bipolar || kind(program.tensors[t].type) == 2;
  const auto& out = program.tensors[block.outputs[0]].type;
  if (bipolar) {
    const std::string reason =
        "hardware supports bipolar elements only in convolutions and pooling; "
        "this block runs on the host";
    return Error(ErrorCode::kUnsupported, block_label(block) + reason);
  }
  if (out.bits > 8)
    return Error(ErrorCode::kUnsupported, block_label(block) + "a result of " + std::to_string(out.bits) +
                                              " bits; hardware makes at most 8");
  if (std::holds_alternative<kernels::Rescale>(block.operation)) return made<RescaleBlock>(program, index);
  if (std::holds_alternative<kernels::Lookup>(block.operation)) return made<LookupBlock>(program, index);
  const auto& add = std::get<kernels::Add>(block.operation);
  const unsigned a = program.tensors[block.inputs[0]].type.bits,
                 b = program.tensors[block.inputs[1]].type.bits;
  if (!add.table.empty() && std::max(a, b) > 8)
    return Error(ErrorCode::kUnsupported, block_label(block) + "a table over operands of " +
                                              std::to_string(std::max(a, b)) +
                                              " bits; hardware takes at most 8");
  return made<AddBlock>(program, index);
}

}  // namespace millrace::compiler::generators
