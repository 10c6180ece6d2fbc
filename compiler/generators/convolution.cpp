// Convolutions, depthwise and grouped ones, and fully connected layers: sliding window, matrix-vector unit,
// requantisation.
#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/generators/folded.hpp"
#include "compiler/generators/step_function.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::Convolution;
using kernels::ElementType;

constexpr unsigned kMostOperandBits = 8;
constexpr std::uint64_t kMostUnrolled = 8192;  // weights that are not zero: tools take minutes beyond
constexpr std::uint64_t kMostProposed = 4096;  // of those weights, without being asked
constexpr std::uint64_t kFewCycles = 64;       // a frame: where slower ones will do, folding is cheaper
constexpr std::uint64_t kLogicTableDepth =
    128;  // deeper tables of constants cost more in LUTs than in block RAM

/// Reach of a kernel over an image.
std::uint32_t reach(std::uint32_t kernel, std::uint32_t dilation) {
  return (kernel - 1) * dilation + 1;
}

class ConvolutionBlock : public FoldedBlock {
 public:
  ConvolutionBlock(const kernels::Program& program, std::uint32_t block)
      : FoldedBlock(program, block),
        layer_(std::get<Convolution>(block_.operation)),
        in_(image(input())),
        out_(image(output())) {
    const auto& w = layer_.window;
    const bool unpadded = w.pad_top == 0 && w.pad_left == 0 && w.pad_bottom == 0 && w.pad_right == 0;
    taps_ = w.kernel_h * w.kernel_w;
    depthwise_ = layer_.groups > 1 && layer_.groups == in_.c && layer_.out_channels == in_.c;
    const bool pixel = taps_ == 1 && w.stride_h == 1 && w.stride_w == 1 && unpadded;
    const bool whole = out_.h == 1 && out_.w == 1 && unpadded && w.dilation_h == 1 && w.dilation_w == 1 &&
                       w.kernel_h == in_.h && w.kernel_w == in_.w;
    windowless_ = pixel || whole;
    vectors_ = std::uint64_t{out_.h} * out_.w;
    if (layer_.requantise)
      step_.emplace(*layer_.requantise, output().type, out_.c, layer_.bias, loaded(), streams());
    read_weights();
    collect_constants();
  }

  std::vector<Folding> proposals(std::uint64_t interval_cycles) const override;

 protected:
  Status check(const Folding& folding) const override;
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override;
  double lead() const override;
  std::vector<std::uint64_t> all_intervals() const override;

