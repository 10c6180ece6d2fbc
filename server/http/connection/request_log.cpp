#include "server/http/connection/request_log.hpp"

#include <algorithm>
#include <limits>

#include "server/http/connection/peer.hpp"
#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

constexpr unsigned kMostASecond = 10;
constexpr std::size_t kLongestId = 128, kLongestTarget = 200, kLongestAnswer = 300, kLongestName = 64;

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kLongestId &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F && c != '"'; });
}

std::string line_of(const Response& answer, const Asked& asked) {
  std::string text;
  if (!asked.admin.empty()) text.append("admin ").append(asked.admin).append(": ");
  text.append(asked.method).append(" ").append(asked.target.substr(0, kLongestTarget));
  text += ": " + std::to_string(answer.status);
  if (answer.status >= 400)
    text += ' ' + answer.body.substr(0, kLongestAnswer);
  else
    text += ", " + std::to_string(body_bytes(answer)) + " bytes";
  return text;
}

}  // namespace

std::string_view RequestLog::record(const Response& answer, const Asked& asked) {
  std::string_view id = is_request_id(asked.id) ? asked.id : std::string_view();
  const bool admin = !asked.admin.empty();
  if (id.empty() && (answer.status >= 400 || admin))
    id = id_ = std::to_string(thread_) + "-" + std::to_string(++count_);
  // Log no warning for a 501, which is the client's fault, nor for a 503 with Retry-After, whose cause is temporary
  // and already logged elsewhere.
  const bool ours = answer.status == 500 || (answer.status == 503 && !answer.retry_after_seconds);
  const bool denied = answer.status == 401 || answer.status == 403;
  const auto level = ours || denied ? log::Level::kWarning : admin ? log::Level::kInfo : log::Level::kDebug;
  if (!log::enabled(level)) return id;
  if (!admin && ((ours && !failures_.admits()) || (denied && !denials_.admits()))) return id;
  write(level, answer, asked, id);
  return id;
}

void RequestLog::write(log::Level level, const Response& answer, const Asked& asked,
                       std::string_view id) const {
  const FoundRoute found = find_route(asked.target);
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - asked.arrival.value_or(std::chrono::steady_clock::time_point());
  const std::string from = text_of(*asked.peer), version = version_of(found, asked);
  log::write(level, "http", line_of(answer, asked),
             {{"request", id},
              {"method", asked.method},
              {"target", asked.target.substr(0, kLongestTarget)},
              {"route", found.route == nullptr ? std::string_view() : found.route->pattern},
              {"model", clipped(found.names.model, kLongestName)},
              {"version", clipped(version, kLongestName)},
              {"status", std::uint64_t{answer.status}},
              {"duration_ms", asked.arrival ? took.count() : std::numeric_limits<double>::quiet_NaN()},
              {"from", from},
              {"token", asked.admin}});
}

std::string RequestLog::version_of(const FoundRoute& found, const Asked& asked) const {
  if (!asked.version.empty()) return std::string(asked.version);
  // Only the body of a load or unload can name a version; its URL never does.
  const bool changes_it = found.route != nullptr && found.route->scope == auth::Scope::kAdmin;
  if (changes_it || !found.names.version.empty()) return std::string(found.names.version);
  const auto serves = registry_.snapshot()->find(found.names.model, "");
  return serves == nullptr ? std::string() : serves->version();
}

bool RequestLog::RateLimit::admits() {
  const auto now = std::chrono::steady_clock::now();
  if (now - second > std::chrono::seconds(1)) *this = {now, 0};
  return ++admitted <= kMostASecond;
}

}  // namespace millrace::server::http
