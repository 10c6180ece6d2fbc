// A mapping of anonymous shared memory (memfd). The memory is sparse: untouched pages cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/base/result.hpp"

namespace millrace::runtime::emulator {

/// Owns the mapping and, if there is one, the descriptor of the memory.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory() { reset(); }
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  /// Creates zeroed memory whose descriptor is closed on exec. Returns kResourceExhausted if the system refuses.
  static Result<SharedMemory> create(const char* name, std::uint64_t bytes);
  /// Maps all of a memory that another process created. Takes ownership of `descriptor`. Empty memory is not mapped.
  static Result<SharedMemory> open(int descriptor);

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }

  template <class T>
  T& as() const {
    return *reinterpret_cast<T*>(data_);
  }

  /// Returns the pages of a range to the system. The range reads as zeros afterwards.
  void discard(std::uint64_t offset, std::uint64_t length) const;

 private:
  void reset();

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace millrace::runtime::emulator
