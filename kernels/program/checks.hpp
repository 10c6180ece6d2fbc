// The checks that validate() consists of. A failed check throws a Finding, which validate() turns into its message.
#pragma once

#include <string>

#include "kernels/program/program.hpp"

namespace millrace::kernels::checks {

/// The first error in a program: a text that starts with the field's name.
struct Finding {
  std::string text;
};

/// Throws a Finding whose text consists of all `parts` (texts and numbers) in order.
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

/// Throws a Finding with the text `parts` unless `condition` holds.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(parts...);
}

bool is_legal(ElementType type);

/// Checks the shapes, types and constants of one block, and that nothing the block computes can overflow. The block's
/// tensor indices must already be checked.
void check_operation(const Program& program, const Block& block);

}  // namespace millrace::kernels::checks
