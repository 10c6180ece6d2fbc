// Makes the units of a convolution and the contents of their memories.
#include <algorithm>

#include "compiler/generators/convolution.hpp"

namespace millrace::compiler::generators {

using kernels::ElementType;

class ConvolutionBlock::Units {
 public:
  Units(const ConvolutionBlock& block, const Folding& folding, NetlistBuilder& netlist)
      : b_(block), folding_(folding), netlist_(netlist) {}

  Netlist build() {
    write_files();
    const bool windowless = folding_.window == WindowStyle::kNone;
    const std::uint32_t lanes = b_.depthwise_       ? pe_
                                : matrices_ > 1     ? b_.in_.c
                                : side_by_side_ > 1 ? folding_.pixels * b_.in_.c
                                                    : simd_;
    const StreamIndex from = windowless ? netlist_.input(lanes, bits_, b_.in_.elements()) : window();
    if (matrices_ > 1) return netlist_.finish(multiply_groups(from));
    if (side_by_side_ == 1) return netlist_.finish(multiply(from, ""));
    // Each window has its own matrix unit. An adapter behind the matrix unit gathers all channels of the window's
    // output pixel.
    std::vector<StreamIndex> parts = netlist_.split("split", from, side_by_side_);
    for (std::uint32_t m = 0; m < side_by_side_; ++m) {
      const std::string copy = std::to_string(m);
      parts[m] = netlist_.adapt("pixel" + copy, multiply(parts[m], copy), b_.out_.c);
    }
    return netlist_.finish(netlist_.join("join", parts));
  }

  StreamIndex window() {
    const auto& w = b_.layer_.window;
    const Image& in = b_.in_;
    const bool bipolar = b_.input().type.kind == ElementType::Kind::kBipolar;
    const std::int64_t pad = bipolar ? (w.pad_value > 0 ? 1 : 0) : w.pad_value;
    const Parameters geometry = {{"KH", w.kernel_h},  {"KW", w.kernel_w},   {"SH", w.stride_h},
                                 {"SW", w.stride_w},  {"DH", w.dilation_h}, {"DW", w.dilation_w},
                                 {"PT", w.pad_top},   {"PL", w.pad_left},   {"PB", w.pad_bottom},
                                 {"PR", w.pad_right}, {"PAD_VALUE", pad}};
    if (folding_.window == WindowStyle::kFolded) {
      const std::uint32_t lanes = folding_.window_lanes, cf = in.c / lanes;
      const StreamIndex from = netlist_.input(lanes, bits_, in.elements());
      Parameters parameters = {{"H", in.h}, {"W", in.w}, {"CF", cf}, {"SIMD", lanes}, {"ABITS", bits_}};
      parameters.insert(parameters.end(), geometry.begin(), geometry.end());
      // The buffer holds the tensor's rows under the current row of windows, and the rows that arrive meanwhile.
      parameters.emplace_back("ROWS", reach(w.kernel_h, w.dilation_h) + w.stride_h);
      return netlist_.add("mr_swu", "window", std::move(parameters), {from},
                          {lanes, bits_, b_.vectors_ * b_.taps_ * cf});
    }
    const StreamIndex from = netlist_.input(folding_.pixels * in.c, bits_, in.elements());
    Parameters parameters = {
        {"H", in.h}, {"W", in.w}, {"C", in.c}, {"ABITS", bits_}, {"PX", folding_.pixels}};
    parameters.insert(parameters.end(), geometry.begin(), geometry.end());
    return netlist_.add("mr_swu_par", "window", std::move(parameters), {from},
                        {side_by_side_ * mw_, bits_, b_.vectors_ / side_by_side_});
  }

 private:
  using Files = std::vector<std::pair<std::string, std::string>>;