 private:
  /// Matrices side by side: a group each, where beats hold one pixel's channels. Behind a parallel window a
  /// group's lanes are not together; there other groups' weights are zeros of one matrix.
  std::uint32_t matrices(const Folding& folding) const {
    return depthwise_ || folding.window == WindowStyle::kParallel ? 1 : layer_.groups;
  }
  std::uint32_t rows(const Folding& folding) const {  // of one
    return depthwise_ ? in_.c : out_.c / matrices(folding);
  }
  std::uint32_t columns(const Folding& folding) const {
    return depthwise_ ? taps_ : taps_ * in_.c / matrices(folding);
  }
  std::int64_t weight(const Folding& folding, std::uint32_t o, std::uint32_t column) const;
  bool bias_in_sum() const { return any_bias_ && (!step_ || !step_->takes_bias()); }
  /// Whether its weights are read from memory as they are used; what cannot be is loaded.
  bool streams() const {
    return block_.placement == Placement::kStreamed && layer_.groups == 1 && layer_.requantise.has_value();
  }
  bool pairs() const {
    return !streams() && layer_.weight_type.kind == ElementType::Kind::kSigned && !has_most_negative_ &&
           input().type.kind != ElementType::Kind::kBipolar && !depthwise_;
  }
  void read_weights();
  void collect_constants();
  bool unrolls() const { return constants_.has_value(); }
  Status check_unrolled(const Folding& folding) const;
  StreamIndex multiply_streamed(const Folding& folding, NetlistBuilder& netlist, StreamIndex from) const;
  StreamIndex multiply_unrolled(NetlistBuilder& netlist, StreamIndex from, const std::string& copy) const;
  Status check_window(const Folding& folding) const;
  std::uint32_t windows(const Folding& folding) const;  // side by side
  std::uint64_t scan_cycles(std::uint32_t pixels) const;
  void add_foldings(const Folding& window, std::uint64_t interval_cycles, std::vector<Folding>& found) const;
  std::vector<Folding> window_styles(std::uint64_t interval_cycles) const;
  StreamIndex window(const Folding& folding, NetlistBuilder& netlist) const;
  StreamIndex matrix(const Folding& folding, NetlistBuilder& netlist, StreamIndex from,
                     const std::string& copy, const std::string& constants) const;
  StreamIndex multiply(const Folding& folding, NetlistBuilder& netlist, StreamIndex from,
                       const std::string& copy) const;
  StreamIndex multiply_groups(const Folding& folding, NetlistBuilder& netlist, StreamIndex from) const;
  StreamIndex multiply_depthwise(const Folding& folding, NetlistBuilder& netlist, StreamIndex from) const;
  void write_files(const Folding& folding, NetlistBuilder& netlist) const;
  void write_matrix(const Folding& folding, NetlistBuilder& netlist, std::uint32_t number,
                    const std::string& constants) const;
  TableStyle style(const Folding& folding, std::uint64_t depth) const;
  /// What ends the names of the units side by side.
  std::vector<std::string> copies(const Folding& folding, const char* unit) const;
  /// LOADED for a unit that multiplies, or the files it reads.
  std::vector<std::pair<std::string, std::string>> place(Parameters& parameters, const std::string& prefix,
                                                         const std::string& constants) const;

  const Convolution& layer_;
  Image in_, out_;
  std::uint32_t taps_ = 1;
  std::uint64_t vectors_ = 1;
  bool depthwise_ = false, windowless_ = false, has_most_negative_ = false, any_bias_ = false;
  unsigned acc_bits_ = 1;
  std::optional<StepFunction> step_;
  std::uint64_t nonzero_ = 0;                // weights
  std::int64_t largest_ = 0;                 // of their sizes
  std::optional<ConstantMatrix> constants_;  // where it can be unrolled
};

/// Of output channel `o` of all.
std::int64_t ConvolutionBlock::weight(const Folding& folding, std::uint32_t o, std::uint32_t column) const {
  const std::uint32_t channels = in_.c / layer_.groups;  // of a group
  if (depthwise_) return layer_.weights[o * taps_ + column];
  if (matrices(folding) > 1) return layer_.weights[std::size_t{o} * taps_ * channels + column];
  const std::uint32_t tap = column / in_.c, c = column % in_.c;
  if (c / channels != o / (out_.c / layer_.groups)) return 0;
  return layer_.weights[(std::size_t{o} * taps_ + tap) * channels + c % channels];
}

/// Widths come from the values that are there: the sums they can reach, whatever the input. Where others will
/// be loaded, from the accumulator's type, which all of them fit.
void ConvolutionBlock::read_weights() {
  any_bias_ = std::any_of(layer_.bias.begin(), layer_.bias.end(), [](auto b) { return b != 0; });
  const std::int64_t most_negative = layer_.weight_type.lowest();
  const std::int64_t low_in = input().type.lowest(), high_in = input().type.highest();
  const std::size_t each = layer_.weights.size() / std::max<std::size_t>(out_.c, 1);
  std::int64_t lowest = 0, highest = 0;
  for (std::uint32_t o = 0; o < out_.c; ++o) {
    std::int64_t low = bias_in_sum() ? layer_.bias[o] : 0, high = low;
    for (std::size_t i = 0; i < each; ++i) {
      const std::int64_t w = layer_.weights[o * each + i];
      has_most_negative_ = has_most_negative_ || w == most_negative;
      nonzero_ += w != 0 ? 1 : 0;
      largest_ = std::max<std::int64_t>(largest_, w < 0 ? -w : w);
      low += std::min(w * low_in, w * high_in);
      high += std::max(w * low_in, w * high_in);
    }
    lowest = std::min(lowest, low);
    highest = std::max(highest, high);
  }
  acc_bits_ = step_ ? signed_bits(lowest, highest) : output().type.bits;
  if (!loaded()) return;
  any_bias_ = !layer_.bias.empty();
  acc_bits_ = layer_.accumulator.bits;
}

