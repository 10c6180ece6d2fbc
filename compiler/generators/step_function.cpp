#include "compiler/generators/step_function.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace millrace::compiler::generators {
namespace {

using kernels::ElementType;
using kernels::Requantise;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

template <class T>
auto channel(const std::vector<T>& values, std::size_t c) {
  return values.empty() ? T{} : values[values.size() == 1 ? 0 : c];
}

template <class T>
bool all_equal(const std::vector<T>& values) {
  return std::all_of(values.begin(), values.end(), [&](const T& v) { return v == values.front(); });
}

/// Returns how many signed bits can represent all values; 0 if all values are `none`.
unsigned bits_for(const std::vector<std::int64_t>& values, std::int64_t none) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *low == none && *high == none
             ? 0
             : signed_bits(std::min<std::int64_t>(*low, 0), std::max<std::int64_t>(*high, 0));
}

}  // namespace

StepFunction::StepFunction(const Requantise& step, ElementType output, std::uint32_t channels,
                           const std::vector<std::int32_t>& bias, bool loaded, bool take_bias)
    : output_(output),
      channels_(channels),
      form_(step.form),
      zero_point_(step.zero_point),
      lowest_(step.lowest),
      highest_(step.highest),
      loaded_(loaded) {
  if (form_ == Requantise::Form::kThresholds) {
    // A bipolar output has only one step, from -1 to +1, so a channel's two thresholds are equal.
    const std::size_t given = static_cast<std::size_t>(highest_ - lowest_);
    const bool bipolar = output.kind == ElementType::Kind::kBipolar;
    steps_ = (std::size_t{1} << output.bits) - 1;
    const std::size_t written =
        std::max<std::size_t>(1, step.thresholds.size() / std::max<std::size_t>(given, 1));
    const std::size_t lists = bias.empty() ? written : channels;
    for (std::size_t c = 0; c < lists; ++c) {
      const std::size_t from = step.thresholds.size() == given ? 0 : c * given;
      for (std::size_t i = 0; i < steps_; ++i)
        thresholds_.push_back(i < given ? step.thresholds[from + (bipolar ? 0 : i)] - channel(bias, c)
                                        : kNever);
    }
    uniform_ = lists <= 1;
    return;
  }
  for (std::uint32_t c = 0; c < channels; ++c) {
    multiplier_.push_back(channel(step.multiplier, c));
    offset_.push_back(channel(step.offset, c));
    shift_.push_back(channel(step.shift, c));
  }
  const bool plain = std::all_of(multiplier_.begin(), multiplier_.end(), [](auto m) { return m == 1; }) &&
                     std::all_of(offset_.begin(), offset_.end(), [](auto o) { return o == 0; });
  // If all scales are powers of two, the requantisation unit has no multiplier or adder. In this case, the preceding
  // block adds the bias for free.
  takes_bias_ = !plain || take_bias;
  if (takes_bias_ && !bias.empty())
    for (std::uint32_t c = 0; c < channels; ++c) offset_[c] += multiplier_[c] * bias[c];
  mbits_ = bits_for(multiplier_, 1);
  offbits_ = bits_for(offset_, 0);
  sbits_ = std::max<unsigned>(
      1, static_cast<unsigned>(std::bit_width(*std::max_element(shift_.begin(), shift_.end()))));
  if (loaded_) {
    // Round widths up to a sign and whole bytes, so that other constants of the same kind also fit.
    if (mbits_ != 0) mbits_ = (mbits_ - 1 + 7) / 8 * 8 + 1;
    offbits_ = std::min((offbits_ + 7) / 8 * 8, 64U);
    sbits_ = std::max(sbits_, 5U);
    uniform_ =
        bias.empty() && step.multiplier.size() == 1 && step.offset.size() == 1 && step.shift.size() == 1;
    return;
  }
  if (all_equal(shift_)) fixed_shift_ = shift_.front();
  uniform_ = all_equal(multiplier_) && all_equal(offset_) && all_equal(shift_);
}

