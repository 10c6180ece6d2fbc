// The Date header of answers (RFC 9110, 6.6.1).
#pragma once

#include <array>
#include <chrono>
#include <ctime>
#include <string_view>

namespace millrace::server::http {

/// "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate, RFC 9110, 5.6.7). Allocates nothing and asks no locale.
std::array<char, 29> imf_fixdate(std::chrono::sys_seconds time);

/// The current time as a Date header writes it, formatted at most once a second. Of one I/O thread.
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
