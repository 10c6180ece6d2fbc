// The page at /metrics, as Prometheus reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace::tests {

/// Sum of the values of the series of this name whose labels contain `labels`; nothing where there is none.
std::optional<double> metric_in(std::string_view page, std::string_view name, std::string_view labels = {});

}  // namespace millrace::tests
