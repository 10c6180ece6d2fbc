// The bytes of messages between ranks. README.md lists the messages. Ranks run the same build, so numbers have the
// machine's own byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::runtime::mpi {

using Bytes = std::vector<std::byte>;

/// Appends values to a message.
class Writer {
 public:
  template <class T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
    return *this;
  }
  Writer& put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<std::uint64_t>(bytes.size()));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Writer& put_text(std::string_view text) { return put_bytes(std::as_bytes(std::span(text))); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads the values of a message in order. A read beyond the end returns zeros and sets failed().
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (rest_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  /// Returns bytes inside the message, which must outlive the result.
  std::span<const std::byte> get_bytes() {
    const auto count = get<std::uint64_t>();
    if (count > rest_.size()) {
      fail();
      return {};
    }
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  std::string get_text() {
    const auto bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool failed() const { return failed_; }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

/// What rank 0 asks the agent of another rank to do with one of its cards.
enum class Operation : std::uint32_t {
  kOpen,
  kClose,
  kLoad,
  kUnload,
  kMakeIngress,
  kMakeEgress,
  kGiveParameters,
  kRead,
  kWrite,
  kStartSupervisor,
  kInfo,
  kSensors,
  kImageUuid,
  kResetDevice,
};

/// What an agent reports without being asked: the end of a supervisor's run.
enum class CardEvent : std::uint32_t { kFault, kLost };

/// The beginning of a message of a stream. It describes one frame, or one order to receive a frame.
struct FrameHeader {
  std::uint32_t epoch = 0;
  std::uint32_t slot = 0;
  std::uint64_t sequence = 0;
  std::uint32_t state = 0;  // a card::RunState, in messages with a result
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FrameHeader) == 24);

/// The payload of a stream's message begins at this offset, so that it is aligned like a card's buffer.
inline constexpr std::size_t kPayloadOffset = 64;

}  // namespace millrace::runtime::mpi