  /// Adds units that multiply one stream of vectors and, if necessary, requantise. `copy` is a suffix of their names.
  StreamIndex multiply(StreamIndex from, const std::string& copy) {
    if (b_.depthwise_)
      from = depthwise(from);
    else if (folding_.implementation == Implementation::kUnrolled)
      from = unrolled(from, copy);
    else
      from = b_.streams() ? streamed(from) : matrix(from, copy, "");
    return requantised(from, copy);
  }
  StreamIndex requantised(StreamIndex from, const std::string& copy) {
    return b_.step_ ? b_.step_->add(netlist_, "requant" + copy, from) : from;
  }

  /// Adds a unit for each group, which multiplies the group's part of each beat. The sums of all groups, joined, are
  /// pixels again.
  StreamIndex multiply_groups(StreamIndex from) {
    std::vector<StreamIndex> parts = netlist_.split("groups", from, matrices_);
    for (std::uint32_t g = 0; g < matrices_; ++g) {
      const std::string copy = std::to_string(g);
      parts[g] = netlist_.adapt("pixel" + copy, matrix(parts[g], copy, copy), mh_);
    }
    return requantised(netlist_.adapt("channels", netlist_.join("join", parts), matrices_ * pe_), "");
  }

  /// Adds a matrix-vector unit for one stream of vectors. `constants` is a suffix of the names of its memory files.
  StreamIndex matrix(StreamIndex from, const std::string& copy, const std::string& constants) {
    from = netlist_.adapt("vector" + copy, from, simd_);
    Parameters parameters = with_operands({{"MH", mh_}, {"MW", mw_}, {"PE", pe_}, {"SIMD", simd_}});
    parameters.emplace_back("BIAS", b_.bias_in_sum() ? 1 : 0);
    parameters.emplace_back("IBUF", nf_ > 1 ? 2 * sf_ : 1);
    return add_sums("mr_mvu", "mvu" + copy, std::move(parameters), from, netlist_.stream(from).beats / sf_,
                    constants);
  }

  StreamIndex depthwise(StreamIndex from) {
    Parameters parameters = with_operands({{"CHANNELS", b_.in_.c}, {"PE", pe_}, {"TAPS", b_.taps_}});
    parameters.emplace_back("BIAS", b_.bias_in_sum() ? 1 : 0);
    return add_sums("mr_vvu", "vvu", std::move(parameters), from, b_.vectors_, "");
  }

  /// Adds a unit whose constants are either in memory files or loaded after the FPGA is programmed.
  StreamIndex add_sums(const char* module, const std::string& suffix, Parameters parameters, StreamIndex from,
                       std::uint64_t vectors, const std::string& constants) {
    // A table of constants with more lines than this limit costs more in LUTs than in block RAM.
    constexpr std::uint64_t kLogicTableDepth = 128;
    const std::uint64_t depth = std::uint64_t{nf_} * sf_;
    TableStyle style = folding_.memory;
    if (style == TableStyle::kAuto && depth > 1)
      style = depth <= kLogicTableDepth ? TableStyle::kLogic : TableStyle::kBlock;
    parameters.emplace_back("WSTYLE", static_cast<int>(style));
    Files files;
    if (b_.loaded())
      parameters.emplace_back("LOADED", 1);
    else
      files = {{"WFILE", file("weights", constants)}, {"BFILE", file("bias", constants)}};
    return netlist_.add(module, suffix, std::move(parameters), {from}, {pe_, b_.acc_bits_, vectors * nf_},
                        std::move(files));
  }
  std::string file(const char* what, const std::string& constants) const {
    return netlist_.prefix() + "_" + what + constants + ".hex";
  }

