// Writes the head of an answer (status line and headers), and compresses its body.
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
  bool varies = false;            // adds "Vary: Accept-Encoding": the answer's coding depends on the client
  std::string_view more_headers;  // further whole lines, besides Response::more_headers
  std::string_view request_id;    // the header X-Request-Id; empty: no such header
  std::string_view date;          // the header Date
};

/// Replaces the text of `out` by the status line, the headers and an empty line. Allocates nothing if `out` has
/// enough capacity.
void write_response_head(std::string& out, const Response& response, const HeadOptions& options);

/// Compresses the body of an answer if it has at least `least` bytes and becomes smaller. Returns the answer's coding.
Coding compressed(Response& response, Coding coding, std::uint64_t least);

/// Returns a time as HTTP headers write it: "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate, RFC 9110, 5.6.7).
std::string imf_fixdate(std::time_t time);

/// The value of the Date header. It is formatted at most once a second. Each I/O thread has its own object.
class DateHeader {
 public:
  /// Returns the current time. The view is valid until the next call.
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
