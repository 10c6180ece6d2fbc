// Resize and Upsample by linear interpolation. Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// Whether a Resize or Upsample has the mode linear.
bool is_linear(const OnnxOperator& op);

/// Infers a node for which is_linear() holds. Refuses the forms that lower_linear() does not take.
std::string infer_linear(Inference& c);

/// Lowers a node for which is_linear() holds to a convolution whose output channels are the pixels that one element and its
/// neighbours give, and a move that puts these pixels side by side.
Outcome lower_linear(Site& site);

}  // namespace millrace::compiler::operators
