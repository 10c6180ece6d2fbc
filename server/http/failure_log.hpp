// The last requests that failed, kept for whoever asks (/v2/millrace/errors).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::server::http {

struct Failure {
  std::int64_t unix_ms = 0;
  unsigned status = 0;
  std::string target, body;  // cut where long
};

/// Any thread. note() needs no memory: it is called where there may be none.
class FailureLog {
 public:
  void note(std::string_view target, unsigned status, std::string_view body) noexcept {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::lock_guard lock(mutex_);
    Kept& kept = kept_[count_++ % kept_.size()];
    kept.unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    kept.status = status;
    kept.target_bytes = copy(target, kept.target);
    kept.body_bytes = copy(body, kept.body);
  }

  /// Oldest first.
  std::vector<Failure> read() const {
    const std::lock_guard lock(mutex_);
    std::vector<Failure> out;
    for (std::uint64_t i = count_ - std::min<std::uint64_t>(count_, kept_.size()); i < count_; ++i) {
      const Kept& kept = kept_[i % kept_.size()];
      out.push_back({kept.unix_ms, kept.status, std::string(kept.target.data(), kept.target_bytes),
                     std::string(kept.body.data(), kept.body_bytes)});
    }
    return out;
  }

 private:
  struct Kept {
    std::int64_t unix_ms = 0;
    unsigned status = 0;
    std::array<char, 128> target{};
    std::array<char, 512> body{};
    std::size_t target_bytes = 0, body_bytes = 0;
  };

  template <std::size_t N>
  static std::size_t copy(std::string_view from, std::array<char, N>& to) noexcept {
    return from.copy(to.data(), to.size());
  }

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::array<Kept, 64> kept_{};
};

}  // namespace millrace::server::http
