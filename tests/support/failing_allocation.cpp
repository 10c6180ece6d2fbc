#include "tests/support/failing_allocation.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace millrace::tests {
namespace {

constexpr long kDisarmed = -1;
std::atomic<long> until_failure{kDisarmed};  // allocations that still succeed
thread_local int exemptions = 0;

}  // namespace

void fail_allocation(long n) {
  until_failure = n;
}

bool stop_failing() {
  return until_failure.exchange(kDisarmed) < 0;
}

bool allocation_fails() {
  if (exemptions > 0 || until_failure.load(std::memory_order_relaxed) < 0) return false;
  return until_failure.fetch_sub(1) == 0;
}

Exempt::Exempt() {
  ++exemptions;
}

Exempt::~Exempt() {
  --exemptions;
}

}  // namespace millrace::tests

// Not inlined, or GCC sees new end in malloc and takes it for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (!millrace::tests::allocation_fails())
    if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
