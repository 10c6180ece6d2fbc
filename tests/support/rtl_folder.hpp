// A hand-written partition in SystemVerilog, in the form that compiler/emit/rtl gives it, for tests of
// simulation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace millrace::tests {

/// Every output element is the input element plus `plus` (read from a memory file), modulo 256. Beats pass a
/// FIFO "hop" and a stage that takes one beat every `pause` + 1 cycles.
struct HandMade {
  std::string partition = "part0";
  std::uint32_t lanes = 2;
  std::uint32_t beats = 8;
  std::uint32_t depth = 4;
  std::uint32_t plus = 3;
  std::uint32_t pause = 0;
  bool stuck = false;           // stops after half a frame
  std::string assertion = "1";  // an expression that is asserted at every clock
  std::uint64_t interval() const { return std::uint64_t{beats} * (pause + 1); }
};

/// Writes `<deployment>/rtl/<partition>/`.
void write_rtl_folder(const std::filesystem::path& deployment, const HandMade& made);

/// Recomputes the digest in design.json after files of the folder were changed.
void sign_rtl_folder(const std::filesystem::path& folder);

/// The cache of simulations that all tests of this build share.
std::filesystem::path shared_simulation_cache();

}  // namespace millrace::tests