/// The matrix as it stands, where it is small enough to be built as such.
void ConvolutionBlock::collect_constants() {
  if (loaded() || layer_.groups > 1 || nonzero_ > kMostUnrolled || largest_ > kLargestConstant) return;
  const std::uint32_t inputs = taps_ * in_.c;
  if (std::uint64_t{out_.c} * inputs > 4 * kMostUnrolled) return;
  ConstantMatrix matrix{out_.c, inputs, input().type, acc_bits_, {}, {}};
  matrix.weights.assign(layer_.weights.begin(), layer_.weights.end());
  if (bias_in_sum()) matrix.biases.assign(layer_.bias.begin(), layer_.bias.end());
  constants_ = std::move(matrix);
}

Status ConvolutionBlock::check_unrolled(const Folding& folding) const {
  if (layer_.groups > 1)
    return refuse("convolutions in groups are not unrolled; choose the folded generator");
  if (!unrolls())
    return refuse("unrolled, it would be " + std::to_string(nonzero_) + " constants of up to " +
                  std::to_string(largest_) + "; at most " + std::to_string(kMostUnrolled) +
                  " that are not zero, up to " + std::to_string(kLargestConstant) +
                  ", are built so; choose the folded generator");
  if (folding.pe != out_.c || folding.simd != constants_->columns)
    return refuse("unrolled, PE is " + std::to_string(out_.c) + " and SIMD " +
                  std::to_string(constants_->columns));
  return {};
}

std::uint32_t ConvolutionBlock::windows(const Folding& folding) const {
  if (folding.window == WindowStyle::kFolded) return 1;
  const std::uint32_t stride = folding.window == WindowStyle::kParallel ? layer_.window.stride_w : 1;
  return folding.pixels > stride ? folding.pixels / stride : 1;
}

/// Interval of mr_swu_par with that many pixels a cycle.
std::uint64_t ConvolutionBlock::scan_cycles(std::uint32_t pixels) const {
  const auto& w = layer_.window;
  const std::uint32_t side_by_side = pixels > w.stride_w ? pixels / w.stride_w : 1;
  const std::uint32_t blocks = in_.w / pixels, step = w.stride_w > pixels ? w.stride_w / pixels : 1;
  const std::uint32_t newest =
      ((side_by_side - 1) * w.stride_w + reach(w.kernel_w, w.dilation_w) - 1 - w.pad_left) / pixels;
  const std::uint32_t needed = (out_.w / side_by_side - 1) * step + newest + 1;
  const std::uint32_t left = (w.pad_left + pixels - 1) / pixels,
                      right = needed > blocks ? needed - blocks : 0;
  return std::uint64_t{in_.h + std::max(w.pad_top, w.pad_bottom)} * (blocks + std::max(left, right));
}

