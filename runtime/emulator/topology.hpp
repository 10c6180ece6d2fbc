// The emulated machine as text: what select_backend() puts into MILLRACE_EMULATION and the shim reads there.
// The format is described in README.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::runtime::emulator {

struct Topology {
  struct Card {
    std::string name, device;
    std::uint64_t memory_bytes = 0;  // of all banks
    bool operator==(const Card&) const = default;
  };
  struct End {
    std::uint32_t card = 0, connector = 0;
    bool operator==(const End&) const = default;
  };
  struct Cable {
    End a, b;
    bool operator==(const Cable&) const = default;
  };
  struct Options {
    std::chrono::milliseconds program_time{0};     // what a load takes on top
    std::chrono::milliseconds call_timeout{5000};  // a card that answers no call for so long is killed
    std::chrono::microseconds spin{0};             // card and waiter look for so long before they sleep
    bool rtl = false;                              // cards compute with the generated SystemVerilog
    bool operator==(const Options&) const = default;
  };
  std::vector<Card> cards;  // in the order of their XRT index
  std::vector<Cable> cables;
  Options options;
  bool operator==(const Topology&) const = default;
};

std::string to_text(const Topology& topology);

/// Strict: an unknown word, a card without memory, a cable to nowhere, a connector used twice are refused by
/// name.
Result<Topology> parse_topology(std::string_view text);

/// "program_time=2500 call_timeout=200": milliseconds, spin in microseconds, rtl 0 or 1. The same checks.
Status parse_options(std::string_view text, Topology::Options& options);

}  // namespace millrace::runtime::emulator