  /// Adds a unit that reads one line of weights per cycle, and all lines again for each vector.
  StreamIndex streamed(StreamIndex from) {
    constexpr int kShort = 16, kLong = 32;  // words per burst; two bursts are requested ahead
    from = netlist_.adapt("vector", from, simd_);
    const std::uint64_t vectors = netlist_.stream(from).beats / sf_;
    const std::uint64_t width = std::uint64_t{pe_} * simd_ * b_.layer_.weight_type.bits,
                        lines = std::uint64_t{nf_} * sf_;
    // If a line of weights fills at least one memory word, the unit uses a memory word in every cycle, so more words
    // must be requested ahead.
    const int burst = weight_pitch(width) >= kWeightWordBytes ? kLong : kShort;
    netlist_.reader({{"mr_weight_reader",
                      netlist_.prefix() + "_reader",
                      {{"DATA_BYTES", static_cast<std::int64_t>(kWeightWordBytes)},
                       {"BURST", burst},
                       {"WIDTH", static_cast<std::int64_t>(width)},
                       {"LINES", static_cast<std::int64_t>(lines)}}},
                     netlist_.prefix() + "_mvu",
                     vectors * weight_pass(width, lines),
                     netlist_.memories() ? weight_lines(0, width) : std::string()});
    Parameters parameters = with_operands({{"MH", mh_}, {"MW", mw_}, {"PE", pe_}, {"SIMD", simd_}});
    parameters.emplace_back("IBUF", nf_ > 1 ? 2 * sf_ : 1);
    return netlist_.add("mr_mvu_streamed", "mvu", std::move(parameters), {from},
                        {pe_, b_.acc_bits_, vectors * nf_});
  }

  StreamIndex unrolled(StreamIndex from, const std::string& copy) {
    from = netlist_.adapt("vector" + copy, from, b_.constants_->columns);
    const std::string name = netlist_.prefix() + "_unrolled";
    UnrolledModule made = unroll(*b_.constants_, name,
                                 "the " + std::to_string(b_.out_.c) + " sums of a block over its " +
                                     std::to_string(b_.constants_->columns) + " inputs.",
                                 netlist_.memories() && (copy.empty() || copy == "0"));
    if (!made.text.empty()) netlist_.source(name, std::move(made.text));
    return netlist_.add_written(kUnrolledModule, "unrolled" + copy, name, std::move(made.parameters), {from},
                                {b_.out_.c, b_.acc_bits_, netlist_.stream(from).beats});
  }

  /// Appends the parameters for the types of the operands to the parameters in `shape`.
  Parameters with_operands(Parameters shape) const {
    const Parameters operands = {{"ABITS", bits_},
                                 {"AKIND", kind(b_.input().type)},
                                 {"WBITS", b_.layer_.weight_type.bits},
                                 {"WKIND", kind(b_.layer_.weight_type)},
                                 {"ACCBITS", b_.acc_bits_},
                                 {"MUL", bipolar_weights_ ? 0 : static_cast<int>(folding_.multiplier)}};
    shape.insert(shape.end(), operands.begin(), operands.end());
    return shape;
  }

  void write_files() {
    if (!netlist_.memories() && !b_.loaded()) return;
    const bool tables = folding_.implementation == Implementation::kFolded && !b_.streams();
    for (std::uint32_t m = 0; m < matrices_ && tables; ++m)
      write_matrix(m, matrices_ > 1 ? std::to_string(m) : "");
    if (b_.step_) b_.step_->write_files(netlist_, matrices_ * pe_, b_.acc_bits_, copies("requant"));
  }

  /// Returns the suffix of the name of each parallel unit. There is one unit for each window, and all of them share
  /// their constants.
  std::vector<std::string> copies(const std::string& unit) const {
    if (side_by_side_ == 1) return {unit};
    std::vector<std::string> names;
    for (std::uint32_t m = 0; m < side_by_side_; ++m) names.push_back(unit + std::to_string(m));
    return names;
  }

