// What a board measures of itself, out of the JSON that XRT gives it in. Private to this folder and its
// tests.
#pragma once

#include <optional>
#include <string_view>

namespace millrace::runtime::card {

/// xrt::info::device::electrical -> `power_consumption_watts`. Nothing where XRT does not know ("N/A", an
/// error message, no JSON).
std::optional<double> power_watts_of(std::string_view electrical);

/// xrt::info::device::thermal -> the hottest sensor that is present. Nothing where there is none.
std::optional<double> hottest_celsius_of(std::string_view thermal);

}  // namespace millrace::runtime::card
