// What the files of compiler/coverage share.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/coverage/coverage.hpp"
#include "compiler/graph/graph.hpp"

namespace millrace::compiler::coverage {

struct Work {
  std::uint64_t multiply_accumulates = 0, weights = 0;
};

/// Returns the work of each ONNX node, by name: that of convolutions and matrix products.
std::map<std::string, Work> work_of(const graph::Graph& graph);

/// Returns the nearest change of the model that brings the node to hardware, or to anybody; empty if the node needs none or
/// none is known. `assumed`: the model is a float model.
std::string advice(const NodeCoverage& node, bool assumed);

}  // namespace millrace::compiler::coverage
