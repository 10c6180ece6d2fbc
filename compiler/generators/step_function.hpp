// Implements a requantisation as a hardware unit: mr_requant or mr_threshold. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/generators/netlist_builder.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler::generators {

class StepFunction {
 public:
  /// The unit adds `bias` to its argument first; an empty `bias` adds nothing. If the constants are `loaded`, widths
  /// are rounded up and the shift is not fixed, so that other constants fit the same units. Set `take_bias` if the
  /// preceding block cannot add the bias; then this unit adds it.
  StepFunction(const kernels::Requantise& step, kernels::ElementType output, std::uint32_t channels,
               const std::vector<std::int32_t>& bias, bool loaded, bool take_bias = false);

  /// Whether the requantisation unit adds the bias. If false, the preceding block must add it.
  bool takes_bias() const { return takes_bias_; }

  /// Appends a unit `<prefix>_<suffix>` behind `from`, whose lanes are consecutive channels or whole pixels.
  StreamIndex add(NetlistBuilder& netlist, const std::string& suffix, StreamIndex from) const;

  /// Writes the memory files that all units of the requantisation share. If the constants are loaded, instead writes
  /// the table's lines for the units whose names end with the `suffixes`.
  void write_files(NetlistBuilder& netlist, std::uint32_t lanes, unsigned acc_bits,
                   const std::vector<std::string>& suffixes) const;

 private:
  void write_multiply(NetlistBuilder& netlist, std::uint32_t lanes,
                      const std::vector<std::string>& suffixes) const;
  void write_thresholds(NetlistBuilder& netlist, std::uint32_t lanes, unsigned acc_bits,
                        const std::vector<std::string>& suffixes) const;
  /// Returns a unit's parameter CHANNELS: the number of channels, or all lanes if a beat has several whole pixels.
  std::uint32_t cycle(std::uint32_t lanes) const { return lanes > channels_ ? lanes : channels_; }

  kernels::ElementType output_;
  std::uint32_t channels_;
  kernels::Requantise::Form form_;
  std::int32_t zero_point_, lowest_, highest_;
  bool takes_bias_ = true;
  bool uniform_ = false;
  bool loaded_ = false;
  // The constants of mr_requant, with one entry for each channel.
  std::vector<std::int64_t> multiplier_, offset_;
  std::vector<std::uint8_t> shift_;
  unsigned mbits_ = 0, offbits_ = 0, sbits_ = 1;
  std::int64_t fixed_shift_ = -1;
  // The constants of mr_threshold: 2^bits - 1 thresholds for each channel.
  std::vector<std::int64_t> thresholds_;
  std::size_t steps_ = 0;
};

}  // namespace millrace::compiler::generators