StreamIndex StepFunction::add(NetlistBuilder& netlist, const std::string& suffix, StreamIndex from) const {
  const Stream in = netlist.stream(from);
  const bool thresholds = form_ == Requantise::Form::kThresholds;
  const int even = form_ == Requantise::Form::kMultiplyShiftHalfEven ? 1 : 0, uniform = uniform_ ? 1 : 0;
  Parameters parameters = {{"CHANNELS", cycle(in.lanes)}, {"PE", in.lanes}, {"ACCBITS", in.bits}};
  const Parameters rest =
      thresholds ? Parameters{{"OBITS", output_.bits},
                              {"LOWEST", output_.kind == ElementType::Kind::kBipolar ? 0 : lowest_},
                              {"UNIFORM", uniform}}
                 : Parameters{{"MBITS", mbits_},       {"OFFBITS", offbits_},     {"SBITS", sbits_},
                              {"SHIFT", fixed_shift_}, {"OBITS", output_.bits},   {"LOWEST", lowest_},
                              {"HIGHEST", highest_},   {"ROUND_HALF_EVEN", even}, {"ZERO_POINT", zero_point_},
                              {"UNIFORM", uniform}};
  parameters.insert(parameters.end(), rest.begin(), rest.end());
  std::vector<std::pair<std::string, std::string>> files;
  if (loaded_)
    parameters.emplace_back("LOADED", 1);
  else if (thresholds)
    files = {{"TFILE", netlist.prefix() + "_thresholds"}};
  else
    files = {{"QFILE", netlist.prefix() + "_requant.hex"}};
  return netlist.add(thresholds ? "mr_threshold" : "mr_requant", suffix, std::move(parameters), {from},
                     {in.lanes, output_.bits, in.beats}, std::move(files));
}

void StepFunction::write_files(NetlistBuilder& netlist, std::uint32_t lanes, unsigned acc_bits,
                               const std::vector<std::string>& suffixes) const {
  if (!netlist.memories() && !loaded_) return;
  if (form_ == Requantise::Form::kThresholds)
    write_thresholds(netlist, lanes, acc_bits, suffixes);
  else
    write_multiply(netlist, lanes, suffixes);
}

void StepFunction::write_multiply(NetlistBuilder& netlist, std::uint32_t lanes,
                                  const std::vector<std::string>& suffixes) const {
  const std::uint64_t width = std::uint64_t{lanes} * (sbits_ + offbits_ + mbits_);
  HexLines lines(width);
  const std::uint32_t folds = uniform_ ? 1 : cycle(lanes) / lanes;
  for (std::uint32_t nf = 0; netlist.memories() && nf < folds; ++nf) {
    for (std::uint32_t p = 0; p < lanes; ++p) {
      const std::size_t c = (nf * lanes + p) % channels_;
      lines.put(static_cast<std::uint64_t>(multiplier_[c]), mbits_);
      lines.put(static_cast<std::uint64_t>(offset_[c]), offbits_);
      lines.put(shift_[c], sbits_);
    }
    lines.end_line();
  }
  if (loaded_)
    netlist.load("requant", suffixes, width, folds, lines.take());
  else
    netlist.file(netlist.prefix() + "_requant.hex", lines.take());
}

/// Writes a file for each lane and level of the search tree. Line k of level l is threshold (2k+1) * 2^(bits-1-l) - 1.
void StepFunction::write_thresholds(NetlistBuilder& netlist, std::uint32_t lanes, unsigned acc_bits,
                                    const std::vector<std::string>& suffixes) const {
  const std::int64_t highest = (std::int64_t{1} << acc_bits) - 1;  // larger than every accumulator
  const std::uint32_t folds = uniform_ ? 1 : cycle(lanes) / lanes;
  std::string all;
  for (std::uint32_t p = 0; netlist.memories() && p < lanes; ++p) {
    std::string lane = std::to_string(p);
    lane.insert(0, 3 - lane.size(), '0');
    for (unsigned level = 0; level < output_.bits; ++level) {
      HexLines lines(acc_bits + 1);
      for (std::uint32_t nf = 0; nf < folds; ++nf)
        for (std::size_t k = 0; k < std::size_t{1} << level; ++k) {
          const std::size_t c = uniform_ ? 0 : (nf * lanes + p) % channels_;
          const std::size_t i = (2 * k + 1) * (std::size_t{1} << (output_.bits - 1 - level)) - 1;
          const std::int64_t t = std::clamp(thresholds_[c * steps_ + i], -highest - 1, highest);
          lines.put(static_cast<std::uint64_t>(t), acc_bits + 1);
          lines.end_line();
        }
      if (loaded_)
        all += lines.take();
      else
        netlist.file(netlist.prefix() + "_thresholds." + std::to_string(level) + "." + lane, lines.take());
    }
  }
  if (!loaded_) return;
  const std::uint64_t nodes = (std::uint64_t{1} << output_.bits) - 1;  // of one channel, over all levels
  netlist.load("thresholds", suffixes, acc_bits + 1, lanes * folds * nodes, std::move(all));
}

}  // namespace millrace::compiler::generators
