// How often operator new is called. A program that links counted_allocations has its operators new and delete
// replaced, in all their forms (the address sanitizer keeps those of arrays to itself: they go uncounted
// there).
#pragma once

#include <cstdint>

namespace millrace::tests {

/// Calls of operator new so far, by all threads outside an Uncounted. Any thread.
std::uint64_t allocations();

/// Calls of operator new so far by the calling thread.
std::uint64_t allocations_of_this_thread();

/// While it lives, its thread's calls do not enter allocations(): for the thread that only drives the test.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  bool before_;
};

}  // namespace millrace::tests
