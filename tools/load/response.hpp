// The part of HTTP that a load generator needs: finding the end of a response and its status.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::load {

class ResponseReader {
 public:
  enum class State { kMore, kDone, kMalformed };

  /// Parses the next bytes of a response. Returns kDone if they complete the response, and kMalformed if further bytes
  /// follow it, because requests are not pipelined.
  State feed(std::string_view bytes) {
    if (in_body_) return take_body(bytes.size());
    head_.append(bytes);
    const std::size_t end = head_.find("\r\n\r\n", from_);
    if (end == std::string::npos) {
      from_ = head_.size() < 3 ? 0 : head_.size() - 3;
      return head_.size() > kHeadLimit ? State::kMalformed : State::kMore;
    }
    if (!parse(std::string_view(head_).substr(0, end + 2))) return State::kMalformed;
    in_body_ = true;
    return take_body(head_.size() - (end + 4));
  }

  unsigned status() const { return status_; }
  bool closes() const { return closes_; }

  void reset() {
    head_.clear();
    from_ = left_ = 0;
    status_ = 0;
    in_body_ = closes_ = false;
  }

 private:
  static constexpr std::size_t kHeadLimit = 64U << 10U;

  State take_body(std::size_t bytes) {
    if (bytes > left_) return State::kMalformed;
    left_ -= bytes;
    return left_ == 0 ? State::kDone : State::kMore;
  }

  template <class T>
  static bool number(std::string_view text, T& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
  }

  static bool same(std::string_view a, std::string_view lower) {
    return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
      return (x >= 'A' && x <= 'Z' ? static_cast<char>(x + 32) : x) == y;
    });
  }

  /// Parses the status line and header fields of the response. `head` includes the line ends.
  bool parse(std::string_view head) {
    if (head.size() < 12 || !head.starts_with("HTTP/1.") || !number(head.substr(9, 3), status_)) return false;
    closes_ = head[7] == '0';
    bool has_length = false;
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      const std::size_t end = head.find("\r\n", at);
      const std::string_view line = head.substr(at, end - at);
      at = end + 2;
      const std::size_t colon = line.find(':');
      if (colon == std::string_view::npos) return false;
      std::string_view value = line.substr(colon + 1);
      while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
      while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
      if (same(line.substr(0, colon), "content-length")) {
        if (!number(value, left_)) return false;
        has_length = true;
      } else if (same(line.substr(0, colon), "connection")) {
        closes_ = same(value, "close") || (closes_ && !same(value, "keep-alive"));
      }
    }
    return has_length;
  }

  std::string head_;  // keeps its memory for the next response
  std::size_t from_ = 0, left_ = 0;
  unsigned status_ = 0;
  bool in_body_ = false, closes_ = false;
};

}  // namespace millrace::load
