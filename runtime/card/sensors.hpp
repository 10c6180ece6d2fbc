// A board's sensor values, parsed from the JSON that XRT reports. Private to this folder and its tests.
#pragma once

#include <optional>
#include <string_view>

namespace millrace::runtime::card {

/// xrt::info::device::electrical -> `power_consumption_watts`. Nothing if XRT does not report it ("N/A", an
/// error message, or no JSON).
std::optional<double> power_watts_of(std::string_view electrical);

/// xrt::info::device::thermal -> the hottest sensor that is present. Nothing if none is present.
std::optional<double> hottest_celsius_of(std::string_view thermal);

}  // namespace millrace::runtime::card
