// The frame rate of a deployment as the clocks of its FPGA images limit it. `millrace pack` compares the rate before and
// after an image is replaced by one whose clock is slower.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::compiler::emit {

struct ClockedRate {
  double frames_per_second = 0;
  std::string
      limit;  // what limits the rate: "the pipeline of partition 'part0' (392 cycles a frame at 250 MHz)"
};

/// Returns the highest frame rate at which, with the clocks in `records` (by the image's name):
/// - each partition starts a frame after its predicted interval,
/// - each port to the host moves one word of 64 bytes in a cycle,
/// - the link ports between two cards move one word of 8 bytes in a cycle of the slower card. All channels from one card
///   to the other are counted as if they shared one cable.
/// The rates of cables and hosts are not known to a deployment, so they are not counted. Returns nothing if no clock
/// limits the rate, for example because no interval was predicted.
std::optional<ClockedRate> clocked_rate(const runtime::plan::Deployment& plan,
                                        const std::map<std::string, runtime::plan::ImageRecord>& records);

}  // namespace millrace::compiler::emit
