// The Vitis kernel for one end of a cable: the vendor's Aurora 64B/66B core (AMD PG074), one lane at 10.3125
// Gb/s. It is connected to the AXI-Streams of a partition's top. Private to compiler/emit/vitis.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::emit {

inline constexpr const char* kAuroraKernel = "millrace_aurora";

/// The lane delivers words of 64 bits at 156.25 MHz. Their receiver must not be slower.
inline constexpr double kAuroraMhz = 156.25;

/// A platform's names for the ports of a cable's kernel (AMD XD099, "Using Aurora IP with Vitis").
struct CablePins {
  std::vector<std::string> cages;  // by connector: "qsfp0"
  std::string free_clock;          // 100 MHz
};

/// None for a platform whose names are unknown.
std::optional<CablePins> cable_pins(const std::string& platform);

/// Lines of a link configuration that connect unit `cable` to connector `number` of unit `image`.
std::string cable_connections(const CablePins& pins, const std::string& image, const std::string& cable,
                              std::size_t number);

/// The files that build millrace_aurora.xo for a device: file name -> text.
std::map<std::string, std::string> aurora_files(const runtime::plan::Device& device);

}  // namespace millrace::compiler::emit
