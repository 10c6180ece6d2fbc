// Reads the page at /metrics as Prometheus does.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace::tests {

/// Returns the sum over all series called `name` whose labels contain `labels`, or nullopt if no series matches.
std::optional<double> metric_in(std::string_view page, std::string_view name, std::string_view labels = {});

}  // namespace millrace::tests
