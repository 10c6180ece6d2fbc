#include "server/http/routes/pattern.hpp"

#include <charconv>
#include <cstdint>
#include <utility>

namespace millrace::server::http {
namespace {

constexpr std::size_t kMaxSegments = 8;

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    std::uint8_t byte = 0;
    const char* const digits = text.data() + i + 1;
    const auto [end, code] = std::from_chars(digits, digits + 2, byte, 16);
    if (code != std::errc() || end != digits + 2 || byte == 0) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

/// Removes the text before the next slash, and that slash, from `rest` and returns the text.
std::string_view take_segment(std::string_view& rest) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

/// match() for a pattern without brackets.
std::optional<RouteNames> match_plain(std::string_view pattern, const std::vector<std::string>& segments) {
  pattern.remove_prefix(1);  // its first slash
  RouteNames names;
  std::size_t next = 0;
  while (!pattern.empty()) {
    const std::string_view wanted = take_segment(pattern);
    if (wanted == "**") return names;
    if (next == segments.size()) return std::nullopt;
    const std::string& segment = segments[next++];
    std::string* const name = wanted == "{model}"     ? &names.model
                              : wanted == "{version}" ? &names.version
                              : wanted == "{file}"    ? &names.file
                                                      : nullptr;
    if (name == nullptr ? segment != wanted : segment.empty()) return std::nullopt;
    if (name != nullptr) *name = segment;
  }
  if (next != segments.size()) return std::nullopt;
  return names;
}

}  // namespace

std::optional<std::vector<std::string>> segments_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  for (const std::string_view scheme : {"http://", "https://"})
    if (target.starts_with(scheme)) {
      const auto path = target.find('/', scheme.size());
      target = path == std::string_view::npos ? std::string_view() : target.substr(path);
    }
  if (target.empty() || target.front() != '/') return std::nullopt;
  target.remove_prefix(1);
  if (!target.empty() && target.back() == '/') target.remove_suffix(1);

  std::vector<std::string> segments;
  while (!target.empty()) {
    if (segments.size() == kMaxSegments) return std::nullopt;
    auto decoded = percent_decoded(take_segment(target));
    if (!decoded) return std::nullopt;
    segments.push_back(std::move(*decoded));
  }
  return segments;
}

std::optional<RouteNames> match(std::string_view pattern, const std::vector<std::string>& segments) {
  const auto open = pattern.find('['), close = pattern.find(']');
  if (open == std::string_view::npos) return match_plain(pattern, segments);
  const std::string before(pattern.substr(0, open)), after(pattern.substr(close + 1));
  if (auto names = match_plain(before + after, segments)) return names;
  return match_plain(before + std::string(pattern.substr(open + 1, close - open - 1)) + after, segments);
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

}  // namespace millrace::server::http
