// The units of a folded convolution, and the contents of their memories.
#include <algorithm>

#include "compiler/generators/convolution.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::ElementType;

/// The depth from which a table of constants costs more in LUTs than in block RAM.
constexpr std::uint64_t kLogicTableDepth = 128;

}  // namespace

TableStyle ConvolutionBlock::style(const Folding& folding, std::uint64_t depth) const {
  if (folding.memory != TableStyle::kAuto || depth == 1) return folding.memory;
  return depth <= kLogicTableDepth ? TableStyle::kLogic : TableStyle::kBlock;
}

StreamIndex ConvolutionBlock::window(const Folding& folding, NetlistBuilder& netlist) const {
  const auto& w = layer_.window;
  const ElementType type = input().type;
  const std::int64_t pad = type.kind == ElementType::Kind::kBipolar ? (w.pad_value > 0 ? 1 : 0) : w.pad_value;
  const Parameters geometry = {{"KH", w.kernel_h},  {"KW", w.kernel_w},   {"SH", w.stride_h},
                               {"SW", w.stride_w},  {"DH", w.dilation_h}, {"DW", w.dilation_w},
                               {"PT", w.pad_top},   {"PL", w.pad_left},   {"PB", w.pad_bottom},
                               {"PR", w.pad_right}, {"PAD_VALUE", pad}};
  Parameters parameters;
  if (folding.window == WindowStyle::kFolded) {
    const std::uint32_t lanes = folding.window_lanes;
    const StreamIndex from = netlist.input(lanes, type.bits, in_.elements());
    parameters = {{"H", in_.h}, {"W", in_.w}, {"CF", in_.c / lanes}, {"SIMD", lanes}, {"ABITS", type.bits}};
    parameters.insert(parameters.end(), geometry.begin(), geometry.end());
    // One row of windows is read while the next rows come in.
    parameters.emplace_back("ROWS", reach(w.kernel_h, w.dilation_h) + w.stride_h);
    return netlist.add("mr_swu", "window", std::move(parameters), {from},
                       {lanes, type.bits, vectors_ * taps_ * (in_.c / lanes)});
  }
  const std::uint32_t side_by_side = windows(folding);
  const StreamIndex from = netlist.input(folding.pixels * in_.c, type.bits, in_.elements());
  parameters = {{"H", in_.h}, {"W", in_.w}, {"C", in_.c}, {"ABITS", type.bits}, {"PX", folding.pixels}};
  parameters.insert(parameters.end(), geometry.begin(), geometry.end());
  return netlist.add("mr_swu_par", "window", std::move(parameters), {from},
                     {side_by_side * columns(folding), type.bits, vectors_ / side_by_side});
}

std::vector<std::string> ConvolutionBlock::copies(const Folding& folding, const char* unit) const {
  const std::uint32_t count = depthwise_ ? 1 : windows(folding);
  if (count == 1) return {unit};
  std::vector<std::string> names;
  for (std::uint32_t m = 0; m < count; ++m) names.push_back(unit + std::to_string(m));
  return names;
}

std::vector<std::pair<std::string, std::string>> ConvolutionBlock::place(Parameters& parameters,
                                                                         const std::string& prefix,
                                                                         const std::string& constants) const {
  if (!loaded())
    return {{"WFILE", prefix + "_weights" + constants + ".hex"},
            {"BFILE", prefix + "_bias" + constants + ".hex"}};
  parameters.emplace_back("LOADED", 1);
  return {};
}

Parameters ConvolutionBlock::with_operands(Parameters shape, const Folding& folding) const {
  const bool bipolar = layer_.weight_type.kind == ElementType::Kind::kBipolar;
  const Parameters operands = {{"ABITS", input().type.bits},
                               {"AKIND", kind(input().type)},
                               {"WBITS", layer_.weight_type.bits},
                               {"WKIND", kind(layer_.weight_type)},
                               {"ACCBITS", acc_bits_},
                               {"MUL", bipolar ? 0 : static_cast<int>(folding.multiplier)}};
  shape.insert(shape.end(), operands.begin(), operands.end());
  return shape;
}

