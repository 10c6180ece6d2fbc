// Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// Emits the conversion of `sums` to floats, and the move of their channels to pixels: from [1, O * h * w, H, W] to [1, O,
/// H * h, W * w]. If the node's result has fewer rows or columns than that, only the first ones are kept.
void emit_pixels(Site& site, ValueId sums, Chain chain, std::int64_t h, std::int64_t w);

}  // namespace millrace::compiler::operators
