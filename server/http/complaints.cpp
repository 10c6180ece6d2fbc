#include "server/http/complaints.hpp"

#include <algorithm>

#include "runtime/base/log.hpp"

namespace millrace::server::http {
namespace {

constexpr unsigned kMostASecond = 10;
constexpr std::size_t kLongestId = 128, kLongestRequest = 200, kLongestAnswer = 300;

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kLongestId &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F && c != '"'; });
}

}  // namespace

std::string Complaints::about(const Response& answer, std::string_view request, std::string_view given_id) {
  std::string id = is_request_id(given_id) ? std::string(given_id)
                                           : std::to_string(thread_) + "-" + std::to_string(++count_);
  // 501 is the client's doing, and what passes by itself is said by whoever made it happen.
  const bool ours = answer.status == 500 || (answer.status == 503 && !answer.retry_after_seconds);
  const auto level = ours ? log::Level::kWarning : log::Level::kDebug;
  if (log::enabled(level) && may_log())
    log::about_request(level, "http",
                       std::string(request.substr(0, kLongestRequest)) + ": " +
                           std::to_string(answer.status) + " " + answer.body.substr(0, kLongestAnswer),
                       id);
  return id;
}

bool Complaints::may_log() {
  const auto now = std::chrono::steady_clock::now();
  if (now - second_ > std::chrono::seconds(1)) {
    second_ = now;
    logged_ = 0;
  }
  return ++logged_ <= kMostASecond;
}

}  // namespace millrace::server::http
