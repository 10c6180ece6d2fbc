// Sleeps and wakes across processes on a word of shared memory: futex(2) without its private flag.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace millrace::runtime::emulator {

using Word = std::atomic<std::uint32_t>;
using LongWord = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4, "a futex is a plain 32-bit word");
static_assert(LongWord::is_always_lock_free && sizeof(LongWord) == 8);

/// Sleeps while `word` is `expected`, for at most `timeout` (null: without limit). May return early, so the
/// caller must check the word again.
inline void futex_wait(const Word& word, std::uint32_t expected, const timespec* timeout = nullptr) {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT, expected, timeout, nullptr,
          0);
}

inline void futex_wake(const Word& word, int count) {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace millrace::runtime::emulator
