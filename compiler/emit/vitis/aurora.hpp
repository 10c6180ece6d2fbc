// A cable's end as a Vitis kernel: the vendor's Aurora 64B/66B core (AMD PG074), one lane at 10.3125 Gb/s,
// behind the AXI-Streams that a partition's top has for each connector. Private to compiler/emit/vitis.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::emit {

inline constexpr const char* kAuroraKernel = "millrace_aurora";

/// The lane's words: 64 bits at 156.25 MHz. What receives them must not be slower.
inline constexpr double kAuroraMhz = 156.25;

/// What a platform calls what a cable's kernel is wired to (AMD XD099, "Using Aurora IP with Vitis").
struct CablePins {
  std::vector<std::string> cages;  // by connector: "qsfp0"
  std::string free_clock;          // 100 MHz
};

/// None where the platform's names are not known here.
std::optional<CablePins> cable_pins(const std::string& platform);

/// Lines of a link configuration that wire unit `cable` to connector `number` of unit `image`.
std::string cable_connections(const CablePins& pins, const std::string& image, const std::string& cable,
                              std::size_t number);

/// The folder that makes millrace_aurora.xo for a device: file name -> text.
std::map<std::string, std::string> aurora_files(const runtime::plan::Device& device);

}  // namespace millrace::compiler::emit
