// A partition's SystemVerilog written by hand, in the form compiler/emit/rtl gives it: for tests of what
// simulates it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace millrace::tests {

/// Every element out is the element in, plus `plus` (read from a memory file), modulo 256. Beats pass a FIFO
/// "hop" and a stage that takes one beat every `pause` + 1 cycles.
struct HandMade {
  std::string partition = "part0";
  std::uint32_t lanes = 2;
  std::uint32_t beats = 8;
  std::uint32_t depth = 4;
  std::uint32_t plus = 3;
  std::uint32_t pause = 0;
  bool stuck = false;           // takes half a frame and then nothing more
  std::string assertion = "1";  // asserted at every clock
  std::uint64_t interval() const { return std::uint64_t{beats} * (pause + 1); }
};

/// Writes `<deployment>/rtl/<partition>/`.
void write_rtl_folder(const std::filesystem::path& deployment, const HandMade& made);

/// Computes design.json's digest anew, after files of the folder were changed.
void sign_rtl_folder(const std::filesystem::path& folder);

/// A cache for simulations that all tests of this build share.
std::filesystem::path shared_simulation_cache();

}  // namespace millrace::tests
