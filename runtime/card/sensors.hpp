// A board's sensor values, parsed from the JSON that XRT reports. Private to this folder and its tests.
#pragma once

#include <optional>
#include <string_view>

namespace millrace::runtime::card {

/// Parses xrt::info::device::electrical and returns `power_consumption_watts`. Returns nothing if XRT does
/// not report the value ("N/A", an error message, or text that is not JSON).
std::optional<double> power_watts_of(std::string_view electrical);

/// Parses xrt::info::device::thermal and returns the hottest sensor, or nothing if no sensor is present.
std::optional<double> hottest_celsius_of(std::string_view thermal);

}  // namespace millrace::runtime::card
