// Which route a request's target names. Pure: the table of routes itself is Api::routes(), in api.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::server::http {

/// What the placeholders of a pattern stand for in a target, percent-decoded. A name the pattern lacks is empty.
struct RouteNames {
  std::string model;    // {model}
  std::string version;  // {version}; empty: the newest
  std::string file;     // {file}
};

/// The path of a target: its segments between slashes, percent-decoded. The query string, a slash at the end and
/// the host of a target in absolute form (RFC 9112, 3.2.2) are left out. Nothing if the target is no path, or has
/// more than eight segments.
std::optional<std::vector<std::string>> segments_of(std::string_view target);

/// Whether a path matches a pattern, and with which names. A pattern is written as
///
///     /v2/models/{model}[/versions/{version}]/infer      the part in brackets may be there or not
///     /v2/systemsharedmemory/**                          ** stands for any segments, also for none
///
/// A placeholder stands for exactly one segment that is not empty.
std::optional<RouteNames> match(std::string_view pattern, const std::vector<std::string>& segments);

/// The target of nearly every request: /v2/models/NAME[/versions/VERSION]/infer without escapes. Views into
/// `target`; does not allocate. Nothing for any other target, which match() handles.
struct InferTarget {
  std::string_view model, version;  // version empty: the newest
};
std::optional<InferTarget> plain_infer_target(std::string_view target);

}  // namespace millrace::server::http
