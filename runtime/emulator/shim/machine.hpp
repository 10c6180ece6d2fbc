// The emulated machine of this process: its cards and cables as described by MILLRACE_EMULATION.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/emulator/shim/emulated_card.hpp"

namespace millrace::runtime::emulator {

class Machine {
 public:
  /// Made at the first call and never destroyed, because libxrt_coreutil closes devices from its own
  /// destructors. Has no cards if the environment describes none or an error occurred; problem() then returns
  /// the error.
  static Machine& instance();

  std::uint32_t cards() const { return static_cast<std::uint32_t>(cards_.size()); }
  const std::string& problem() const { return problem_; }
  EmulatedCard& card(std::uint32_t index) { return *cards_[index]; }

 private:
  Machine();
  Status build(const Topology& topology);

  Monitor monitor_;
  SharedMemory fabric_;
  std::vector<std::unique_ptr<EmulatedCard>> cards_;
  std::string problem_;
};

}  // namespace millrace::runtime::emulator