Status ConvolutionBlock::check_window(const Folding& folding) const {
  const auto& w = layer_.window;
  const std::string pixels = std::to_string(folding.pixels) + " pixels a cycle";
  if (folding.window == WindowStyle::kNone) {
    if (!windowless_)
      return refuse("its windows overlap or skip: they need a sliding window (folded or parallel)");
    if (folding.pixels > 1 && (taps_ > 1 || in_.w % folding.pixels != 0 || layer_.groups > 1))
      return refuse(pixels + " do not divide a row of " + std::to_string(in_.w) + "; choose a divisor, or 1");
    return {};
  }
  if (folding.window == WindowStyle::kFolded) {
    if (in_.c % folding.window_lanes != 0)
      return refuse(std::to_string(folding.window_lanes) + " window lanes do not divide " +
                    std::to_string(in_.c) + " channels; choose a divisor");
    if (matrices(folding) > 1 && folding.window_lanes != in_.c)
      return refuse("groups are told apart where all " + std::to_string(in_.c) +
                    " channels come at once; choose as many window lanes");
    if (folding.pixels != 1)
      return refuse("a folded window takes one pixel at a time; choose the parallel one");
    return {};
  }
  const std::uint32_t p = folding.pixels;
  const bool fits = !depthwise_ && in_.w % p == 0 && (p % w.stride_w == 0 || w.stride_w % p == 0) &&
                    in_.w / p >= 2 && out_.w % windows(folding) == 0 &&
                    w.pad_top < reach(w.kernel_h, w.dilation_h) &&
                    w.pad_left < reach(w.kernel_w, w.dilation_w);
  if (!fits)
    return refuse("a parallel window with " + pixels + " does not suit a width of " + std::to_string(in_.w) +
                  ", stride " + std::to_string(w.stride_w) + " and an output width of " +
                  std::to_string(out_.w) + "; choose the folded one, or fewer pixels");
  return {};
}

Status ConvolutionBlock::check(const Folding& folding) const {
  MILLRACE_TRY(check_window(folding));
  if (folding.implementation == Implementation::kUnrolled) MILLRACE_TRY(check_unrolled(folding));
  if (streams() && windows(folding) > 1)
    return refuse("streamed weights serve one window at a time; choose fewer pixels");
  const std::string of_a_group = matrices(folding) > 1 ? " of a group" : "";
  if (rows(folding) % folding.pe != 0)
    return refuse("PE " + std::to_string(folding.pe) + " does not divide " + std::to_string(rows(folding)) +
                  " output channels" + of_a_group + "; choose a divisor");
  if (depthwise_ ? folding.simd != 1 : columns(folding) % folding.simd != 0)
    return refuse("SIMD " + std::to_string(folding.simd) + " does not divide " +
                  (depthwise_ ? "1 (a depthwise convolution is folded by PE only)"
                              : std::to_string(columns(folding)) + " inputs of an output; choose a divisor"));
  if (depthwise_ && in_.c / folding.pe > kMostPartialResults)
    return refuse("PE " + std::to_string(folding.pe) + " leaves " + std::to_string(in_.c / folding.pe) +
                  " partial sums, a memory in LUTs holds " + std::to_string(kMostPartialResults) +
                  "; choose a larger PE");
  if (depthwise_ && folding.window == WindowStyle::kFolded && folding.window_lanes != folding.pe)
    return refuse("a depthwise convolution's window lanes are its PE; set both to " +
                  std::to_string(folding.pe));
  if (folding.implementation == Implementation::kFolded && folding.multiplier == Multiplier::kDspPair &&
      !pairs())
    return refuse(
        has_most_negative_
            ? "a weight is " + std::to_string(layer_.weight_type.lowest()) +
                  ", which two products in a DSP slice cannot take; choose one product a slice, or train "
                  "with a symmetric range"
            : "two products in a DSP slice need signed weights and integer inputs; choose one a slice");
  if (step_ && folding.pe * windows(folding) * matrices(folding) > 999)
    return refuse("PE " + std::to_string(folding.pe) + ": at most 999 lanes are requantised side by side");
  return {};
}

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

