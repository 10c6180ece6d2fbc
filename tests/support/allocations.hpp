// Counts calls of operator new, and can make calls for many bytes fail. Linking counted_allocations replaces all forms
// of operator new and delete in a program. Under the address sanitizer, array forms are not counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::tests {

/// Returns the number of calls of operator new so far by all threads, except calls during an Uncounted. Any thread may
/// call allocations().
std::uint64_t allocations();

/// Returns the number of calls of operator new so far by the calling thread.
std::uint64_t allocations_of_this_thread();

/// While an Uncounted exists, allocations() does not count calls of the thread that made the object. Meant for a thread
/// that only controls the test.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  bool before_;
};

/// While a FailAbove exists, every call of operator new for more than `bytes` bytes fails, in all threads.
class FailAbove {
 public:
  explicit FailAbove(std::size_t bytes);
  ~FailAbove();
  FailAbove(const FailAbove&) = delete;
  FailAbove& operator=(const FailAbove&) = delete;

  /// Returns how many calls have failed since this object was made.
  std::uint64_t failures() const;
};

}  // namespace millrace::tests
