// Memory set aside for one handler, so that bringing a request back to its connection's thread cannot fail.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace millrace::server::http {

/// For one handler at a time: the next may be posted once the last has begun to run. Outlives the handler.
class HandlerMemory {
 public:
  HandlerMemory() = default;
  HandlerMemory(const HandlerMemory&) = delete;
  HandlerMemory& operator=(const HandlerMemory&) = delete;

  void* take(std::size_t bytes) {
    if (taken_ || bytes > sizeof bytes_) throw std::bad_alloc();
    taken_ = true;
    return bytes_;
  }
  void give_back() noexcept { taken_ = false; }

 private:
  alignas(std::max_align_t) std::byte bytes_[256];
  bool taken_ = false;
};

template <class T>
struct HandlerAllocator {
  using value_type = T;
  explicit HandlerAllocator(HandlerMemory& from) noexcept : memory(&from) {}
  template <class U>
  HandlerAllocator(const HandlerAllocator<U>& other) noexcept : memory(other.memory) {}
  T* allocate(std::size_t count) { return static_cast<T*>(memory->take(count * sizeof(T))); }
  void deallocate(T*, std::size_t) noexcept { memory->give_back(); }
  template <class U>
  bool operator==(const HandlerAllocator<U>& other) const noexcept {
    return memory == other.memory;
  }

  HandlerMemory* memory;
};

/// A function for boost::asio::post to an io_context's own executor (an any_io_executor would forget the
/// allocator).
template <class Function>
class WithMemory {
 public:
  using allocator_type = HandlerAllocator<Function>;
  WithMemory(HandlerMemory& memory, Function function) : memory_(&memory), function_(std::move(function)) {}
  allocator_type get_allocator() const noexcept { return allocator_type(*memory_); }
  void operator()() { function_(); }

 private:
  HandlerMemory* memory_;
  Function function_;
};

}  // namespace millrace::server::http
