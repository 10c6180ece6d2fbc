// SystemVerilog for a deployment that was made without: each card partition as the folded generator builds
// it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace millrace::tests {

/// Writes rtl/<partition>/ for every card partition, with foldings for an interval of at most
/// `interval_cycles`. Throws std::runtime_error.
void add_rtl(const std::filesystem::path& deployment, std::uint64_t interval_cycles);

}  // namespace millrace::tests
