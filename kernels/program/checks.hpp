// The parts of validate(). A check that fails throws a Finding, and validate() turns it into its message.
#pragma once

#include <string>

#include "kernels/program/program.hpp"

namespace millrace::kernels::checks {

/// The first error in a program: a text that starts with the field's name.
struct Finding {
  std::string text;
};

/// Throws a Finding whose text is all `parts`, texts and numbers, one after the other.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  Finding finding;
  const auto append = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      finding.text += std::to_string(part);
    } else {
      finding.text += part;
    }
  };
  (append(parts), ...);
  throw finding;
}

/// Fails with `parts` unless `condition` holds.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(parts...);
}

bool is_legal(ElementType type);

/// Checks the shapes, types and constants of one block, and that nothing it computes can overflow. Its tensor
/// indices must already be checked.
void check_operation(const Program& program, const Block& block);

}  // namespace millrace::kernels::checks