/// Adds a matrix-vector unit for one stream of vectors. Names end with `copy`, names of its files with
/// `constants`.
StreamIndex ConvolutionBlock::matrix(const Folding& folding, NetlistBuilder& netlist, StreamIndex from,
                                     const std::string& copy, const std::string& constants) const {
  const std::uint32_t nf = rows(folding) / folding.pe, sf = columns(folding) / folding.simd;
  from = netlist.adapt("vector" + copy, from, folding.simd);
  const std::uint64_t vectors = netlist.stream(from).beats / sf;
  Parameters parameters = with_operands(
      {{"MH", rows(folding)}, {"MW", columns(folding)}, {"PE", folding.pe}, {"SIMD", folding.simd}}, folding);
  parameters.emplace_back("BIAS", bias_in_sum() ? 1 : 0);
  parameters.emplace_back("IBUF", nf > 1 ? 2 * sf : 1);
  parameters.emplace_back("WSTYLE", static_cast<int>(style(folding, std::uint64_t{nf} * sf)));
  auto files = place(parameters, netlist.prefix(), constants);
  return netlist.add("mr_mvu", "mvu" + copy, std::move(parameters), {from},
                     {folding.pe, acc_bits_, vectors * nf}, std::move(files));
}

StreamIndex ConvolutionBlock::multiply(const Folding& folding, NetlistBuilder& netlist, StreamIndex from,
                                       const std::string& copy) const {
  if (folding.implementation == Implementation::kUnrolled) return multiply_unrolled(netlist, from, copy);
  if (streams()) return multiply_streamed(folding, netlist, from);
  from = matrix(folding, netlist, from, copy, "");
  return step_ ? step_->add(netlist, "requant" + copy, from) : from;
}

/// Adds a unit for each group, which takes its part of each beat's channels. The joined sums are a pixel
/// again.
StreamIndex ConvolutionBlock::multiply_groups(const Folding& folding, NetlistBuilder& netlist,
                                              StreamIndex from) const {
  const std::uint32_t groups = matrices(folding);
  std::vector<StreamIndex> parts = netlist.split("groups", from, groups);
  for (std::uint32_t g = 0; g < groups; ++g) {
    const std::string copy = std::to_string(g);
    parts[g] = netlist.adapt("pixel" + copy, matrix(folding, netlist, parts[g], copy, copy), rows(folding));
  }
  from = netlist.adapt("channels", netlist.join("join", parts), groups * folding.pe);
  return step_ ? step_->add(netlist, "requant", from) : from;
}

/// Adds a unit that reads a line of weights a cycle, and all of them for each vector.
StreamIndex ConvolutionBlock::multiply_streamed(const Folding& folding, NetlistBuilder& netlist,
                                                StreamIndex from) const {
  constexpr int kShort = 16, kLong = 32;  // words a burst; two bursts are read ahead
  const std::uint32_t mh = rows(folding), mw = columns(folding), nf = mh / folding.pe, sf = mw / folding.simd;
  from = netlist.adapt("vector", from, folding.simd);
  const std::uint64_t vectors = netlist.stream(from).beats / sf;
  const std::uint64_t width = std::uint64_t{folding.pe} * folding.simd * layer_.weight_type.bits,
                      lines = std::uint64_t{nf} * sf;
  // Where words are used as fast as they come, more of them have to be on their way.
  const int burst = weight_pitch(width) >= kWeightWordBytes ? kLong : kShort;
  netlist.reader({{"mr_weight_reader",
                   netlist.prefix() + "_reader",
                   {{"DATA_BYTES", static_cast<std::int64_t>(kWeightWordBytes)},
                    {"BURST", burst},
                    {"WIDTH", static_cast<std::int64_t>(width)},
                    {"LINES", static_cast<std::int64_t>(lines)}}},
                  netlist.prefix() + "_mvu",
                  vectors * weight_pass(width, lines),
                  netlist.memories() ? weight_lines(folding, 0, width) : std::string()});
  Parameters parameters =
      with_operands({{"MH", mh}, {"MW", mw}, {"PE", folding.pe}, {"SIMD", folding.simd}}, folding);
  parameters.emplace_back("IBUF", nf > 1 ? 2 * sf : 1);
  from = netlist.add("mr_mvu_streamed", "mvu", std::move(parameters), {from},
                     {folding.pe, acc_bits_, vectors * nf});
  return step_->add(netlist, "requant", from);
}

