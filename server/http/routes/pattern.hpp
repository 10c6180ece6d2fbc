// Whether a request's target matches the pattern of a route. Pure; the table of routes is in table.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::server::http {

/// The values of a pattern's placeholders, percent-decoded. Empty if the pattern lacks the placeholder.
struct RouteNames {
  std::string model;    // {model}
  std::string version;  // {version}; empty: the one that serves
  std::string file;     // {file}
};

/// The segments of a target's path, percent-decoded, without the query string, a slash at the end, and the host of a
/// target in absolute form (RFC 9112, 3.2.2). Nothing if the target is no path or has more than eight segments.
std::optional<std::vector<std::string>> segments_of(std::string_view target);

/// The names with which a path matches a pattern; nothing if it does not. Patterns look like these:
///
///     /v2/models/{model}[/versions/{version}]/infer      the part in brackets may be left out
///     /v2/systemsharedmemory/**                          ** stands for any number of segments, also none
///
/// A placeholder stands for exactly one segment that is not empty.
std::optional<RouteNames> match(std::string_view pattern, const std::vector<std::string>& segments);

/// Reads the target of nearly every request, /v2/models/NAME[/versions/VERSION]/infer without escapes. Views into
/// `target`; does not allocate. Nothing for any other target: match() handles it.
struct InferTarget {
  std::string_view model, version;  // version empty: the one that serves
};
std::optional<InferTarget> plain_infer_target(std::string_view target);

}  // namespace millrace::server::http
