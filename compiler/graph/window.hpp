// The window of an ONNX Conv or pooling operator, all of auto_pad, ceil_mode and one-dimensional forms
// resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::graph {

struct ResolvedWindow {
  Geometry geometry;  // one-dimensional windows have kernel_h = 1
  std::int64_t out_h = 0, out_w = 0;
  bool padded = false;  // some window reads outside the input
};

/// `input` is [N, C, W] or [N, C, H, W]; `kernel` its spatial extents, as many as the input has spatial axes.
/// On failure `why` says what does not hold, and the result is empty.
std::optional<ResolvedWindow> resolve_window(const OnnxOperator& op, const Shape& input,
                                             const std::vector<std::int64_t>& kernel, std::string& why);

}  // namespace millrace::compiler::graph
