// An answer as it goes over the wire: its head as bytes, its body in a content coding.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "server/http/connection/coding.hpp"
#include "server/http/message.hpp"

namespace millrace::server::http {

struct HeadOptions {
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

/// "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate, RFC 9110, 5.6.7).
std::string imf_fixdate(std::time_t time);

/// The current time for the Date header, formatted at most once a second. For one I/O thread.
class DateHeader {
 public:
  /// Good until the next call.
  std::string_view now() {
    const std::time_t second = std::time(nullptr);
    if (second != second_) text_ = imf_fixdate(second_ = second);
    return text_;
  }

 private:
  std::time_t second_ = -1;
  std::string text_;
};

}  // namespace millrace::server::http
