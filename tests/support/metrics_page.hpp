// Reads the page at /metrics as Prometheus does.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace::tests {

/// The sum of the values of the series with this name whose labels contain `labels`; nullopt if there is
/// none.
std::optional<double> metric_in(std::string_view page, std::string_view name, std::string_view labels = {});

}  // namespace millrace::tests
