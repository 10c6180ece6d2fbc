#include "server/http/request_log.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

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

/// "127.0.0.1:4711", "[::1]:4711".
std::string text_of(const sockaddr* peer) {
  char host[INET6_ADDRSTRLEN] = "";
  if (peer != nullptr && peer->sa_family == AF_INET) {
    const auto& v4 = *reinterpret_cast<const sockaddr_in*>(peer);
    ::inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (peer != nullptr && peer->sa_family == AF_INET6) {
    const auto& v6 = *reinterpret_cast<const sockaddr_in6*>(peer);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return peer != nullptr && peer->sa_family == AF_UNIX ? "a Unix socket" : "nobody knows where";
}

std::string told(const Response& answer, const Asked& asked) {
  std::string text;
  if (!asked.admin.empty()) text.append("admin ").append(asked.admin).append(": ");
  text.append(asked.method).append(" ").append(asked.target.substr(0, kLongestTarget));
  text += ": " + std::to_string(answer.status);
  if (answer.status >= 400)
    text += ' ' + answer.body.substr(0, kLongestAnswer);
  else
    text += ", " + std::to_string(body_bytes(answer)) + " bytes";
  return text + " (from " + text_of(asked.peer) + ")";
}

}  // namespace

std::string_view RequestLog::about(const Response& answer, const Asked& asked) {
  std::string_view id = is_request_id(asked.id) ? asked.id : std::string_view();
  const bool admin = !asked.admin.empty();
  if (id.empty() && (answer.status >= 400 || admin))
    id = id_ = std::to_string(thread_) + "-" + std::to_string(++count_);
  // 501 is the client's doing, and what passes by itself is said by whoever made it happen.
  const bool ours = answer.status == 500 || (answer.status == 503 && !answer.retry_after_seconds);
  const bool denied = answer.status == 401 || answer.status == 403;
  const auto level = ours || denied ? log::Level::kWarning : admin ? log::Level::kInfo : log::Level::kDebug;
  if (!log::enabled(level)) return id;
  if (!admin && ((ours && !failures_.admits()) || (denied && !denials_.admits()))) return id;
  log::about_request(level, "http", told(answer, asked), id);
  return id;
}

bool RequestLog::Bound::admits() {
  const auto now = std::chrono::steady_clock::now();
  if (now - second_ > std::chrono::seconds(1)) {
    second_ = now;
    admitted_ = 0;
  }
  return ++admitted_ <= kMostASecond;
}

}  // namespace millrace::server::http
