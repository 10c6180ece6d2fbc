// Writes a small partition by hand in SystemVerilog, with the same files as compiler/emit/rtl writes, for tests of
// simulation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace millrace::tests {

/// A partition that adds `plus` to each element, modulo 256. It reads `plus` from a memory file. The data
/// pass a FIFO "hop" and then a stage that accepts a stream word only every `pause` + 1 cycles.
struct HandMade {
  std::string partition = "part0";
  std::uint32_t lanes = 2;
  std::uint32_t beats = 8;
  std::uint32_t depth = 4;
  std::uint32_t plus = 3;
  std::uint32_t pause = 0;
  bool stuck = false;           // whether the partition stops after half a frame
  std::string assertion = "1";  // a SystemVerilog expression that is asserted at every clock
  std::uint64_t interval() const { return std::uint64_t{beats} * (pause + 1); }
};

/// Writes the partition's files to `<deployment>/rtl/<partition>/`.
void write_rtl_folder(const std::filesystem::path& deployment, const HandMade& made);

/// Recomputes the digest in design.json after a test has changed files of the folder.
void sign_rtl_folder(const std::filesystem::path& folder);

/// Returns the folder of compiled simulations that all tests of this build share.
std::filesystem::path shared_simulation_cache();

}  // namespace millrace::tests