StreamIndex ConvolutionBlock::multiply_unrolled(NetlistBuilder& netlist, StreamIndex from,
                                                const std::string& copy) const {
  from = netlist.adapt("vector" + copy, from, constants_->columns);
  const std::string name = netlist.prefix() + "_unrolled";
  UnrolledModule made = unroll(*constants_, name,
                               "the " + std::to_string(out_.c) + " sums of a block over its " +
                                   std::to_string(constants_->columns) + " inputs.",
                               netlist.memories() && (copy.empty() || copy == "0"));
  if (!made.text.empty()) netlist.source(name, std::move(made.text));
  from = netlist.add_written(kUnrolledModule, "unrolled" + copy, name, std::move(made.parameters), {from},
                             {out_.c, acc_bits_, netlist.stream(from).beats});
  return step_ ? step_->add(netlist, "requant" + copy, from) : from;
}

StreamIndex ConvolutionBlock::multiply_depthwise(const Folding& folding, NetlistBuilder& netlist,
                                                 StreamIndex from) const {
  const std::uint32_t cf = in_.c / folding.pe;
  Parameters parameters = with_operands({{"CHANNELS", in_.c}, {"PE", folding.pe}, {"TAPS", taps_}}, folding);
  parameters.emplace_back("BIAS", bias_in_sum() ? 1 : 0);
  parameters.emplace_back("WSTYLE", static_cast<int>(style(folding, std::uint64_t{taps_} * cf)));
  auto files = place(parameters, netlist.prefix(), "");
  from = netlist.add("mr_vvu", "vvu", std::move(parameters), {from}, {folding.pe, acc_bits_, vectors_ * cf},
                     std::move(files));
  return step_ ? step_->add(netlist, "requant", from) : from;
}

Netlist ConvolutionBlock::construct(const Folding& folding, NetlistBuilder& netlist) const {
  write_files(folding, netlist);
  const std::uint32_t side_by_side = windows(folding);
  const unsigned bits = input().type.bits;
  if (depthwise_) {
    const StreamIndex from = folding.window == WindowStyle::kNone
                                 ? netlist.input(folding.pe, bits, in_.elements())
                                 : window(folding, netlist);
    return netlist.finish(multiply_depthwise(folding, netlist, from));
  }
  if (matrices(folding) > 1) {
    const StreamIndex from = folding.window == WindowStyle::kNone ? netlist.input(in_.c, bits, in_.elements())
                                                                  : window(folding, netlist);
    return netlist.finish(multiply_groups(folding, netlist, from));
  }
  if (folding.window == WindowStyle::kNone && side_by_side == 1)
    return netlist.finish(multiply(folding, netlist, netlist.input(folding.simd, bits, in_.elements()), ""));
  const StreamIndex from = folding.window == WindowStyle::kNone
                               ? netlist.input(folding.pixels * in_.c, bits, in_.elements())
                               : window(folding, netlist);
  if (side_by_side == 1) return netlist.finish(multiply(folding, netlist, from, ""));
  // A unit for each window, which gathers the channels of its pixel, so that whole pixels are joined again.
  std::vector<StreamIndex> parts = netlist.split("split", from, side_by_side);
  for (std::uint32_t m = 0; m < side_by_side; ++m) {
    const std::string copy = std::to_string(m);
    parts[m] = netlist.adapt("pixel" + copy, multiply(folding, netlist, parts[m], copy), out_.c);
  }
  return netlist.finish(netlist.join("join", parts));
}

