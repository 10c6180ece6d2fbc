#include "server/http/routes.hpp"

#include <array>
#include <optional>
#include <span>

namespace millrace::server::http {
namespace {

constexpr std::size_t kMaxSegments = 8;

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (!high || !low || (*high == 0 && *low == 0)) return std::nullopt;
    out += static_cast<char>((*high << 4U) | *low);
    i += 2;
  }
  return out;
}

using Segments = std::span<const std::string>;

Route model_route(Segments rest) {
  Route route;
  if (rest.size() == 1 && rest[0] == "stats") return {RouteKind::kAllStatistics, {}, {}};
  if (rest.empty() || rest[0].empty()) return route;
  route.model = rest[0];
  rest = rest.subspan(1);
  if (rest.size() >= 2 && rest[0] == "versions") {
    if (rest[1].empty()) return route;
    route.version = rest[1];
    rest = rest.subspan(2);
  }
  if (rest.empty()) {
    route.kind = RouteKind::kModelMetadata;
  } else if (rest.size() == 1) {
    if (rest[0] == "ready") route.kind = RouteKind::kModelReady;
    if (rest[0] == "config") route.kind = RouteKind::kModelConfig;
    if (rest[0] == "stats") route.kind = RouteKind::kModelStatistics;
    if (rest[0] == "infer") route.kind = RouteKind::kInfer;
    if (rest[0] == "generate" || rest[0] == "generate_stream") route.kind = RouteKind::kNotOffered;
  }
  return route;
}

Route repository_route(Segments rest) {
  if (rest.size() == 1 && rest[0] == "index") return {RouteKind::kRepositoryIndex, {}, {}};
  if (rest.size() == 3 && rest[0] == "models" && !rest[1].empty()) {
    if (rest[2] == "load") return {RouteKind::kRepositoryLoad, rest[1], {}};
    if (rest[2] == "unload") return {RouteKind::kRepositoryUnload, rest[1], {}};
  }
  return {};
}

Route millrace_route(Segments rest) {
  if (rest.size() == 1) {
    if (rest[0] == "status") return {RouteKind::kPipelineStatus, {}, {}};
    if (rest[0] == "partitions") return {RouteKind::kPartitions, {}, {}};
    if (rest[0] == "deployment") return {RouteKind::kDeployment, {}, {}};
    if (rest[0] == "trace") return {RouteKind::kTrace, {}, {}};
    if (rest[0] == "errors") return {RouteKind::kRecentErrors, {}, {}};
  }
  if (rest.size() == 2 && rest[0] == "models" && !rest[1].empty())
    return {RouteKind::kModelDescription, rest[1], {}};
  if (rest.size() == 4 && rest[0] == "models" && !rest[1].empty() && rest[2] == "versions" &&
      !rest[3].empty())
    return {RouteKind::kModelDescription, rest[1], rest[3]};
  return {};
}

Route v2_route(Segments rest) {
  if (rest.empty()) return {RouteKind::kServerMetadata, {}, {}};
  if (rest[0] == "models") return model_route(rest.subspan(1));
  if (rest[0] == "repository") return repository_route(rest.subspan(1));
  if (rest[0] == "millrace") return millrace_route(rest.subspan(1));
  if (rest[0] == "systemsharedmemory" || rest[0] == "cudasharedmemory")
    return {RouteKind::kNotOffered, {}, {}};
  if (rest.size() == 2 && rest[0] == "health") {
    if (rest[1] == "live") return {RouteKind::kServerLive, {}, {}};
    if (rest[1] == "ready") return {RouteKind::kServerReady, {}, {}};
  }
  return {};
}

}  // namespace

Route find_route(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  // The absolute form, which proxies may use (RFC 9112, 3.2.2).
  for (const std::string_view scheme : {"http://", "https://"})
    if (target.starts_with(scheme)) {
      const auto path = target.find('/', scheme.size());
      target = path == std::string_view::npos ? std::string_view() : target.substr(path);
    }
  if (target.empty() || target.front() != '/') return {};
  target.remove_prefix(1);
  if (!target.empty() && target.back() == '/') target.remove_suffix(1);

  std::array<std::string, kMaxSegments> segments;
  std::size_t count = 0;
  while (!target.empty()) {
    if (count == kMaxSegments) return {};
    const auto slash = target.find('/');
    auto decoded = percent_decoded(target.substr(0, slash));
    if (!decoded) return {};
    segments[count++] = std::move(*decoded);
    target = slash == std::string_view::npos ? std::string_view() : target.substr(slash + 1);
  }
  const Segments all(segments.data(), count);
  if (all.empty()) return {RouteKind::kConsole, {}, {}};
  if (all[0] == "console" && all.size() == 2) return {RouteKind::kConsole, all[1], {}};
  if (all[0] == "v2") return v2_route(all.subspan(1));
  if (all.size() == 1 && all[0] == "metrics") return {RouteKind::kMetrics, {}, {}};
  return {};
}

std::optional<InferTarget> plain_infer_target(std::string_view target) {
  constexpr std::string_view kBefore = "/v2/models/", kBetween = "/versions/", kAfter = "/infer";
  if (!target.starts_with(kBefore) || !target.ends_with(kAfter) ||
      target.size() <= kBefore.size() + kAfter.size() ||
      target.find_first_of("%?#") != std::string_view::npos)
    return std::nullopt;
  target = target.substr(kBefore.size(), target.size() - kBefore.size() - kAfter.size());
  InferTarget out;
  out.model = target.substr(0, target.find('/'));
  target.remove_prefix(out.model.size());
  if (target.starts_with(kBetween)) {
    out.version = target.substr(kBetween.size());
    if (out.version.empty() || out.version.find('/') != std::string_view::npos) return std::nullopt;
  } else if (!target.empty()) {
    return std::nullopt;
  }
  if (out.model.empty()) return std::nullopt;
  return out;
}

auth::Scope scope_of(RouteKind kind) {
  switch (kind) {
    case RouteKind::kUnknown:
    case RouteKind::kNotOffered:
    case RouteKind::kServerLive:
    case RouteKind::kServerReady:
    case RouteKind::kConsole:  // the page; what it asks for has scopes of its own
      return auth::Scope::kNone;
    case RouteKind::kInfer:
      return auth::Scope::kInfer;
    case RouteKind::kRepositoryLoad:
    case RouteKind::kRepositoryUnload:
      return auth::Scope::kAdmin;
    case RouteKind::kServerMetadata:
    case RouteKind::kModelMetadata:
    case RouteKind::kModelReady:
    case RouteKind::kModelConfig:
    case RouteKind::kModelStatistics:
    case RouteKind::kAllStatistics:
    case RouteKind::kRepositoryIndex:
    case RouteKind::kMetrics:
    case RouteKind::kPipelineStatus:
    case RouteKind::kModelDescription:
    case RouteKind::kPartitions:
    case RouteKind::kDeployment:
    case RouteKind::kTrace:
    case RouteKind::kRecentErrors:
      return auth::Scope::kRead;
  }
  return auth::Scope::kAdmin;
}

Method method_of(RouteKind kind) {
  switch (kind) {
    case RouteKind::kInfer:
    case RouteKind::kRepositoryIndex:
    case RouteKind::kRepositoryLoad:
    case RouteKind::kRepositoryUnload:
      return Method::kPost;
    default:
      return Method::kGet;
  }
}

}  // namespace millrace::server::http
