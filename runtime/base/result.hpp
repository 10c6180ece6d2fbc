// Errors: a code that a program can act on, and a message that a person can act on.
//
// A function that can fail because of its input or environment returns Result<T>; assert() checks for bugs of
// Millrace itself. A message names the cause and the remedy: "cluster three.yaml:7: unknown key 'cabels';
// known keys: cables, cards, name".
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace millrace {

enum class ErrorCode {
  kInvalidInput,       // malformed, wrong shape, unknown key: the caller must change the input
  kNotFound,           // no such file, model, tensor or card
  kUnsupported,        // valid, but Millrace does not support it (yet)
  kDoesNotFit,         // the request cannot be met: too few resources, missed targets, different bytes
  kResourceExhausted,  // a limit was reached (queue, slots, memory, disk); may succeed later
  kUnavailable,        // a card is lost, draining or loading; may succeed later
  kDeadlineExceeded,   // the deadline passed before the answer
  kCancelled,          // the caller went away or requested a stop
  kCorrupt,            // a checksum or a data structure of Millrace is wrong
  kEnvironment,        // the machine lacks something: library, device, permission, port
  kInternal,           // Millrace has a bug
};

/// Returns the code's short name for logs and JSON, such as "invalid_input". The name never changes.
std::string_view to_string(ErrorCode code);

/// Returns the exit code of a command that ends with this error: 1 if the request cannot be met, 2 for bad
/// input, 3 for the environment, 70 for a bug of Millrace.
int exit_code(ErrorCode code);

class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// Returns the same error with the caller's context before the message: "<context>: <message>".
  Error within(std::string_view context) const {
    return Error(code_, std::string(context) + ": " + message_);
  }

 private:
  ErrorCode code_;
  std::string message_;
};

/// Holds either a T or an Error. The caller must test ok() before it calls value().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    assert(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace millrace

/// Evaluates `expr`. If it failed, returns its error from the current function.
#define MILLRACE_TRY(expr)                                                        \
  do {                                                                            \
    if (auto try_status_ = (expr); !try_status_.ok()) return try_status_.error(); \
  } while (false)

#define MILLRACE_CONCAT_INNER(a, b) a##b
#define MILLRACE_CONCAT(a, b) MILLRACE_CONCAT_INNER(a, b)
/// MILLRACE_ASSIGN(auto x, make_x()) sets x on success, else returns the error from the current function.
#define MILLRACE_ASSIGN(declaration, expr)                                                                 \
  auto MILLRACE_CONCAT(try_result_, __LINE__) = (expr);                                                    \
  if (!MILLRACE_CONCAT(try_result_, __LINE__).ok()) return MILLRACE_CONCAT(try_result_, __LINE__).error(); \
  declaration = std::move(MILLRACE_CONCAT(try_result_, __LINE__)).value()
