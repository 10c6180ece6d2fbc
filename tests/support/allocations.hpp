// Counts calls of operator new. A program that links counted_allocations has all forms of its operators new
// and delete replaced. Under the address sanitizer the array forms are not counted.
#pragma once

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

}  // namespace millrace::tests
