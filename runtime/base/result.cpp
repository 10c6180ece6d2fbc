#include "runtime/base/result.hpp"

#include <cstddef>

namespace millrace {
namespace {

struct Described {
  std::string_view name;
  int exit_code;
};

// The name and exit code of each error, in the order of enum ErrorCode.
constexpr Described kCodes[] = {
    {"invalid_input", 2},     {"not_found", 2},          {"unsupported", 2},
    {"does_not_fit", 1},      {"resource_exhausted", 1}, {"unavailable", 1},
    {"deadline_exceeded", 1}, {"cancelled", 1},          {"corrupt", 2},
    {"environment", 3},       {"internal", 70},
};

}  // namespace

std::string_view to_string(ErrorCode code) {
  return kCodes[static_cast<std::size_t>(code)].name;
}

int exit_code(ErrorCode code) {
  return kCodes[static_cast<std::size_t>(code)].exit_code;
}

}  // namespace millrace
