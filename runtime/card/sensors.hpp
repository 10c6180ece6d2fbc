// A board's sensor values and its host memory, parsed from the JSON that XRT reports. Private to this folder and its tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::runtime::card {

/// Parses xrt::info::device::electrical and returns `power_consumption_watts`. Returns nothing if XRT does
/// not report the value ("N/A", an error message, or text that is not JSON).
std::optional<double> power_watts_of(std::string_view electrical);

/// Parses xrt::info::device::thermal and returns the hottest sensor, or nothing if no sensor is present.
std::optional<double> hottest_celsius_of(std::string_view thermal);

/// Parses xrt::info::device::memory and returns the bytes of host memory that the card can access: the banks HOST[…] that
/// are enabled. Returns nothing if XRT reports no such bank, as on a platform or an image without host memory.
std::optional<std::uint64_t> host_memory_bytes_of(std::string_view memory);

}  // namespace millrace::runtime::card
