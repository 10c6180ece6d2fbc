// Replaces operator new and delete. They have a source file to themselves, because a compiler that inlines them warns
// that memory from malloc is released with delete.
#include "tests/support/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<std::uint64_t> total{0};
std::atomic<std::size_t> most{std::numeric_limits<std::size_t>::max()};
std::atomic<std::uint64_t> failed{0};
thread_local std::uint64_t own = 0;
thread_local bool uncounted = false;

void* allocate_or_null(std::size_t bytes, std::size_t alignment = 1) noexcept {
  if (bytes > most.load(std::memory_order_relaxed)) {
    ++failed;
    return nullptr;
  }
  ++own;
  if (!uncounted) total.fetch_add(1, std::memory_order_relaxed);
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate(std::size_t bytes, std::size_t alignment = 1) {
  void* const memory = allocate_or_null(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The array forms and the sized forms of delete call the operators below, as the C++ standard defines.
void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace millrace::tests {

std::uint64_t allocations() {
  return total.load(std::memory_order_relaxed);
}

std::uint64_t allocations_of_this_thread() {
  return own;
}

Uncounted::Uncounted() : before_(uncounted) {
  uncounted = true;
}

Uncounted::~Uncounted() {
  uncounted = before_;
}

FailAbove::FailAbove(std::size_t bytes) {
  failed = 0;
  most = bytes;
}
FailAbove::~FailAbove() {
  most = std::numeric_limits<std::size_t>::max();
}
std::uint64_t FailAbove::failures() const {
  return failed;
}

}  // namespace millrace::tests