/// A matrix-vector unit over one stream of vectors. `copy` ends the names, `constants` those of its files.
StreamIndex ConvolutionBlock::matrix(const Folding& folding, NetlistBuilder& netlist, StreamIndex from,
                                     const std::string& copy, const std::string& constants) const {
  const std::uint32_t nf = rows(folding) / folding.pe, sf = columns(folding) / folding.simd;
  from = netlist.adapt("vector" + copy, from, folding.simd);
  const std::uint64_t vectors = netlist.stream(from).beats / sf;
  const bool bipolar = layer_.weight_type.kind == ElementType::Kind::kBipolar;
  Parameters parameters = {{"MH", rows(folding)},
                           {"MW", columns(folding)},
                           {"PE", folding.pe},
                           {"SIMD", folding.simd},
                           {"ABITS", input().type.bits},
                           {"AKIND", kind(input().type)},
                           {"WBITS", layer_.weight_type.bits},
                           {"WKIND", kind(layer_.weight_type)},
                           {"ACCBITS", acc_bits_},
                           {"MUL", bipolar ? 0 : static_cast<int>(folding.multiplier)},
                           {"BIAS", bias_in_sum() ? 1 : 0},
                           {"IBUF", nf > 1 ? 2 * sf : 1},
                           {"WSTYLE", static_cast<int>(style(folding, std::uint64_t{nf} * sf))}};
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

/// A unit a group over its part of each beat's channels; their sums side by side are a pixel's again.
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

/// A line of weights a cycle, and a pass over all of them a vector.
StreamIndex ConvolutionBlock::multiply_streamed(const Folding& folding, NetlistBuilder& netlist,
                                                StreamIndex from) const {
  constexpr std::uint64_t kWordBytes = 64;  // of memory
  const std::uint32_t mh = rows(folding), mw = columns(folding), nf = mh / folding.pe, sf = mw / folding.simd;
  from = netlist.adapt("vector", from, folding.simd);
  const std::uint64_t vectors = netlist.stream(from).beats / sf;
  const std::uint64_t width = std::uint64_t{folding.pe} * folding.simd * layer_.weight_type.bits,
                      lines = std::uint64_t{nf} * sf, bytes = (width + 7) / 8;
  const std::uint64_t pitch =
      bytes >= kWordBytes ? (bytes + kWordBytes - 1) / kWordBytes * kWordBytes : std::bit_ceil(bytes);
  const std::uint64_t pass = (lines * pitch + kWordBytes - 1) / kWordBytes * kWordBytes;
  const bool bipolar = layer_.weight_type.kind == ElementType::Kind::kBipolar;
  netlist.reader({{"mr_weight_reader",
                   netlist.prefix() + "_reader",
                   {{"DATA_BYTES", kWordBytes},
                    {"BURST", 16},
                    {"WIDTH", static_cast<std::int64_t>(width)},
                    {"LINES", static_cast<std::int64_t>(lines)}}},
                  netlist.prefix() + "_mvu",
                  vectors * pass});
  from = netlist.add("mr_mvu_streamed", "mvu",
                     {{"MH", mh},
                      {"MW", mw},
                      {"PE", folding.pe},
                      {"SIMD", folding.simd},
                      {"ABITS", input().type.bits},
                      {"AKIND", kind(input().type)},
                      {"WBITS", layer_.weight_type.bits},
                      {"WKIND", kind(layer_.weight_type)},
                      {"ACCBITS", acc_bits_},
                      {"MUL", bipolar ? 0 : static_cast<int>(folding.multiplier)},
                      {"IBUF", nf > 1 ? 2 * sf : 1}},
                     {from}, {folding.pe, acc_bits_, vectors * nf});
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
  const bool bipolar = layer_.weight_type.kind == ElementType::Kind::kBipolar;
  Parameters parameters = {{"CHANNELS", in_.c},
                           {"PE", folding.pe},
                           {"TAPS", taps_},
                           {"ABITS", input().type.bits},
                           {"AKIND", kind(input().type)},
                           {"WBITS", layer_.weight_type.bits},
                           {"WKIND", kind(layer_.weight_type)},
                           {"ACCBITS", acc_bits_},
                           {"MUL", bipolar ? 0 : static_cast<int>(folding.multiplier)},
                           {"BIAS", bias_in_sum() ? 1 : 0},
                           {"WSTYLE", static_cast<int>(style(folding, std::uint64_t{taps_} * cf))}};
  auto files = place(parameters, netlist.prefix(), "");
  from = netlist.add("mr_vvu", "vvu", std::move(parameters), {from}, {folding.pe, acc_bits_, vectors_ * cf},
                     std::move(files));
  return step_ ? step_->add(netlist, "requant", from) : from;
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

void ConvolutionBlock::write_matrix(const Folding& folding, NetlistBuilder& netlist, std::uint32_t number,
                                    const std::string& constants) const {
  const unsigned bits = layer_.weight_type.bits;
  const bool bipolar = layer_.weight_type.kind == ElementType::Kind::kBipolar;
  const bool paired = folding.multiplier == Multiplier::kDspPair && !bipolar;
  const std::uint32_t pe = folding.pe, simd = depthwise_ ? 1 : folding.simd;
  const std::uint32_t nf = rows(folding) / pe, sf = columns(folding) / simd, first = number * rows(folding);
  // A loaded bias follows the weights on the same lines.
  const std::uint64_t bias_bits = bias_in_sum() ? std::uint64_t{pe} * acc_bits_ : 0;
  const std::uint64_t line_bits = std::max(std::uint64_t{pe} * simd * bits, loaded() ? bias_bits : 0);
  const bool memories = netlist.memories();
  HexLines lines(line_bits);
  const auto put_line = [&](std::uint32_t n, std::uint32_t s) {
    for (std::uint32_t p = 0; p < pe; ++p)
      for (std::uint32_t x = 0; x < simd; ++x) {
        const std::uint32_t o = first + n * pe + p;
        std::int64_t w = weight(folding, o, s * simd + x);
        if (bipolar) w = w > 0 ? 1 : 0;
        // The odd one of a pair takes back what the even one's product borrows from it.
        if (paired && p % 2 == 1 && weight(folding, o - 1, s * simd + x) < 0) --w;
        lines.put(static_cast<std::uint64_t>(w), bits);
      }
    lines.end_line();
  };
  if (memories && depthwise_) {
    for (std::uint32_t s = 0; s < sf; ++s)
      for (std::uint32_t n = 0; n < nf; ++n) put_line(n, s);
  } else if (memories) {
    for (std::uint32_t n = 0; n < nf; ++n)
      for (std::uint32_t s = 0; s < sf; ++s) put_line(n, s);
  }
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
                 line_bits, std::uint64_t{nf} * sf + (bias_in_sum() ? nf : 0), lines.take() + biases.take());
    return;
  }
  netlist.file(netlist.prefix() + "_weights" + constants + ".hex", lines.take());
  if (bias_in_sum()) netlist.file(netlist.prefix() + "_bias" + constants + ".hex", biases.take());
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
  // A unit a window; each gathers its pixel's channels, so that the pixels lie side by side again.
  std::vector<StreamIndex> parts = netlist.split("split", from, side_by_side);
  for (std::uint32_t m = 0; m < side_by_side; ++m) {
    const std::string copy = std::to_string(m);
    parts[m] = netlist.adapt("pixel" + copy, multiply(folding, netlist, parts[m], copy), out_.c);
  }
  return netlist.finish(netlist.join("join", parts));
}

