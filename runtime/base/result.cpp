#include "runtime/base/result.hpp"

namespace millrace {
namespace {

struct Described {
  std::string_view name;
  int exit_code;
};

Described describe(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return {"invalid_input", 2};
    case ErrorCode::kNotFound:
      return {"not_found", 2};
    case ErrorCode::kUnsupported:
      return {"unsupported", 2};
    case ErrorCode::kDoesNotFit:
      return {"does_not_fit", 1};
    case ErrorCode::kResourceExhausted:
      return {"resource_exhausted", 1};
    case ErrorCode::kUnavailable:
      return {"unavailable", 1};
    case ErrorCode::kDeadlineExceeded:
      return {"deadline_exceeded", 1};
    case ErrorCode::kCancelled:
      return {"cancelled", 1};
    case ErrorCode::kCorrupt:
      return {"corrupt", 2};
    case ErrorCode::kEnvironment:
      return {"environment", 3};
    case ErrorCode::kInternal:
      break;
  }
  return {"internal", 70};
}

}  // namespace

std::string_view to_string(ErrorCode code) {
  return describe(code).name;
}

int exit_code(ErrorCode code) {
  return describe(code).exit_code;
}

}  // namespace millrace
