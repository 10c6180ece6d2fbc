#include "server/http/request_log.hpp"

#include <algorithm>

#include "runtime/base/log.hpp"
#include "server/http/response_head.hpp"

namespace millrace::server::http {
namespace {

constexpr unsigned kMostASecond = 10;
constexpr std::size_t kLongestId = 128, kLongestTarget = 200, kLongestAnswer = 300;

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kLongestId &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F && c != '"'; });
}

std::string told(const Response& answer, std::string_view method, std::string_view target) {
  std::string text(method);
  text += ' ';
  text += target.substr(0, kLongestTarget);
  text += ": " + std::to_string(answer.status);
  if (answer.status >= 400) return text + ' ' + answer.body.substr(0, kLongestAnswer);
  return text + ", " + std::to_string(body_bytes(answer)) + " bytes";
}

}  // namespace

std::string_view RequestLog::about(const Response& answer, std::string_view method, std::string_view target,
                                   std::string_view given_id) {
  std::string_view id = is_request_id(given_id) ? given_id : std::string_view();
  if (id.empty() && answer.status >= 400) id = id_ = std::to_string(thread_) + "-" + std::to_string(++count_);
  // 501 is the client's doing, and what passes by itself is said by whoever made it happen.
  const bool ours = answer.status == 500 || (answer.status == 503 && !answer.retry_after_seconds);
  const auto level = ours ? log::Level::kWarning : log::Level::kDebug;
  if (log::enabled(level) && (!ours || may_warn()))
    log::about_request(level, "http", told(answer, method, target), id);
  return id;
}

bool RequestLog::may_warn() {
  const auto now = std::chrono::steady_clock::now();
  if (now - second_ > std::chrono::seconds(1)) {
    second_ = now;
    warned_ = 0;
  }
  return ++warned_ <= kMostASecond;
}

}  // namespace millrace::server::http