  void write_matrix(std::uint32_t number, const std::string& constants) {
    const std::uint32_t first = number * mh_;
    // If constants are loaded, the biases follow the weights in lines of the same width.
    const std::uint64_t bias_bits = b_.bias_in_sum() ? std::uint64_t{pe_} * b_.acc_bits_ : 0;
    const std::uint64_t line_bits =
        std::max(std::uint64_t{pe_} * simd_ * b_.layer_.weight_type.bits, b_.loaded() ? bias_bits : 0);
    const bool memories = netlist_.memories();
    std::string lines = memories ? weight_lines(first, line_bits) : std::string();
    HexLines biases(b_.loaded() ? line_bits : bias_bits);
    for (std::uint32_t n = 0; memories && b_.bias_in_sum() && n < nf_; ++n) {
      for (std::uint32_t p = 0; p < pe_; ++p)
        biases.put(static_cast<std::uint64_t>(std::int64_t{b_.layer_.bias[first + n * pe_ + p]}),
                   b_.acc_bits_);
      biases.end_line();
    }
    if (b_.loaded()) {
      const std::string unit = b_.depthwise_ ? "vvu" : "mvu";
      netlist_.load("weights" + constants, copies(unit + constants), line_bits,
                    std::uint64_t{nf_} * sf_ + (b_.bias_in_sum() ? nf_ : 0), lines + biases.take());
      return;
    }
    netlist_.file(file("weights", constants), std::move(lines));
    if (b_.bias_in_sum()) netlist_.file(file("bias", constants), biases.take());
  }

  /// Returns the weights of the matrix whose first row is output channel `first`, in the order in which its unit reads
  /// them.
  std::string weight_lines(std::uint32_t first, std::uint64_t line_bits) const {
    const bool paired = folding_.multiplier == Multiplier::kDspPair && !bipolar_weights_;
    HexLines lines(line_bits);
    const auto put_line = [&](std::uint32_t n, std::uint32_t s) {
      for (std::uint32_t p = 0; p < pe_; ++p)
        for (std::uint32_t x = 0; x < simd_; ++x) {
          const std::uint32_t o = first + n * pe_ + p;
          std::int64_t w = b_.weight(folding_, o, s * simd_ + x);
          if (bipolar_weights_) w = w > 0 ? 1 : 0;
          // If the weights of two rows share a DSP slice, both weights are one number (mr_dot_pair). A negative weight of
          // the first row borrows 1 from the second row's digits, so the second row's weight is stored as 1 less.
          if (paired && p % 2 == 1 && b_.weight(folding_, o - 1, s * simd_ + x) < 0) --w;
          lines.put(static_cast<std::uint64_t>(w), b_.layer_.weight_type.bits);
        }
      lines.end_line();
    };
    const std::uint32_t outer = b_.depthwise_ ? sf_ : nf_, inner = b_.depthwise_ ? nf_ : sf_;
    for (std::uint32_t i = 0; i < outer; ++i)
      for (std::uint32_t k = 0; k < inner; ++k) b_.depthwise_ ? put_line(k, i) : put_line(i, k);
    return lines.take();
  }

  const ConvolutionBlock& b_;
  const Folding& folding_;
  NetlistBuilder& netlist_;
  const unsigned bits_ = b_.input().type.bits;
  const bool bipolar_weights_ = b_.layer_.weight_type.kind == ElementType::Kind::kBipolar;
  const std::uint32_t pe_ = folding_.pe, simd_ = b_.depthwise_ ? 1 : folding_.simd;
  const std::uint32_t mh_ = b_.rows(folding_), mw_ = b_.columns(folding_);
  const std::uint32_t nf_ = mh_ / pe_, sf_ = mw_ / simd_;
  const std::uint32_t matrices_ = b_.matrices(folding_), side_by_side_ = b_.windows(folding_);
};

Netlist ConvolutionBlock::construct(const Folding& folding, NetlistBuilder& netlist) const {
  return Units(*this, folding, netlist).build();
}

Netlist ConvolutionBlock::window_unit(const Folding& folding) const {
  NetlistBuilder alone("", 0, false);
  return alone.finish(Units(*this, folding, alone).window());
}

}  // namespace millrace::compiler::generators