void ConvolutionBlock::write_files(const Folding& folding, NetlistBuilder& netlist) const {
  if (!netlist.memories() && !loaded()) return;
  const std::uint32_t count = matrices(folding);
  const bool tables = folding.implementation == Implementation::kFolded && !streams();
  for (std::uint32_t m = 0; m < count && tables; ++m)
    write_matrix(folding, netlist, m, count > 1 ? std::to_string(m) : "");
  if (!step_) return;
  step_->write_files(netlist, count * folding.pe, acc_bits_,
                     count > 1 ? std::vector<std::string>{"requant"} : copies(folding, "requant"));
}

std::string ConvolutionBlock::weight_lines(const Folding& folding, std::uint32_t first,
                                           std::uint64_t line_bits) const {
  const unsigned bits = layer_.weight_type.bits;
  const bool bipolar = layer_.weight_type.kind == ElementType::Kind::kBipolar;
  const bool paired = folding.multiplier == Multiplier::kDspPair && !bipolar;
  const std::uint32_t pe = folding.pe, simd = depthwise_ ? 1 : folding.simd;
  const std::uint32_t nf = rows(folding) / pe, sf = columns(folding) / simd;
  HexLines lines(line_bits);
  const auto put_line = [&](std::uint32_t n, std::uint32_t s) {
    for (std::uint32_t p = 0; p < pe; ++p)
      for (std::uint32_t x = 0; x < simd; ++x) {
        const std::uint32_t o = first + n * pe + p;
        std::int64_t w = weight(folding, o, s * simd + x);
        if (bipolar) w = w > 0 ? 1 : 0;
        // The odd weight of a pair compensates the borrow from the even one's product.
        if (paired && p % 2 == 1 && weight(folding, o - 1, s * simd + x) < 0) --w;
        lines.put(static_cast<std::uint64_t>(w), bits);
      }
    lines.end_line();
  };
  if (depthwise_) {
    for (std::uint32_t s = 0; s < sf; ++s)
      for (std::uint32_t n = 0; n < nf; ++n) put_line(n, s);
  } else {
    for (std::uint32_t n = 0; n < nf; ++n)
      for (std::uint32_t s = 0; s < sf; ++s) put_line(n, s);
  }
  return lines.take();
}

void ConvolutionBlock::write_matrix(const Folding& folding, NetlistBuilder& netlist, std::uint32_t number,
                                    const std::string& constants) const {
  const std::uint32_t pe = folding.pe, simd = depthwise_ ? 1 : folding.simd;
  const std::uint32_t nf = rows(folding) / pe, sf = columns(folding) / simd, first = number * rows(folding);
  // A loaded bias follows the weights on the same lines.
  const std::uint64_t bias_bits = bias_in_sum() ? std::uint64_t{pe} * acc_bits_ : 0;
  const std::uint64_t line_bits =
      std::max(std::uint64_t{pe} * simd * layer_.weight_type.bits, loaded() ? bias_bits : 0);
  const bool memories = netlist.memories();
  std::string lines = memories ? weight_lines(folding, first, line_bits) : std::string();
  HexLines biases(loaded() ? line_bits : bias_bits);
  for (std::uint32_t n = 0; memories && bias_in_sum() && n < nf; ++n) {
    for (std::uint32_t p = 0; p < pe; ++p)
      biases.put(static_cast<std::uint64_t>(std::int64_t{layer_.bias[first + n * pe + p]}), acc_bits_);
    biases.end_line();
  }
  if (loaded()) {
    const char* const unit = depthwise_ ? "vvu" : "mvu";
    netlist.load("weights" + constants,
                 constants.empty() ? copies(folding, unit) : std::vector<std::string>{unit + constants},
                 line_bits, std::uint64_t{nf} * sf + (bias_in_sum() ? nf : 0), lines + biases.take());
    return;
  }
  netlist.file(netlist.prefix() + "_weights" + constants + ".hex", std::move(lines));
  if (bias_in_sum()) netlist.file(netlist.prefix() + "_bias" + constants + ".hex", biases.take());
}

}  // namespace millrace::compiler::generators
