// Where no exception may pass: threads of ours, and steps between what was taken apart and what must be put
// together again.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "runtime/base/result.hpp"

namespace millrace::server::models {

/// The exception that is being handled, as an error: kResourceExhausted (memory), kEnvironment (the system
/// refuses a file or a thread), else kInternal. Needs no memory where there is none.
inline Error current_exception_as_error() noexcept {
  const auto said = [](ErrorCode code, const char* what) noexcept {
    try {
      return Error(code, what);
    } catch (const std::exception&) {
      return Error(ErrorCode::kResourceExhausted, "out of memory");
    }
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return said(ErrorCode::kResourceExhausted, "out of memory");
  } catch (const std::length_error& error) {  // more than any memory holds
    return said(ErrorCode::kResourceExhausted, error.what());
  } catch (const std::system_error& error) {
    return said(ErrorCode::kEnvironment, error.what());
  } catch (const std::exception& error) {
    return said(ErrorCode::kInternal, error.what());
  }
}

/// What `work` returns, a Result, or nothing: then a Status. What it throws is its error.
template <class Work>
auto guarded(Work&& work) noexcept {
  using Returned = std::invoke_result_t<Work>;
  using Out = std::conditional_t<std::is_void_v<Returned>, Status, Returned>;
  try {
    if constexpr (std::is_void_v<Returned>) {
      std::forward<Work>(work)();
      return Out();
    } else {
      return Out(std::forward<Work>(work)());
    }
  } catch (const std::exception&) {
    return Out(current_exception_as_error());
  }
}

/// The error that `make` makes, or that there is no memory for it.
template <class Make>
Error guarded_error(Make&& make) noexcept {
  try {
    return std::forward<Make>(make)();
  } catch (const std::exception&) {
    return current_exception_as_error();
  }
}

}  // namespace millrace::server::models
