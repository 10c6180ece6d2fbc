// An answer as it goes over the wire: its head as bytes, its body in a content coding.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "server/http/connection/coding.hpp"
#include "server/http/message.hpp"

namespace millrace::server::http {

struct HeadOptions {
  std::uint64_t content_length = 0;
  bool http_1_0 = false, keep_alive = true;
  Coding coding = Coding::kIdentity;
  bool varies = false;  // caches may keep the answer, and other clients may get it in another coding
  std::string_view more_headers;  // whole lines, beside those of the response
  std::string_view request_id;    // empty: none
  std::string_view date;          // from DateHeader
};

/// Replaces `out` by the status line, the headers and an empty line. Allocates nothing if `out` has room.
void write_response_head(std::string& out, const Response& response, const HeadOptions& options);

/// Puts an answer of at least `least` bytes into `coding` if that makes it smaller. Returns its coding.
Coding compressed(Response& response, Coding coding, std::uint64_t least);

/// "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate, RFC 9110, 5.6.7). Allocates nothing and asks no locale.
std::array<char, 29> imf_fixdate(std::chrono::sys_seconds time);

/// The current time for the Date header, formatted at most once a second. For one I/O thread.
class DateHeader {
 public:
  /// Good until the next call.
  std::string_view now() {
    const std::time_t second = std::time(nullptr);
    if (second != second_) {
      second_ = second;
      text_ = imf_fixdate(std::chrono::sys_seconds(std::chrono::seconds(second)));
    }
    return {text_.data(), text_.size()};
  }

 private:
  std::time_t second_ = -1;
  std::array<char, 29> text_{};
};

}  // namespace millrace::server::http
