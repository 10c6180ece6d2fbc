// Draws random contents for memory files from a fixed seed. Private to tools/calibrate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace millrace::tools::calibrate {

/// One line of a memory file. Fields are appended from the lowest bit upwards.
class Line {
 public:
  void field(std::int64_t value, std::int64_t bits) {
    for (std::int64_t i = 0; i < bits; ++i)
      bits_.push_back(((value >> std::min<std::int64_t>(i, 63)) & 1) != 0);
  }
  std::string hex() const {
    std::string text;
    for (std::size_t at = 0; at < bits_.size(); at += 4) {
      unsigned digit = 0;
      for (std::size_t i = 0; i < 4 && at + i < bits_.size(); ++i) digit |= (bits_[at + i] ? 1U : 0U) << i;
      text.insert(text.begin(), "0123456789abcdef"[digit]);
    }
    return text + "\n";
  }

 private:
  std::vector<bool> bits_;
};

struct Content {
  std::mt19937_64 random{1};

  std::int64_t uniform(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from + 1));
  }
  /// Draws a value that is approximately normally distributed with a third of the range as standard deviation. Never
  /// returns the most negative value.
  std::int64_t normal(std::int64_t bits) {
    const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << (bits - 1)) - 1, 1);
    std::int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += uniform(-most, most);
    return std::clamp<std::int64_t>(sum / 3, -most, most);
  }

  std::string table(std::int64_t lines, const std::function<void(Line&)>& fill) {
    std::string text;
    for (std::int64_t i = 0; i < lines; ++i) {
      Line line;
      fill(line);
      text += line.hex();
    }
    return text;
  }
};

}  // namespace millrace::tools::calibrate
