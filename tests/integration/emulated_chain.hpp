// A chain of three emulated cards, each with one partition, for tests of the links between them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulated_host.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::tests {

namespace abi = runtime::plan::abi;
using Kind = runtime::plan::PortKind;

inline constexpr std::uint32_t kElements = 1000;
inline constexpr std::uint32_t kSmallPacket = 96, kFewCredits = 2;  // a frame fills eleven packets

inline Frame through(const kernels::Program& program, std::vector<Frame> inputs) {
  return kernels::reference::run(program, inputs).front();
}

// Rows of the middle card's link table, which has the settings of each link port. The other cards have only row 0.
inline constexpr std::uint32_t kRowIn = 0, kRowOut = 1;

/// A chain of three cards: in -> card 0 -> card 1 -> card 2 -> out. Each card applies one lookup table.
class Chain {
 public:
  explicit Chain(std::uint32_t packet_bytes = kSmallPacket, std::uint32_t credits = kFewCredits)
      : packet_bytes_(packet_bytes), credits_(credits) {
    load_first();
    load_middle();
    load_last();
    bind_first();
    bind_middle();
    bind_last();
    raise_epoch();
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      in.push_back(std::make_unique<IngressUnit>(0, images[0], "p_in0", kElements));
      out.push_back(std::make_unique<EgressUnit>(2, images[2], "p_out0", kElements));
    }
  }

  void load_first() {
    images[0] =
        load(0, container(image_data(programs[0], {{"in0", Kind::kIngress}, {"out0", Kind::kLinkSend}})));
    controls[0] = std::make_unique<Control>(0, images[0]);
  }
  void load_middle() {
    controls[1].reset();
    images[1] =
        load(1, container(image_data(programs[1], {{"in0", Kind::kLinkReceive}, {"out0", Kind::kLinkSend}})));
    controls[1] = std::make_unique<Control>(1, images[1]);
  }
  void load_last() {
    images[2] =
        load(2, container(image_data(programs[2], {{"in0", Kind::kLinkReceive}, {"out0", Kind::kEgress}})));
    controls[2] = std::make_unique<Control>(2, images[2]);
  }
  void bind_first() { bind(*controls[0], 0, 0, 3); }
  void bind_middle() {
    bind(*controls[1], kRowIn, 0, 3);
    bind(*controls[1], kRowOut, 1, 5);
  }
  void bind_last() { bind(*controls[2], 0, 0, 5); }

  void raise_epoch() {
    ++epoch;
    for (auto& control : controls) control->epoch(epoch);
  }

  Frame expected(const Frame& frame) const {
    return through(programs[2], {through(programs[1], {through(programs[0], {frame})})});
  }

  /// Runs `count` frames, with one frame in flight for each slot (the buffers for one frame).
  void run(std::uint32_t count, std::uint32_t seed) {
    for (std::uint32_t n = 0; n < count + kSlots; ++n) {
      if (n >= kSlots) {
        auto& egress = *out[n % kSlots];
        ASSERT_EQ(egress.wait(), ERT_CMD_STATE_COMPLETED);
        const auto trailer = egress.trailer();
        EXPECT_EQ(trailer.status, abi::FrameStatus::kOk);
        EXPECT_EQ(trailer.sequence, n - kSlots);
        EXPECT_EQ(trailer.epoch, epoch);
        EXPECT_EQ(egress.frame(), expected(random_frame(kElements, seed + n - kSlots)))
            << "frame " << n - kSlots;
        EXPECT_EQ(in[n % kSlots]->wait(), ERT_CMD_STATE_COMPLETED);
      }
      if (n >= count) continue;
      out[n % kSlots]->start(epoch, n);
      in[n % kSlots]->start(random_frame(kElements, seed + n), epoch, n);
    }
  }

  static constexpr std::uint32_t kSlots = 10;
  const std::array<kernels::Program, 3> programs{lookup_program(kElements, 1), lookup_program(kElements, 2),
                                                 lookup_program(kElements, 3)};
  std::array<xrt::uuid, 3> images;
  std::array<std::unique_ptr<Control>, 3> controls;
  std::vector<std::unique_ptr<IngressUnit>> in;
  std::vector<std::unique_ptr<EgressUnit>> out;
  std::uint32_t epoch = 0;

 private:
  void bind(Control& control, std::uint32_t row, std::uint32_t connector, std::uint32_t tag) const {
    control.enable(row, false);
    control.link(row, connector, tag, packet_bytes_, credits_);
    control.enable(row);
  }
  const std::uint32_t packet_bytes_, credits_;
};

}  // namespace millrace::tests
