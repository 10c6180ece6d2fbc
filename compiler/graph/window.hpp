// The window of an ONNX Conv or pooling operator, with auto_pad, ceil_mode and one-dimensional forms resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::graph {

struct ResolvedWindow {
  kernels::Window window;  // one-dimensional windows have kernel_h = 1
  std::int64_t out_h = 0, out_w = 0;
  bool padded = false;  // some window reads outside the input
};

/// `input` is [N, C, W] or [N, C, H, W]. `kernel` has one extent per spatial axis. If the window is not valid,
/// the result is empty and `why` says why.
std::optional<ResolvedWindow> resolve_window(const OnnxOperator& op, const Shape& input,
                                             const std::vector<std::int64_t>& kernel, std::string& why);

}  // namespace millrace::compiler::graph
