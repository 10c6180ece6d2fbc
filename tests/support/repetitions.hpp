// How often tests that kill, cut or reload something do so.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace millrace::tests {

/// Returns the number in the environment variable MILLRACE_REPETITIONS, or `usual` if it is not set. Long runs set it.
inline int repetitions(int usual) {
  const char* const asked = std::getenv("MILLRACE_REPETITIONS");
  return asked == nullptr ? usual : std::max(std::atoi(asked), 1);
}

}  // namespace millrace::tests
