#include "tests/paths/paths.hpp"

namespace millrace::tests {

const char* source_dir() {
  return MILLRACE_SOURCE_DIR;
}

const char* binary_dir() {
  return MILLRACE_BINARY_DIR;
}

}  // namespace millrace::tests
