// Counts calls of operator new, and makes those for many bytes fail. A program that links counted_allocations has all forms of its operators new
// and delete replaced. Under the address sanitizer the array forms are not counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::tests {

/// The calls of operator new so far by all threads outside an Uncounted. Any thread may call this.
std::uint64_t allocations();

/// The calls of operator new so far by the calling thread.
std::uint64_t allocations_of_this_thread();

/// While this object lives, its thread's calls are not counted in allocations(). Meant for the thread that
/// only drives the test.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  bool before_;
};

/// While this object lives, every call of operator new for more than `bytes` bytes fails, in all threads.
class FailAbove {
 public:
  explicit FailAbove(std::size_t bytes);
  ~FailAbove();
  FailAbove(const FailAbove&) = delete;
  FailAbove& operator=(const FailAbove&) = delete;

  /// The calls that have failed since this object was made.
  std::uint64_t failures() const;
};

}  // namespace millrace::tests