double ConvolutionBlock::lead() const {
  const double pixels = static_cast<double>(in_.h) * in_.w;
  if (windowless_) return static_cast<double>(taps_) / pixels;
  const auto& w = layer_.window;
  const double rows_needed = reach(w.kernel_h, w.dilation_h) - 1 - static_cast<double>(w.pad_top);
  const double columns_needed = reach(w.kernel_w, w.dilation_w) - static_cast<double>(w.pad_left);
  return std::clamp((rows_needed * in_.w + columns_needed) / pixels, 1.0 / pixels, 1.0);
}

/// The window makers that keep up with an interval, each in its smallest form.
std::vector<Folding> ConvolutionBlock::window_styles(std::uint64_t interval_cycles) const {
  std::vector<Folding> found;
  Folding folding;
  if (windowless_) {
    if (matrices(folding) > 1 && vectors_ * taps_ > interval_cycles) return {};
    if (vectors_ == 1 || layer_.groups > 1) return {folding};
    for (const std::uint32_t pixels : divisors(in_.w)) {
      folding.pixels = pixels;
      if (vectors_ / pixels <= interval_cycles && check_window(folding).ok()) return {folding};
    }
    return {};
  }
  folding.window = WindowStyle::kFolded;
  for (const std::uint32_t lanes : layer_.groups > 1 ? std::vector{in_.c} : divisors(in_.c)) {
    const std::uint64_t folds = in_.c / lanes;
    if (std::max(vectors_ * taps_, std::uint64_t{in_.h} * in_.w) * folds > interval_cycles) continue;
    folding.window_lanes = lanes;
    found.push_back(folding);
    break;
  }
  folding = {};
  folding.window = WindowStyle::kParallel;
  for (const std::uint32_t pixels : divisors(in_.w)) {
    folding.pixels = pixels;
    if (!check_window(folding).ok() || scan_cycles(pixels) > interval_cycles) continue;
    found.push_back(folding);
    break;
  }
  return found;
}

