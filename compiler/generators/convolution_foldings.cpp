// Finds the foldings (degrees of parallelism) of a convolution that are worth considering, and their intervals.
#include <algorithm>

#include "compiler/generators/convolution.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::ElementType;

constexpr std::uint64_t kMostProposed = 4096;  // maximum nonzero weights for which unrolling is proposed
/// Fully parallel hardware is proposed up to this many cycles per frame. If more cycles are allowed, hardware that
/// shares multipliers is cheaper.
constexpr std::uint64_t kFewCycles = 64;

}  // namespace

/// Returns the number of cycles per frame of the window unit mr_swu_par if it accepts `pixels` pixels per cycle.
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

/// Returns the window units that are fast enough for an interval: the smallest unit of each style.
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
  constexpr std::size_t kEach = 4;  // maximum number of foldings for each multiplier
  const std::uint64_t vectors = vectors_ / windows(window);
  WindowGaps gaps;
  if (window.window == WindowStyle::kParallel) {
    const Netlist netlist = window_unit(window);
    gaps = window_gaps(netlist, netlist.units.front());
  }
  std::vector<Folding> fit;
  for (const std::uint32_t pe : divisors(rows(window)))
    for (const std::uint32_t simd : divisors(columns(window))) {
      const std::uint64_t nf = rows(window) / pe, sf = columns(window) / simd * cycles_a_line(pe, simd);
      if (vectors * nf * sf + gaps.cost(nf, sf) > interval_cycles) continue;
      fit.push_back(window);
      fit.back().pe = pe;
      fit.back().simd = simd;
      break;  // a larger `simd` costs more and is not needed
    }
  // Layers with bipolar input are not unrolled: their products are signs, which are cheaper to count than to add.
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
        if (const std::uint64_t cycles =
                vectors_ / side * (rows(how) / pe) * (columns(how) / simd) * cycles_a_line(pe, simd);
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

}  // namespace millrace::compiler::generators
