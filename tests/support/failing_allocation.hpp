// An allocation that fails, chosen by its number. A program that links failing_allocation has its operators
// new and delete replaced; not together with counted_allocations.
#pragma once

namespace millrace::tests {

/// The allocation after `n` more fails with std::bad_alloc, and no other; of all threads outside an Exempt.
/// Negative: none does.
void fail_allocation(long n);

/// No allocation fails from now on. Whether the chosen one had its turn.
bool stop_failing();

/// To be asked by other allocators than operator new: whether this allocation is the one. Counts it.
bool allocation_fails();

/// Allocations of this thread count not and succeed, as long as it lives. May be nested.
class Exempt {
 public:
  Exempt();
  ~Exempt();
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;
};

}  // namespace millrace::tests