void ConvolutionBlock::add_foldings(const Folding& window, std::uint64_t interval_cycles,
                                    std::vector<Folding>& found) const {
  constexpr std::size_t kEach = 4;  // foldings of one multiplier
  const std::uint64_t vectors = vectors_ / windows(window);
  WindowGaps gaps;
  if (window.window == WindowStyle::kParallel) {
    NetlistBuilder alone("", 0, false);
    const Netlist netlist = alone.finish(this->window(window, alone));
    gaps = window_gaps(netlist, netlist.units.front());
  }
  std::vector<Folding> fit;
  for (const std::uint32_t pe : divisors(rows(window)))
    for (const std::uint32_t simd : divisors(columns(window))) {
      const std::uint64_t nf = rows(window) / pe, sf = columns(window) / simd;
      if (vectors * nf * sf + gaps.cost(nf, sf) > interval_cycles) continue;
      fit.push_back(window);
      fit.back().pe = pe;
      fit.back().simd = simd;
      break;  // wider is dearer and no better
    }
  // Signs alone are counted more cheaply than added.
  const bool signs = input().type.kind == ElementType::Kind::kBipolar;
  if (unrolls() && !signs && nonzero_ <= kMostProposed && interval_cycles <= kFewCycles &&
      vectors + gaps.cost(1, 1) <= interval_cycles) {
    Folding unrolled = window;
    unrolled.implementation = Implementation::kUnrolled;
    unrolled.pe = out_.c;
    unrolled.simd = constants_->columns;
    found.push_back(unrolled);
  }
  const auto slices = [](const Folding& f) {
    return f.multiplier == Multiplier::kDspPair ? (f.pe + 1) / 2 * f.simd : f.pe * f.simd;
  };
  for (const Multiplier multiplier : {Multiplier::kDspPair, Multiplier::kDsp, Multiplier::kSoft}) {
    if (multiplier == Multiplier::kDspPair && !pairs()) continue;
    for (auto& f : fit) f.multiplier = multiplier;
    std::stable_sort(fit.begin(), fit.end(), [&](const Folding& a, const Folding& b) {
      return std::pair(slices(a), a.pe) < std::pair(slices(b), b.pe);
    });
    for (std::size_t i = 0; i < std::min(kEach, fit.size()); ++i) found.push_back(fit[i]);
  }
}

std::vector<Folding> ConvolutionBlock::proposals(std::uint64_t interval_cycles) const {
  std::vector<Folding> found;
  if (depthwise_) {
    for (const std::uint32_t pe : divisors(in_.c)) {
      if (std::max(vectors_ * taps_, std::uint64_t{in_.h} * in_.w) * (in_.c / pe) > interval_cycles) continue;
      Folding folding;
      folding.pe = pe;
      folding.window = windowless_ ? WindowStyle::kNone : WindowStyle::kFolded;
      folding.window_lanes = windowless_ ? 1 : pe;
      if (!check(folding).ok()) continue;
      for (const Multiplier multiplier : {Multiplier::kDsp, Multiplier::kSoft}) {
        folding.multiplier = multiplier;
        found.push_back(folding);
      }
      break;
    }
    return found;
  }
  for (const Folding& window : window_styles(interval_cycles)) add_foldings(window, interval_cycles, found);
  return found;
}

std::vector<std::uint64_t> ConvolutionBlock::all_intervals() const {
  std::vector<std::uint64_t> all;
  if (depthwise_) {
    for (const std::uint32_t pe : divisors(in_.c))
      if (in_.c / pe <= kMostPartialResults)
        all.push_back(std::max(vectors_ * taps_, std::uint64_t{in_.h} * in_.w) * (in_.c / pe));
    return all;
  }
  std::vector<std::uint32_t> side_by_side = {1};
  for (const std::uint32_t pixels : divisors(in_.w)) {
    Folding folding;
    folding.window = windowless_ ? WindowStyle::kNone : WindowStyle::kParallel;
    folding.pixels = pixels;
    if (!check_window(folding).ok()) continue;
    side_by_side.push_back(windows(folding));
    const std::uint64_t beats = matrices(folding) > 1 ? vectors_ * taps_ : vectors_ / windows(folding);
    all.push_back(windowless_ ? beats : scan_cycles(pixels));
  }
  const auto add_matrices = [&](const Folding& how, std::uint32_t side, std::uint64_t fastest) {
    for (const std::uint32_t pe : divisors(rows(how)))
      for (const std::uint32_t simd : divisors(columns(how)))
        if (const std::uint64_t cycles = vectors_ / side * (rows(how) / pe) * (columns(how) / simd);
            cycles >= fastest)
          all.push_back(cycles);
  };
  const std::uint64_t fastest = all.empty() ? 1 : *std::min_element(all.begin(), all.end());
  Folding how;
  how.window = windowless_ ? WindowStyle::kNone : WindowStyle::kParallel;
  for (const std::uint32_t m : side_by_side) add_matrices(how, m, fastest);
  if (layer_.groups > 1 && !windowless_) {
    how.window = WindowStyle::kFolded;
    all.push_back(std::max(vectors_ * taps_, std::uint64_t{in_.h} * in_.w));
    add_matrices(how, 1, all.back());
  }
  return all;
}

}  // namespace

MadeGenerator make_convolution(const kernels::Program& program, std::uint32_t index) {
  const auto& block = program.blocks[index];
  const auto& layer = std::get<Convolution>(block.operation);
  const auto& in = program.tensors[block.inputs[0]].type;
  if (in.bits > kMostOperandBits || layer.weight_type.bits > kMostOperandBits)
    return Error(ErrorCode::kUnsupported, block_label(block) + "operands of " +
                                              std::to_string(std::max(in.bits, layer.weight_type.bits)) +
                                              " bits; hardware multiplies at most " +
                                              std::to_string(kMostOperandBits) + " by " +
                                              std::to_string(kMostOperandBits) + ", the host takes the rest");
  const auto& out = program.tensors[block.outputs[0]].type;
  if (layer.requantise && out.bits > kMostOperandBits)
    return Error(ErrorCode::kUnsupported, block_label(block) + "a result of " + std::to_string(out.bits) +
                                              " bits; hardware requantises to at most 8");
  return std::unique_ptr<Generator>(std::make_unique<ConvolutionBlock>(program, index));
}

}  // namespace millrace::compiler::generators
